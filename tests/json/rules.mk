# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The JSON of every command against its schema.

.PHONY: test-json
test-json: $(BIN) $(OUT)/golden-snapshots	## check JSON against docs/json-schema.json
	$(Q)ALLOCSNAP=$(abspath $(BIN)) SNAPSHOTS=$(abspath $(OUT)/golden-snapshots.d) tests/json/run.py
