# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The program with calls that fail one after the other: the objects of the plain build, linked with faults.c.

.PHONY: test-faults

test-faults: $(BIN) $(SAMPLER) $(EXACT) $(OUT)/allocsnap-faults $(OUT)/golden-snapshots workloads	## let each allocation and system call fail in turn (as root)
	$(Q)$(ON_SNAPSHOTS) FAULTY=$(abspath $(OUT)/allocsnap-faults) WORKLOADS=$(abspath $(OUT)/workloads) \
		tests/faults/run.py $(FAULTS_ARGS)

$(OUT)/tests/faults/faults.o: ALL_CFLAGS += -fno-builtin

$(OUT)/allocsnap-faults: $(OUT)/tests/faults/faults.o $(call obj,$(MAIN)) $(APP) $(COLLECT) $(LIB)
	$(call link,$^ $(COLLECT_LIBS) $(LIB_LIBS) -ldl)
