# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# One more target for the copy of the tree in which run.sh checks itself.

.PHONY: made

made: $(OUT)/made	## a program that takes long
	$(Q)touch was-run

$(OUT)/made: $(OUT)/tests/made/program.o
	$(call msg,LINK,$@)
	$(Q)$(CC) $^ -o $@
