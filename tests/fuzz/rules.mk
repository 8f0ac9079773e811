# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Fuzzing what reads files and command lines; clang's libFuzzer with ASan and UBSan.

FUZZ         := .output/fuzz
FUZZERS      := snapshot json filter cfi elf answer user_allocators profile go_table perf_map go_profile java_samples
FUZZ_SECONDS ?= 600
FUZZ_CFLAGS  := -std=gnu2x -D_GNU_SOURCE -DALLOCSNAP_VERSION='"$(VERSION)"' -Wall -Iinclude -Isrc -Ibpf \
		-DSNAP_ALWAYS_BYTES=1048576 -g -O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined \
		-fno-sanitize-recover=all
fuzz_obj      = $(patsubst %.c,$(FUZZ)/%.o,$(1))
FUZZ_COMMON  := $(call fuzz_obj,$(API_SRC) tests/fuzz/check.c)

.PHONY: test-fuzz fuzz fuzzers
.SECONDARY: $(FUZZ_COMMON) $(call fuzz_obj,$(addsuffix .c,$(addprefix tests/fuzz/,$(FUZZERS))))

test-fuzz: fuzzers	## a few seconds of fuzzing, the same each time, and the inputs that once failed
	$(Q)tests/fuzz/run.sh test $(FUZZ) $(FUZZERS)

fuzz: fuzzers		## fuzzing for FUZZ_SECONDS a target; what it finds stays in .output/fuzz
	$(Q)FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/run.sh long $(FUZZ) $(FUZZERS)

fuzzers: $(addprefix $(FUZZ)/fuzz-,$(FUZZERS)) $(FUZZ)/make-seeds $(FUZZ)/answer-seeds $(OUT)/golden-snapshots
	$(Q)mkdir -p $(FUZZ)/seeds/snapshot $(FUZZ)/seeds/answer
	$(Q)$(FUZZ)/answer-seeds $(FUZZ)/seeds/answer
	$(Q)tests/fuzz/go_profile_seeds.py $(FUZZ)/seeds/go_profile
	$(Q)tests/fuzz/elf_seeds.sh $(FUZZ)/seeds/elf
	$(Q)tests/fuzz/go_table_seeds.sh $(FUZZ)/seeds/go_table tests/unit/symbols/go_program.S
	$(Q)tests/fuzz/cfi_seeds.sh $(FUZZ)/seeds/cfi tests/unwind/targets/frames.c
	$(Q)$(FUZZ)/make-seeds $(FUZZ)/seeds/snapshot $(wildcard $(OUT)/golden-snapshots.d/*.snap)

$(FUZZ)/%.o: %.c VERSION
	$(call msg,FUZZ-CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(FUZZ_CFLAGS) -MMD -MP -c $< -o $@

$(FUZZ)/fuzz-cfi: $(call fuzz_obj,$(wildcard src/unwind/*.c))
$(FUZZ)/fuzz-elf $(FUZZ)/fuzz-user_allocators: $(call fuzz_obj,$(wildcard src/elf/*.c src/elf/python/*.c))
$(FUZZ)/fuzz-go_table: $(call fuzz_obj,src/symbols/go_table.c $(wildcard src/elf/*.c))
$(FUZZ)/fuzz-go_profile: $(call fuzz_obj,$(wildcard src/go/*.c))
$(FUZZ)/fuzz-java_samples: $(call fuzz_obj,src/java/samples_reader.c src/java/type_name.c)
$(FUZZ)/fuzz-perf_map: $(call fuzz_obj,src/symbols/perf_map.c)
# All of the sandbox but the process at its other end.
$(FUZZ)/fuzz-answer: $(call fuzz_obj,$(wildcard src/elf/*.c src/elf/python/*.c src/symbols/*.c src/unwind/*.c) \
	$(filter-out src/helper/spawner.c $(wildcard src/sandbox/worker*.c),$(wildcard src/helper/*.c src/sandbox/*.c)))
$(FUZZ)/fuzz-%: $(FUZZ)/tests/fuzz/%.o $(FUZZ_COMMON)
	$(call msg,LINK,$@)
	$(Q)$(CLANG) -fsanitize=fuzzer,address,undefined $^ $(API_LIBS) $(SYMBOLS_LIBS) -lcapstone -o $@.new && mv -f $@.new $@

$(FUZZ)/answer-seeds: $(OUT)/tests/fuzz/answer_seeds.o $(LIB)
	$(call link,$^ $(LIB_LIBS))

$(FUZZ)/make-seeds: $(OUT)/tests/fuzz/make_seeds.o $(LIB)
	$(call link,$^ $(API_LIBS))
