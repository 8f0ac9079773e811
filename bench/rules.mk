# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The time of questions, compared with CPython's tracemalloc; needs 3 GB of memory and 1.5 GB of disk. And the cost of
# unwind tables: each file in a process of its own, then all of the machine's.

BENCH        := $(OUT)/bench
BENCH_TRACES ?= 10000000
BENCH_PYTHON_TRACES ?= 1000000
BENCH_MADE   := $(BENCH)/$(BENCH_TRACES)-$(BENCH_PYTHON_TRACES)
PYTHON       ?= /usr/bin/python3

UNWIND_BENCH := $(addprefix /usr/lib/x86_64-linux-gnu/,libc.so.6 libstdc++.so.6 libLLVM-14.so.1) \
		/usr/bin/python3.11 /usr
UNWIND_AIMS  := "aims: libc in 10 ms, 30 million rows in 15 s, 6 bytes a row"

.PHONY: bench bench-peers bench-capacity bench-unwind bench-walk bench-first-stack bench-cost bench-programs bench-fleet
.PHONY: bench-go bench-java bench-pairs bench-exact bench-servers bench-cluster bench-history bench-python bench-rows bench-consumers bench-budget bench-sampler

bench: bench-peers $(BENCH_MADE)/made $(BENCH)/measure bench-capacity bench-unwind bench-walk bench-first-stack bench-cost bench-pairs bench-programs bench-fleet bench-consumers bench-budget bench-sampler bench-stops	## how long questions take, and CPython; what recording costs
	$(Q)$(PYTHON) bench/run.py $(BENCH_MADE) $(BENCH)/measure $(BENCH_TRACES)

bench-unwind: $(BENCH)/unwind	## what compiling unwind tables costs
	$(Q)for path in $(UNWIND_BENCH); do $(BENCH)/unwind $$path; done; echo $(UNWIND_AIMS)

BENCH_BOOKS = bench/capacity.py $(abspath $(BIN) $(BENCH)/books $(BENCH)/capacity-data) $(BENCH_TRACES)

bench-capacity: $(BIN) $(addprefix $(BENCH)/,books capacity measure)	## ten million live blocks: to the file, and what that takes (as root)
	$(Q)$(BENCH_BOOKS) $(abspath $(BENCH)/capacity $(BENCH)/measure)

bench-fleet: $(BIN) $(OUT)/fleet-data $(BENCH)/child_peak	## ten million rows of a fleet: indexing, size, questions, and SQL
	$(Q)$(PYTHON) bench/fleet.py $(abspath $(BIN)) $(abspath $(OUT)/fleet-data) $(abspath $(BENCH)/child_peak) \
		$(abspath $(BENCH))/fleet-data $(FLEET_HOSTS)

bench-cluster: $(BIN) $(OUT)/fleet-data	## three million rows to a ClickHouse, beside clickhouse-client
	$(Q)$(PYTHON) bench/cluster.py $(abspath $(BIN)) $(abspath $(OUT)/fleet-data) $(abspath $(BENCH))/cluster-data \
		$(FLEET_HOSTS)

bench-history: $(BIN) $(OUT)/fleet-data	## ten million rows in a ClickHouse, and ten times as many of earlier weeks: what questions cost
	$(Q)$(PYTHON) bench/cluster_history.py $(abspath $(BIN)) $(abspath $(OUT)/fleet-data) $(abspath $(BENCH))/history-data \
		$(FLEET_HOSTS)

bench-go: $(BIN) $(OUT)/workloads/read_go	## what reading the heap profile of a Go program costs it (as root)
	$(Q)$(PYTHON) bench/go.py $(abspath $(BIN)) $(abspath $(OUT)/workloads)

bench-rows: $(BIN)	## rows of snapshots of real programs (as root)
	$(Q)$(PYTHON) bench/real_rows.py $(abspath $(BIN))

bench-first-stack: $(BENCH)/first_stack	## how long new code has no complete tracebacks (as root)
	$(Q)$(BENCH)/first_stack

$(OUT)/bench/first_stack.o: ALL_CFLAGS += -fomit-frame-pointer
$(OUT)/bench/first_stack.o: | $(SKEL_TYPES)
$(BENCH)/first_stack: $(OUT)/bench/first_stack.o $(COLLECT) $(LIB)
	$(call link,$^ $(COLLECT_LIBS) $(LIB_LIBS) -ldl)

$(OUT)/bench/capacity.o: ALL_CFLAGS += -fomit-frame-pointer
$(BENCH)/capacity: $(OUT)/bench/capacity.o $(COLLECT) $(LIB)
	$(call link,$^ $(COLLECT_LIBS) $(LIB_LIBS))

bench-walk: $(addprefix $(BENCH)/,walk walk_target walk_target_fp)	## what a traceback costs (as root)
	$(Q)$(BENCH)/walk $(BENCH)/walk_target $(BENCH)/walk_target_fp

$(BENCH_MADE)/made: $(BENCH)/make_traces
	$(call msg,TRACES,$(BENCH_MADE))
	$(Q)rm -rf $(@D) && mkdir -p $(@D)
	$(Q)$(BENCH)/make_traces $(@D) $(BENCH_TRACES) $(BENCH_PYTHON_TRACES)
	$(Q)touch $@

$(BENCH)/%: $(OUT)/bench/%.o $(LIB)
	$(call link,$^ $(API_LIBS) $(if $(filter %/unwind,$@),-lelf -lcapstone))

# ---- a traceback in the kernel ----

BENCH_BPF := $(addprefix $(BENCH)/,walk floor)

$(addsuffix .bpf.o,$(BENCH_BPF)): $(BENCH)/%.bpf.o: bench/%.bpf.c $(wildcard bpf/*.h bpf/*/*.h)
	$(call msg,CLANG,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -Ibpf -c $< -o $@

$(addsuffix .skel.h,$(BENCH_BPF)): %.skel.h: %.bpf.o
	$(call msg,GEN-SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $(*F)_bpf >$@

$(OUT)/bench/walk.o: ALL_CFLAGS += -I$(BENCH)
$(OUT)/bench/walk.o: | $(SKEL_TYPES) $(BENCH)/walk.skel.h
$(BENCH)/walk: $(OUT)/bench/walk.o $(COLLECT) $(LIB)
	$(call link,$^ $(COLLECT_LIBS) $(LIB_LIBS))

# ---- what recording costs, beside others ----

COST_PROGRAMS := $(addprefix $(BENCH)/,floor cost_target cost_target_fp)

bench-peers:		## install and fetch what the benchmarks compare with (as root)
	$(Q)scripts/install-deps.sh bench
	$(Q)scripts/fetch-peers.sh $(OUT)/peers

bench-cost: $(BIN) $(COST_PROGRAMS) bench-peers	## a pair of malloc and free, recorded by us and by others (as root)
	$(Q)$(PYTHON) bench/cost.py $(abspath $(BIN)) $(abspath $(BENCH)) $(abspath $(OUT)/peers)

bench-pairs: $(BIN) $(BENCH)/pair_target	## a pair of malloc and free, each block recorded in the program itself (as root)
	$(Q)$(PYTHON) bench/pairs.py $(abspath $(BIN)) $(abspath $(BENCH)) $(abspath $(OUT)/peers)

bench-exact: bench-pairs $(BENCH)/books bench-peers	## what recording each block in the program itself costs: pairs, programs, memory (as root)
	$(Q)BENCH_WAYS=exact $(PYTHON) bench/programs.py $(abspath $(BIN)) $(abspath $(SAMPLER)) $(abspath $(BENCH)) $(abspath $(OUT)/peers)
	$(Q)$(BENCH_BOOKS)

bench-sampler: $(SAMPLER) $(BENCH)/cost_target $(OUT)/inject/injector	## a pair of malloc and free below the preloaded library; as root also with an injected sampler
	$(Q)$(PYTHON) bench/sampler.py $(abspath $(SAMPLER)) $(abspath $(BENCH)) $(abspath $(OUT)/inject/injector)

bench-programs: $(BIN) $(SAMPLER) bench-peers	## how much slower real programs are, recorded by us and by others (as root)
	$(Q)mkdir -p $(BENCH)
	$(Q)$(PYTHON) bench/programs.py $(abspath $(BIN)) $(abspath $(SAMPLER)) $(abspath $(BENCH)) $(abspath $(OUT)/peers)

$(OUT)/bench/floor.o: ALL_CFLAGS += -I$(BENCH)
$(OUT)/bench/floor.o: | $(BENCH)/floor.skel.h
$(BENCH)/floor: $(OUT)/bench/floor.o $(COLLECT) $(LIB)
	$(call link,$^ $(COLLECT_LIBS) $(LIB_LIBS))

bench-python: $(BIN)	## what recording every block of five Python programs costs, beside tracemalloc (as root)
	$(Q)$(PYTHON) bench/python_exact.py $(abspath $(BIN)) $(PYTHON)

bench-servers: $(BIN)	## requests a second of gunicorn and redis while every block is recorded in them, beside tracemalloc (as root)
	$(Q)scripts/install-deps.sh answers
	$(Q)$(PYTHON) bench/servers.py $(abspath $(BIN))

$(OUT)/bench/fault_target.o: ALL_CFLAGS += -fomit-frame-pointer -fno-optimize-sibling-calls

$(BENCH)/unseen_target: bench/unseen_target.c
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 -Wall -static -s $< -o $@

bench-pages: $(BIN) $(BENCH)/fault_target $(BENCH)/unseen_target	## what recording resident memory costs: a page fault, programs that grow (as root)
	$(Q)$(PYTHON) bench/pages.py $(abspath $(BIN)) $(abspath $(BENCH))

bench-java: $(BIN)	## what the agent of --domain java costs (as root)
	$(Q)$(PYTHON) bench/java.py $(abspath $(BIN)) tests/workloads/Leak.java

bench-budget: $(BIN) workloads	## what a budget allows and costs, and whether sums stay true (as root)
	$(Q)$(PYTHON) bench/budget.py $(abspath $(BIN)) $(abspath $(OUT)/workloads)

bench-consumers: $(BENCH)/consumers	## what a hit costs where many processes have links of their own (as root)
	$(Q)$(BENCH)/consumers

$(OUT)/bench/consumers.o: ALL_CFLAGS += -I$(BENCH)
$(OUT)/bench/consumers.o: | $(BENCH)/floor.skel.h
$(BENCH)/consumers: $(OUT)/bench/consumers.o $(COLLECT) $(LIB)
	$(call link,$^ $(COLLECT_LIBS) $(LIB_LIBS))

# Code without frame pointers, but for one.
COST_FP := -fomit-frame-pointer
$(BENCH)/cost_target_fp: COST_FP := -fno-omit-frame-pointer
$(BENCH)/cost_target_fp: bench/cost_target.c
$(BENCH)/cost_target $(BENCH)/pair_target: $(BENCH)/%: bench/%.c
$(BENCH)/cost_target $(BENCH)/cost_target_fp $(BENCH)/pair_target:
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 $(COST_FP) -fno-ipa-icf -pthread -Wall -Wextra $(if $(CI),-Werror) $< -o $@

# ---- the same program without and with frame pointers ----

$(BENCH)/walk_target:    WALK_FP := -fomit-frame-pointer
$(BENCH)/walk_target_fp: WALK_FP := -fno-omit-frame-pointer
$(BENCH)/walk_target $(BENCH)/walk_target_fp: bench/walk_target.c bench/walk_target.h
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 $(WALK_FP) -Wall -Wextra $(if $(CI),-Werror) $< -o $@
