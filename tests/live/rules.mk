# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Programs that record by the C API; they have the libraries as they are installed.

LIVE_PROGRAMS := $(addprefix $(OUT)/workloads/,collect_api take_instants)

test-live workloads: $(LIVE_PROGRAMS)

$(LIVE_PROGRAMS): $(OUT)/workloads/%: $(OUT)/tests/live/%.o $(OUT)/install/liballocsnap-collect.a \
			      $(OUT)/install/liballocsnap.a
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $^ $(COLLECT_LIBS) $(LIB_LIBS) -o $@

$(OUT)/workloads/write_metrics: $(OUT)/tests/live/write_metrics.o $(APP) $(LIB)
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $^ -o $@

test-live workloads: $(OUT)/workloads/write_metrics
