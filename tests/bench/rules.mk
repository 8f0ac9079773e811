# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# How long questions take, beside CPython's tracemalloc; needs 3 GB of memory and 1.5 of disk.

BENCH        := $(OUT)/bench
BENCH_TRACES ?= 10000000
BENCH_PYTHON_TRACES ?= 1000000
BENCH_MADE   := $(BENCH)/$(BENCH_TRACES)-$(BENCH_PYTHON_TRACES)
PYTHON       ?= /usr/bin/python3

.PHONY: bench

bench: $(BENCH_MADE)/made $(BENCH)/measure	## how long questions take, and CPython
	$(Q)$(PYTHON) tests/bench/run.py $(BENCH_MADE) $(BENCH)/measure $(BENCH_TRACES)

$(BENCH_MADE)/made: $(BENCH)/make_traces
	$(call msg,TRACES,$(BENCH_MADE))
	$(Q)rm -rf $(@D) && mkdir -p $(@D)
	$(Q)$(BENCH)/make_traces $(@D) $(BENCH_TRACES) $(BENCH_PYTHON_TRACES)
	$(Q)touch $@

$(BENCH)/%: $(OUT)/tests/bench/%.o $(LIB)
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $^ $(API_LIBS) -o $@
