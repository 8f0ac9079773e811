# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Deliberate mistakes, which tests must notice: applied and built in a copy of the tree. MUTANT_ARGS chooses, or lists (-l).

MUTANTS := $(addprefix mutants-,account oracle unwind leaks python rooms)
MUTANT_UNITS := $(addprefix $(OUT)/mutants/,unwind leaks)

.PHONY: mutants test-mistakes mutants-account mutants-oracle mutants-unwind mutants-leaks mutants-python mutants-rooms

mutants: $(filter-out %-rooms,$(MUTANTS))	## switch off each rule of account, engine, unwinding, leaks, CPython: a test must notice (as root)
test-mistakes: mutants-rooms	## make a mistake in each room of the source: a test must notice (as root)

# A mistake in a room must be noticed by what the gate runs, the others by all that there is.
$(filter-out %-rooms,$(MUTANTS)): export CHECK_FULL := 1
mutants-account: $(OUT)/unit-bpf
mutants-oracle: $(OUT)/oracle-serve
mutants-unwind mutants-leaks: $(MUTANT_UNITS)
mutants-python: $(BIN) $(OUT)/unit $(OUT)/unit-bpf workloads
mutants-rooms: test-programs

$(MUTANTS): mutants-%:
	$(Q)tests/mutants/run.py $* $(MUTANT_ARGS)

$(OUT)/mutants/unwind: $(call obj,$(wildcard tests/unit/unwind/*.c))
$(OUT)/mutants/leaks: $(call obj,$(addprefix tests/unit/engine/,leak_rule.c leak_recordings.c))
$(MUTANT_UNITS): $(LIB)
	$(call link,$(filter %.o,$^) $(LIB) $(API_LIBS) -lelf -lcapstone -lcriterion)
