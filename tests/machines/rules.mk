# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The program that only reads snapshots, as it is built on other machines.

.PHONY: test-machines

test-machines: $(BIN) $(OUT)/golden-snapshots	## build what reads snapshots without clang, and for arm64; compare what it prints
	$(Q)scripts/install-deps.sh build machines
	$(Q)$(ON_SNAPSHOTS) MACHINES=$(abspath $(OUT)/machines) tests/machines/run.py $(MACHINES_ARGS)
