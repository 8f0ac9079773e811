# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Programs that record by the C API; they have the libraries as they are installed.

LIVE_PROGRAMS := $(addprefix $(OUT)/workloads/,collect_api take_instants)

test-live workloads: $(LIVE_PROGRAMS)

$(LIVE_PROGRAMS): $(OUT)/workloads/%: $(OUT)/tests/live/%.o $(OUT)/install/liballocsnap-collect.a \
			      $(OUT)/install/liballocsnap.a
	$(call link,$^ $(COLLECT_LIBS) $(LIB_LIBS))

$(OUT)/workloads/read_go: $(OUT)/tests/live/read_go.o $(COLLECT) $(LIB)
	$(call link,$^ $(COLLECT_LIBS) $(LIB_LIBS))

test-live workloads: $(OUT)/workloads/read_go

$(OUT)/workloads/write_metrics: $(OUT)/tests/live/write_metrics.o $(APP) $(LIB)
	$(call link,$^)

test-live workloads: $(OUT)/workloads/write_metrics

COMPARED := $(OUT)/workloads/compared_exact.so
WALKED := $(foreach nr,1 2 3,$(OUT)/workloads/walks_plugin$(nr).so)

test-live workloads: $(COMPARED) $(WALKED)

$(COMPARED): tests/live/compared_exact.c $(EXACT)
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAMPLER_CFLAGS) -Ibpf $< $(filter-out -nostdlib,$(SAMPLER_LDFLAGS)) -lunwind -o $@.new && mv -f $@.new $@

$(WALKED): $(OUT)/workloads/walks_plugin%.so: tests/live/walks_plugin.c
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -g -O2 -Wall -fPIC -shared -fno-optimize-sibling-calls -DNR=$* $< -o $@

# The same source with another C library, for the preloaded sampler.
$(OUT)/workloads/truth_musl: tests/workloads/truth.c $(wildcard tests/workloads/*.h)
	$(call msg,MUSL,$@)
	$(Q)mkdir -p $(@D)
	$(Q)musl-gcc -g -O1 -fno-omit-frame-pointer -fno-inline -fno-optimize-sibling-calls -pthread -Wall $< -o $@

test-live workloads: $(OUT)/workloads/truth_musl $(SAMPLERS)

.PHONY: test-truth

TRUTH_RECORDINGS ?= 2000

test-truth: $(BIN) workloads	## 2,000 recordings of processes that take their own samples, with known answers: a table (as root)
	$(Q)ALLOCSNAP=$(abspath $(BIN)) WORKLOADS=$(abspath $(OUT)/workloads) tests/live/truth.py $(TRUTH_RECORDINGS)
