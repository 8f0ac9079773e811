# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Whether the sources are C for musl's headers, too. No program is made: the libraries here are built for glibc.

MUSL     := $(OUT)/musl
MUSL_SRC := $(sort $(MAIN_SRC) $(LIB_SRC) $(COLLECT_SRC))
MUSL_OK  := $(patsubst %.c,$(MUSL)/%.ok,$(MUSL_SRC))
# In /usr/include these lie beside glibc's headers: the kernel's, and the libraries'.
MUSL_BESIDE := asm asm-generic linux bpf capstone curl curses.h dwarf.h elfutils gelf.h libelf.h jansson.h \
	       jansson_config.h libiberty ncurses.h ncurses_dll.h sqlite3.h unctrl.h xxhash.h zconf.h zlib.h zstd.h zstd_errors.h
# musl has no such functions: without the word a call of one is a warning only.
MUSL_CFLAGS := -isystem $(MUSL)/include -Werror=implicit-function-declaration

.PHONY: test-musl

test-musl: $(MUSL_OK)	## compile every source with musl's headers
	$(Q)echo "musl: $(words $^) passed, 0 failed, 0 skipped"

$(filter $(MUSL)/src/collect/%,$(MUSL_OK)): | $(SKEL_TYPES)

$(MUSL_OK): $(MUSL)/%.ok: %.c VERSION | $(MUSL)/include
	$(call msg,MUSL-CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)musl-gcc $(ALL_CFLAGS) $(MUSL_CFLAGS) -fsyntax-only -MMD -MP -MF $(@:.ok=.d) -MT $@ $<
	$(Q)touch $@

$(MUSL)/include: tests/musl/rules.mk
	$(Q)rm -rf $@ && mkdir -p $@
	$(Q)for name in $(MUSL_BESIDE); do \
		for folder in /usr/include /usr/include/$$($(CC) -print-multiarch); do \
			[ ! -e $$folder/$$name ] || ln -sfn $$folder/$$name $@/$$name; \
		done; \
	done
