# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Compares unwind tables and steps with elfutils' libdw (all rows of files) and libdwfl (live threads).

UNWIND := $(OUT)/unwind
UNWIND_TOOLS := $(addprefix $(UNWIND)/,against_libdw against_dwfl against_bpf stopper.so frames load_bpf in_bpf.o)

.PHONY: test-unwind

# UNWIND_FILES=all: every ELF file below /usr/bin, /usr/sbin and /usr/lib. UNWIND_STACKS=n a program;
# with 1200 that is 10,800 walks of the kernel's side. UNWIND_HOW=auto|dwarf is how these are made.
test-unwind: export UNWIND_FILES := $(UNWIND_FILES)
test-unwind: export UNWIND_STACKS := $(UNWIND_STACKS)
test-unwind: export UNWIND_HOW := $(UNWIND_HOW)
test-unwind: $(BIN) workloads $(UNWIND_TOOLS)	## compare unwind tables and stacks with elfutils (as root)
	$(Q)ALLOCSNAP=$(abspath $(BIN)) WORKLOADS=$(abspath $(OUT)/workloads) \
		UNWIND=$(abspath $(UNWIND)) tests/unwind/run.py $(UNWIND_ARGS)

$(addprefix $(UNWIND)/against_,libdw dwfl): $(UNWIND)/%: $(OUT)/tests/unwind/%.o $(LIB)
	$(call link,$^ $(LIB_LIBS))

$(OUT)/tests/unwind/against_bpf.o: | $(SKEL_TYPES)
$(UNWIND)/against_bpf: $(OUT)/tests/unwind/against_bpf.o $(COLLECT) $(LIB)
	$(call link,$^ $(COLLECT_LIBS) $(LIB_LIBS))

$(UNWIND)/stopper.so: tests/unwind/stopper.c tests/unwind/stopper.h
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 -shared -fPIC -Wall -Wextra $(if $(CI),-Werror) $< -o $@

$(UNWIND)/load_bpf: $(OUT)/tests/unwind/load_bpf.o
	$(call link,$^ -lbpf)

# As distributions build: optimized, without frame pointers.
$(UNWIND)/%: tests/unwind/targets/%.c
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -O2 -fomit-frame-pointer -pthread -Wl,-z,lazy -Wall -Wextra $(if $(CI),-Werror) $< -o $@ -ldl

$(UNWIND)/in_bpf.o: tests/unwind/in_bpf.bpf.c $(wildcard bpf/shared/unwind_*.h)
	$(call msg,CLANG,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@
