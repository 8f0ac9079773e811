# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Switches off the rules of the accounting, one at a time; takes some minutes.

.PHONY: mutants

mutants: export FAKE_CC := $(CC)
mutants: export FAKE_CFLAGS := $(ALL_CFLAGS) -Itests/fake_bpf
mutants: export FAKE_OBJ := $(call obj,$(FAKE_SRC)) $(LIB)
mutants: export FAKE_LIBS := $(LIB_LIBS)
mutants: $(OUT)/unit-bpf	## switch off each rule of the books: a test must notice
	$(Q)tests/fake_bpf/mutants.py $(MUTANT_ARGS)
