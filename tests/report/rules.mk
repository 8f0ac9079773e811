# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# HTML reports: their numbers against those of the other commands.

.PHONY: test-report
test-report: $(BIN) $(OUT)/golden-snapshots	## compare the numbers in HTML reports with stats and diff
	$(Q)ALLOCSNAP=$(abspath $(BIN)) SNAPSHOTS=$(abspath $(OUT)/golden-snapshots.d) tests/report/run.py
