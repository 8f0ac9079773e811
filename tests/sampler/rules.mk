# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The preloaded library, in programs that check what it reports.

SAMPLER_TEST  := $(OUT)/sampler
SAMPLER_TESTS := $(addprefix $(SAMPLER_TEST)/, \
	  exercise exercise_musl own_malloc operators set_races_tsan set_races_asan \
	  plugin.so next_lockfree.so next_nested.so dlsym_allocates.so)
# -fno-builtin: the compiler must leave each call as it stands.
SAMPLER_TEST_CFLAGS := -std=gnu2x -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wno-missing-field-initializers \
		       $(if $(CI),-Werror) -Wno-alloc-size-larger-than -fno-builtin -pthread -Isrc
SAMPLER_LISTEN := $(addprefix tests/sampler/,trap.c ledger_ops.c)
SAMPLER_EXERCISE := $(SAMPLER_LISTEN) tests/sampler/exercise.c

.PHONY: test-sampler

test-inject: $(SAMPLER_TESTS) # its rules are read before the name of these is set
test-sampler: $(SAMPLERS) $(SAMPLER_TESTS)	## the preloaded library with each allocator, against a ledger
	$(Q)LIBRARY=$(abspath $(SAMPLER)) SAMPLER=$(abspath $(SAMPLER_TEST)) tests/sampler/run.py $(SAMPLER_ARGS)

$(SAMPLER_TESTS) $(SAMPLER_TEST)/trap.o: $(wildcard tests/sampler/*.[ch] tests/sampler/*.cc src/sampler/*.h)

# sampler_test COMPILER,SOURCES AND OPTIONS
define sampler_test
	$(call msg,CC,$@)
	$(Q)mkdir -p $(SAMPLER_TEST)
	$(Q)$(1) $(SAMPLER_TEST_CFLAGS) $(2) -o $@
endef

$(SAMPLER_TEST)/exercise:
	$(call sampler_test,$(CC),$(SAMPLER_EXERCISE) -ldl -lm)
$(SAMPLER_TEST)/exercise_musl:
	$(call sampler_test,musl-gcc,$(SAMPLER_EXERCISE))
$(SAMPLER_TEST)/own_malloc:
	$(call sampler_test,$(CC),tests/sampler/own_malloc.c $(SAMPLER_LISTEN) -lm)
$(SAMPLER_TEST)/trap.o:
	$(call sampler_test,$(CC),-c tests/sampler/trap.c)
$(SAMPLER_TEST)/operators: $(SAMPLER_TEST)/trap.o tests/sampler/operators.cc
	$(call msg,CXX,$@)
	$(Q)$(CROSS_COMPILE)g++ -std=gnu++17 -O2 -g -Wall -Wextra $(if $(CI),-Werror) -fno-builtin -Isrc \
		$(filter %.cc,$^) $(filter %.o,$^) -o $@
$(SAMPLER_TEST)/set_races_tsan:
	$(call sampler_test,$(CC),-fsanitize=thread tests/sampler/set_races.c -lm)
$(SAMPLER_TEST)/set_races_asan:
	$(call sampler_test,$(CC),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all tests/sampler/set_races.c -lm)
$(SAMPLER_TEST)/plugin.so $(SAMPLER_TEST)/next_lockfree.so: $(SAMPLER_TEST)/%.so:
	$(call sampler_test,$(CC),-shared -fPIC tests/sampler/$*.c)
$(SAMPLER_TEST)/next_nested.so:
	$(call sampler_test,$(CC),-shared -fPIC -DNESTED tests/sampler/next_lockfree.c)
$(SAMPLER_TEST)/dlsym_allocates.so:
	$(call sampler_test,$(CC),-shared -fPIC tests/sampler/dlsym_allocates.c -ldl)
