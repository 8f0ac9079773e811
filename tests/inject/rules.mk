# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A sampler put into running programs, and taken out, while the worst happens.

INJECT_TEST  := $(OUT)/inject
INJECT_TESTS := $(addprefix $(INJECT_TEST)/,storm storm_static refusals bare no_gate hostile free_is_ret.so lockfree.so nested.so \
		  copies_text.so many_pages.so own_sampler.so registers registers_lto shim.so shim_carve.so \
		  shim_plain.so shim_partial.so waits wakes victim_code victim_state pointerless \
		  pointerless_near)
INJECT_TEST_CFLAGS := -std=gnu2x -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wno-missing-field-initializers \
		      $(if $(CI),-Werror) -Wno-alloc-size-larger-than -fno-builtin -pthread -Isrc

.PHONY: test-inject bench-stops

test-inject: $(BIN) $(INJECT_TEST)/injector $(INJECT_TESTS)	## inject into running programs (as root)
	$(Q)ALLOCSNAP=$(abspath $(BIN)) INJECT=$(abspath $(INJECT_TEST)) SAMPLER=$(abspath $(SAMPLER_TEST)) \
		tests/inject/run.py $(INJECT_ARGS)

$(INJECT_TESTS): $(wildcard tests/inject/*.[ch] tests/sampler/next_lockfree.c tests/workloads/shim.so.c)
bench-stops: $(INJECT_TEST)/injector $(addprefix $(INJECT_TEST)/,storm victim_state)	## how long an injection stops threads; OTHER=INJECTOR: of another commit (as root)
	$(Q)mkdir -p $(BENCH)
	$(Q)$(PYTHON) bench/stops.py $(abspath $(INJECT_TEST)/injector $(INJECT_TEST)/storm $(BENCH)) $(OTHER)

$(INJECT_TESTS): $(wildcard tests/inject/*.c tests/sampler/next_lockfree.c)

# inject_test SOURCES AND OPTIONS
define inject_test
	$(call msg,CC,$@)
	$(Q)mkdir -p $(INJECT_TEST)
	$(Q)$(CC) $(INJECT_TEST_CFLAGS) $(1) -o $@
endef

$(INJECT_TEST)/injector: $(call obj,tests/inject/injector.c tests/inject/python_target.c) $(COLLECT) $(LIB)
	$(call link,$^ $(COLLECT_LIBS) $(LIB_LIBS))

$(INJECT_TEST)/storm:
	$(call inject_test,tests/inject/storm.c -ldl)
$(INJECT_TEST)/storm_static:
	$(call inject_test,-static -DSTATIC tests/inject/storm.c)
$(INJECT_TEST)/refusals:
	$(call inject_test,tests/inject/refusals.c -ldl)
$(INJECT_TEST)/hostile:
	$(call inject_test,tests/inject/hostile.c)
$(INJECT_TEST)/registers:
	$(call inject_test,-DONE_FILE tests/inject/registers.c)
$(INJECT_TEST)/registers_lto:
	$(call inject_test,-flto tests/inject/registers.c tests/inject/pool.c)
$(INJECT_TEST)/free_is_ret.so:
	$(call inject_test,-shared -fPIC tests/sampler/next_lockfree.c)
$(INJECT_TEST)/bare:
	$(call inject_test,-static -nostdlib tests/inject/bare.c)
$(INJECT_TEST)/no_gate:
	$(call inject_test,-ffreestanding -static -nostdlib tests/inject/no_gate.c)
# The functions of next_lockfree.c are short: with room at their entries a jump fits.
$(INJECT_TEST)/lockfree.so:
	$(call inject_test,-shared -fPIC -fpatchable-function-entry=8 tests/sampler/next_lockfree.c)
# A symbol of programs that copy their code at their start.
$(INJECT_TEST)/copies_text.so:
	$(call inject_test,-shared -fPIC -fpatchable-function-entry=8 -Wl$(comma)--defsym=__bolt_hugify_self=malloc \
		tests/sampler/next_lockfree.c)
$(INJECT_TEST)/many_pages.so:
	$(call inject_test,-shared -fPIC -fpatchable-function-entry=8 tests/inject/many_pages.c)
# Any library with probes of provider otel_memory.
$(INJECT_TEST)/own_sampler.so:
	$(call inject_test,-shared -fPIC tests/workloads/own_sampler.so.c)
# Allocators above the C library's.
$(INJECT_TEST)/shim.so: SHIM := HEADER
$(INJECT_TEST)/shim_carve.so: SHIM := CARVE
$(INJECT_TEST)/shim_plain.so: SHIM := PLAIN
$(INJECT_TEST)/shim_partial.so: SHIM := PARTIAL
$(filter %shim.so $(INJECT_TEST)/shim_%,$(INJECT_TESTS)):
	$(call inject_test,-shared -fPIC -fpatchable-function-entry=8 -D$(SHIM) tests/workloads/shim.so.c -ldl)
$(INJECT_TEST)/nested.so:
	$(call inject_test,-shared -fPIC -fpatchable-function-entry=8 -DNESTED tests/sampler/next_lockfree.c)
# 32-bit calls and code reach only what lies below 4 GiB.
$(addprefix $(INJECT_TEST)/,waits wakes victim_code victim_state): $(INJECT_TEST)/%: tests/inject/%.c tests/inject/victim.h
	$(call inject_test,-no-pie -fno-pie $<)
$(INJECT_TEST)/pointerless:
	$(call inject_test,-static -nostdlib -ffreestanding -fno-ipa-ra tests/inject/pointerless.c)
$(INJECT_TEST)/pointerless_near:
	$(call inject_test,-static -nostdlib -ffreestanding -fno-ipa-ra -DNEAR tests/inject/pointerless.c)
