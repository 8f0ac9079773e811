# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Damaged files, from the outside: the program itself, in little memory.

.PHONY: test-damage

test-damage: $(BIN) $(OUT)/damage/repair	## damaged, hostile and endless files
	$(Q)ALLOCSNAP=$(abspath $(BIN)) REPAIR=$(abspath $(OUT)/damage/repair) $(if $(SAN),DAMAGE_AS=0) \
		tests/damage/run.py $(DAMAGE_ARGS)

$(OUT)/damage/repair: $(OUT)/tests/damage/repair.o $(LIB)
	$(call link,$^ $(API_LIBS))
