# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# How the tests are built and run; part of the Makefile.

UNIT_ROOMS  := $(wildcard tests/unit/*/*.c)
# A file with a header of its own has what tests of other rooms use, too.
UNIT_SHARED := $(wildcard $(patsubst %.h,%.c,$(wildcard tests/unit/*/*.h)))
UNIT_SRC    := $(wildcard tests/unit/*.c) $(if $(ROOMS),$(sort $(call in_rooms,$(UNIT_ROOMS)) $(UNIT_SHARED)),$(UNIT_ROOMS))
FAKE_SRC    := $(wildcard tests/fake_bpf/*.c) tests/unit/leaks.c src/collect/build/sample_weight.c
WORKLOADS   := $(patsubst tests/workloads/%.c,$(OUT)/workloads/%,$(wildcard tests/workloads/*.c)) \
	       $(patsubst tests/workloads/%.cc,$(OUT)/workloads/%,$(wildcard tests/workloads/*.cc))

.PHONY: test test-unit test-golden test-live golden-update workloads workloads-anywhere test-programs test-san t

test:			## after each change, in two minutes: most suites that compute, a few live tests (as root)
	$(Q)tests/run.py test

# All modes: names also by the parser in its sandbox; the BPF programs as native code for uprobe sessions, for uprobes
# and return probes, and for probes on `ret`. One mode: names in this process, uprobes and return probes. With CHECK_FULL=1
# slow tests do all that they can (tests/unit/full.h), and intervals are simulated.
UNIT_MODES   ?= all
UNIT_ENV     := FAKE_UPROBES=1 $(if $(filter all,$(UNIT_MODES)),FAKE_SESSION=1 FAKE_RET=1)
UNIT_PROGRAM := $(if $(if $(ROOMS),$(call in_rooms,$(UNIT_ROOMS)),all),$(OUT)/unit)
FAKE_CORE    := $(if $(CHECK_FULL),,--filter '!(estimates/have_*)')

test-unit: $(UNIT_PROGRAM) $(OUT)/unit-bpf
	$(Q)tests/mutants/run.py --texts
	$(if $(UNIT_PROGRAM),$(Q)tests/criterion.sh $(UNIT_PROGRAM) $(UNIT_ARGS))
	$(if $(filter all,$(UNIT_MODES)),$(Q)SYMBOLS_PARSER=1 tests/criterion.sh $(UNIT_PROGRAM) --filter 'symbols_*/*' $(UNIT_ARGS))
	$(Q)for mode in $(UNIT_ENV); do env $$mode tests/criterion.sh $(OUT)/unit-bpf $(FAKE_CORE) $(UNIT_ARGS) || exit 1; done

# It links the plain objects of all other folders.
test-san: $(OUT)/unit $(OUT)/unit-bpf	## unit tests with sanitizers: of the BPF code, or of SAN_ROOMS="src/elf tests/unit/elf"
	$(Q)ORDERS=$(or $(ORDERS),300) $(MAKE) SAN=1 SAN_ROOMS="$(or $(SAN_ROOMS),tests/fake_bpf)" UNIT_MODES=one \
		UNIT_ARGS="--filter '!(estimates/*)'" test-unit

t:			## build and run the tests with T in their names: make t T=leak
	$(Q)tests/run.py name $(T)

test-golden: $(BIN) $(OUT)/golden-snapshots
	$(Q)$(ON_SNAPSHOTS) tests/golden/run.py $(GOLDEN_ARGS)

golden-update: $(BIN) $(OUT)/golden-snapshots	## accept what the golden tests print now
	$(Q)$(ON_SNAPSHOTS) tests/golden/run.py --update $(GOLDEN_ARGS)

test-live: $(BIN) workloads	## attach to real programs (as root)
	$(Q)$(ON_WORKLOADS) tests/live/run.py $(LIVE_ARGS)

workloads: $(WORKLOADS)

# These have no machine code of x86-64.
workloads-anywhere: $(filter-out $(addprefix $(OUT)/workloads/,claims dropped no_calls nop5 own_sampler% prologue unwind_% usdt_pool),$(WORKLOADS))

# Programs and files of several suites: they are there before the suites begin (run.py).
test-programs: all workloads $(OUT)/unit $(OUT)/unit-bpf $(OUT)/golden-snapshots $(OUT)/damage/repair $(INSTALL_LIBS)

# ---- what is built for them ----

# Tests are compiled without optimization, in a third of the time; the code that they test as it is in the product.
$(OUT)/tests/unit/%.o: ALL_CFLAGS += $(addprefix -I,tests/unit $(wildcard tests/unit/*/)) -O0
$(OUT)/tests/fake_bpf/%.o: ALL_CFLAGS += -Itests/fake_bpf -Itests/unit -Ibpf -Ibpf/arch/$(ARCH) -O0
$(OUT)/tests/fake_bpf/bpf%.o: ALL_CFLAGS += $(if $(SAN),-O1,-O2)
# The headers of some JDK, if there is one.
JDK_HEADERS := $(firstword $(wildcard /usr/lib/jvm/*/include))
$(OUT)/tests/unit/java/java_tables.o: ALL_CFLAGS += $(if $(JDK_HEADERS),-isystem $(JDK_HEADERS) -isystem $(JDK_HEADERS)/linux)
$(OUT)/tests/unit/exact/%.o: ALL_CFLAGS += $(if $(SAN),-O1,-O2)

$(OUT)/tests/unit/symbols/go_table.o: tests/unit/symbols/go_program.S

# These include the types of the BPF skeleton.
$(filter $(OUT)/tests/unit/collect/%,$(call obj,$(UNIT_SRC))): | $(SKEL_TYPES)

$(OUT)/unit: $(call obj,$(UNIT_SRC)) $(APP) $(COLLECT) $(LIB) | $(SAMPLERS)
	$(call link,$^ $(COLLECT_LIBS) $(LIB_LIBS) -lcriterion)

$(OUT)/unit-bpf: $(call obj,$(FAKE_SRC)) $(LIB)
	$(call link,$^ $(LIB_LIBS) -lcriterion)

$(OUT)/golden-snapshots: $(OUT)/tests/golden/make_snapshots.o $(LIB)
	$(call link,$^ $(LIB_LIBS))
	$(Q)rm -rf $@.d && mkdir -p $@.d && $@ $@.d

# Frame pointers, line information, no inlining: programs whose answers are known.
$(OUT)/workloads/%: tests/workloads/%.c $(wildcard tests/workloads/*.h)
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -g -O1 -fno-omit-frame-pointer -fno-inline -fno-optimize-sibling-calls -pthread -Wall $(WORKLOAD_FLAGS) $< -o $@ -ldl -lm

$(OUT)/workloads/%: tests/workloads/%.cc $(wildcard tests/workloads/*.h)
	$(call msg,CXX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CROSS_COMPILE)g++ -g -O1 -fno-omit-frame-pointer -fno-inline -fno-optimize-sibling-calls -pthread -Wall $(WORKLOAD_FLAGS) $< -o $@

$(OUT)/workloads/%.so: WORKLOAD_FLAGS := -shared -fPIC -O2 -fomit-frame-pointer -foptimize-sibling-calls
$(OUT)/workloads/unwind_% $(OUT)/workloads/walks: WORKLOAD_FLAGS := -O2 -fomit-frame-pointer
# Probes of others on the machine's C library do not reach these.
$(addprefix $(OUT)/workloads/,backtraces moved own_pages own_sampler_static remap): WORKLOAD_FLAGS := -static
$(addprefix $(OUT)/workloads/,claims forged_python): WORKLOAD_FLAGS := -rdynamic
$(addprefix $(OUT)/workloads/,claims truth): src/sampler/sampler_info.h
$(OUT)/workloads/cxx_new: tests/workloads/cxx.cc
$(OUT)/workloads/stacks_late: tests/workloads/stacks.c
$(addprefix $(OUT)/workloads/own_sampler_,late static): tests/workloads/own_sampler.c

# A suite that needs more has its own page.
# The folder of benchmarks is a variable for others; the soaks run programs of the suites.
include bench/rules.mk $(wildcard tests/*/rules.mk) bench/soak/rules.mk

# ---- suites that need no more than this ----

.PHONY: test-json test-report test-terminal test-damage test-example test-formats test-placement test-kernels

ON_SNAPSHOTS := ALLOCSNAP=$(abspath $(BIN)) SNAPSHOTS=$(abspath $(OUT)/golden-snapshots.d)
ON_WORKLOADS := ALLOCSNAP=$(abspath $(BIN)) WORKLOADS=$(abspath $(OUT)/workloads)

test-json: $(BIN) $(OUT)/golden-snapshots	## check JSON against docs/json-schema.json
	$(Q)$(ON_SNAPSHOTS) tests/json/run.py $(JSON_ARGS)

test-report: $(BIN) $(OUT)/golden-snapshots	## compare the numbers in HTML reports with stats and diff
	$(Q)$(ON_SNAPSHOTS) tests/report/run.py $(REPORT_ARGS)

test-terminal: $(BIN) man completion $(OUT)/golden-snapshots $(BENCH)/make_traces	## check completion in bash and zsh, man pages, pager, colours and progress
	$(Q)$(ON_SNAPSHOTS) MAN=$(abspath $(OUT)/man) COMPLETION=$(abspath $(OUT)/completion) \
		MAKE_TRACES=$(abspath $(BENCH)/make_traces) tests/terminal/run.py $(TERMINAL_ARGS)

test-formats: $(BIN) $(OUT)/golden-snapshots	## files for and of other tools, read and written by those tools
	$(Q)$(ON_SNAPSHOTS) CACHE=$(abspath $(OUT)/formats) tests/formats/run.py $(FORMATS_ARGS)

test-example: $(BIN) $(INSTALL_LIBS) workloads	## install, and build programs with the libraries
	$(Q)MAKE='$(MAKE)' CC='$(CC)' WORKLOADS=$(abspath $(OUT)/workloads) tests/example/run.sh

test-damage: $(BIN) $(OUT)/damage/repair	## damaged, hostile and endless files
	$(Q)ALLOCSNAP=$(abspath $(BIN)) REPAIR=$(abspath $(OUT)/damage/repair) $(if $(SAN),DAMAGE_AS=0) \
		tests/damage/run.py $(DAMAGE_ARGS)

$(OUT)/damage/repair: $(OUT)/tests/damage/repair.o $(LIB)
	$(call link,$^ $(API_LIBS))

# Debian packages that these two need are fetched once.
test-placement: $(BIN) workloads $(OUT)/unit	## record the allocators of Debian's suites, say where their probes sit (as root)
	$(Q)scripts/install-deps.sh machines
	$(Q)$(ON_WORKLOADS) UNIT=$(abspath $(OUT)/unit) PLACEMENT=$(abspath .output/placement) tests/placement/run.py $(PLACEMENT_ARGS)

test-kernels: $(BIN) workloads	## the smoke tests on other kernels, in QEMU
	$(Q)ALLOCSNAP=$(abspath $(BIN)) OUT=$(abspath $(OUT)) KERNELS=$(abspath .output/kernels) \
		tests/kernels/run.py $(KERNELS_ARGS)
