# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Files for other tools and of theirs, judged by those tools.

.PHONY: test-formats

test-formats: $(BIN) $(OUT)/golden-snapshots	## files for and of other tools, read and written by those tools
	$(Q)ALLOCSNAP=$(abspath $(BIN)) SNAPSHOTS=$(abspath $(OUT)/golden-snapshots.d) CACHE=$(abspath $(OUT)/formats) \
		tests/formats/run.py $(FORMATS_ARGS)
