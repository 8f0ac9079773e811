# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Compares names with elfutils' and gdb's, at calls of real programs.

.PHONY: test-names

test-names: $(OUT)/names_of	## compare names of real programs with eu-addr2line and gdb
	$(Q)NAMES_OF=$(abspath $(OUT)/names_of) tests/names/run.py $(NAMES_ARGS)

$(OUT)/names_of: $(OUT)/tests/names/names_of.o $(LIB)
	$(call link,$^ $(LIB_LIBS))
