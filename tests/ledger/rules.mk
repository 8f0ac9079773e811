# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The ledger of tests/live/test_ledger.py: preloaded into programs, and compared with snapshots.

LEDGER := $(OUT)/ledger/ledger.so $(OUT)/ledger/compare $(OUT)/ledger/halt

test-live workloads: $(LEDGER)
workloads-anywhere: $(LEDGER)
test-live: export LEDGER_FOLDER := $(abspath $(OUT)/ledger)

# No jump through a pointer at a function's end: where there are no uprobe sessions, each return is to be found.
$(OUT)/ledger/ledger.so: tests/ledger/ledger.c tests/ledger/ledger.h
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=gnu2x -D_GNU_SOURCE -O2 -g -Wall -Wextra $(if $(CI),-Werror) -Isrc/arch/$(ARCH) -fPIC -shared \
		-fno-optimize-sibling-calls -fvisibility=hidden -fno-builtin -fno-omit-frame-pointer -pthread -Wl,-z,now $< -o $@

$(OUT)/ledger/compare: $(OUT)/tests/ledger/compare.o $(LIB)
	$(call link,$^ $(LIB_LIBS))

$(OUT)/ledger/halt: $(OUT)/tests/ledger/halt.o
	$(call link,$^)

$(OUT)/tests/ledger/compare.o: ALL_CFLAGS += -Itests/ledger
