# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# How long questions take, beside CPython's tracemalloc; needs 3 GB of memory and 1.5 of disk. And
# what unwind tables cost: each file in a process of its own, then all of the machine's.

BENCH        := $(OUT)/bench
BENCH_TRACES ?= 10000000
BENCH_PYTHON_TRACES ?= 1000000
BENCH_MADE   := $(BENCH)/$(BENCH_TRACES)-$(BENCH_PYTHON_TRACES)
PYTHON       ?= /usr/bin/python3

UNWIND_BENCH := $(addprefix /usr/lib/x86_64-linux-gnu/,libc.so.6 libstdc++.so.6 libLLVM-14.so.1) \
		/usr/bin/python3.11 /usr
UNWIND_AIMS  := "aims: libc in 10 ms, 30 million rows in 15 s, 6 bytes a row"

.PHONY: bench bench-capacity bench-unwind bench-walk bench-first-stack

bench: $(BENCH_MADE)/made $(BENCH)/measure bench-capacity bench-unwind bench-walk bench-first-stack	## how long questions take, and CPython
	$(Q)$(PYTHON) tests/bench/run.py $(BENCH_MADE) $(BENCH)/measure $(BENCH_TRACES)

bench-unwind: $(BENCH)/unwind	## what compiling unwind tables costs
	$(Q)for path in $(UNWIND_BENCH); do $(BENCH)/unwind $$path; done; echo $(UNWIND_AIMS)

bench-capacity: $(BENCH)/capacity $(BENCH)/measure	## ten million live blocks: to the file, and what that takes (as root)
	$(Q)tests/bench/capacity.py $^ $(BENCH)/capacity.d $(BENCH_TRACES)

bench-first-stack: $(BENCH)/first_stack	## how long new code has no complete tracebacks (as root)
	$(Q)$(BENCH)/first_stack

$(OUT)/tests/bench/first_stack.o: ALL_CFLAGS += -I$(OUT) -fomit-frame-pointer
$(OUT)/tests/bench/first_stack.o: | $(SKEL)
$(BENCH)/first_stack: $(OUT)/tests/bench/first_stack.o $(COLLECT) $(LIB)
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $^ $(COLLECT_LIBS) $(LIB_LIBS) -ldl -o $@

$(OUT)/tests/bench/capacity.o: ALL_CFLAGS += -fomit-frame-pointer
$(BENCH)/capacity: $(OUT)/tests/bench/capacity.o $(COLLECT) $(LIB)
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $^ $(COLLECT_LIBS) $(LIB_LIBS) -o $@

bench-walk: $(addprefix $(BENCH)/,walk walk_target walk_target_fp)	## what a traceback costs, as root
	$(Q)$(BENCH)/walk $(BENCH)/walk_target $(BENCH)/walk_target_fp

$(BENCH_MADE)/made: $(BENCH)/make_traces
	$(call msg,TRACES,$(BENCH_MADE))
	$(Q)rm -rf $(@D) && mkdir -p $(@D)
	$(Q)$(BENCH)/make_traces $(@D) $(BENCH_TRACES) $(BENCH_PYTHON_TRACES)
	$(Q)touch $@

$(BENCH)/%: $(OUT)/tests/bench/%.o $(LIB)
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $^ $(API_LIBS) $(if $(filter %/unwind,$@),-lelf) -o $@

# ---- a traceback in the kernel ----

$(BENCH)/walk.bpf.o: tests/bench/walk.bpf.c $(wildcard bpf/*.bpf.h include/*.h)
	$(call msg,CLANG,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -Ibpf -c $< -o $@

$(BENCH)/walk.skel.h: $(BENCH)/walk.bpf.o
	$(call msg,GEN-SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name walk_bpf >$@

$(OUT)/tests/bench/walk.o: ALL_CFLAGS += -I$(OUT) -I$(BENCH)
$(OUT)/tests/bench/walk.o: | $(SKEL) $(BENCH)/walk.skel.h
$(BENCH)/walk: $(OUT)/tests/bench/walk.o $(COLLECT) $(LIB)
	$(call msg,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $^ $(COLLECT_LIBS) $(LIB_LIBS) -o $@

$(BENCH)/walk_target:    WALK_FP := -fomit-frame-pointer
$(BENCH)/walk_target_fp: WALK_FP := -fno-omit-frame-pointer
$(BENCH)/walk_target $(BENCH)/walk_target_fp: tests/bench/walk_target.c tests/bench/walk_target.h
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 $(WALK_FP) -Wall -Wextra $(if $(CI),-Werror) $< -o $@
