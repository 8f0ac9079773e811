# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Many snapshots together, against SQL over row tables of the same fleet; and indexing that is killed.

FLEET_DATA := $(OUT)/fleet-data

.PHONY: test-fleet

test-fleet: $(BIN) $(FLEET_DATA) $(OUT)/damage/repair $(OUT)/golden-snapshots	## a fleet's sums and ranks against SQL; indexing killed, bad files
	$(Q)ALLOCSNAP=$(abspath $(BIN)) FLEET_DATA=$(abspath $(FLEET_DATA)) \
		CACHE=$(abspath $(OUT)/chdb) REPAIR=$(abspath $(OUT)/damage/repair) GOLDEN_SNAPSHOTS=$(abspath $(OUT)/golden-snapshots) tests/fleet/run.py $(FLEET_ARGS)

$(FLEET_DATA): $(call obj,$(wildcard scripts/fleet-data/*.c)) $(LIB)
	$(call link,$^ $(API_LIBS) -lsqlite3 -lpthread)
