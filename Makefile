# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# make help lists the targets; V=1 shows the commands; SAN=1 builds with ASan and UBSan, of
# SAN_ROOMS="src/elf tests/unit/elf" only what lies in these folders.

# PREFIX=/usr works, too; the other names are refused in capitals instead of being ignored.
prefix  ?= $(if $(filter command,$(origin PREFIX)),$(PREFIX),/usr/local)
$(foreach name,BINDIR LIBDIR INCLUDEDIR UNITDIR MANDIR DATADIR,$(if $(filter command,$(origin $(name))),\
	$(error $(name) has no meaning here: write it in small letters)))
bindir  ?= $(prefix)/bin
libdir  ?= $(prefix)/lib
includedir ?= $(prefix)/include
# CCACHE=1: objects that were compiled before, in any folder, come from ccache.
CC      := $(if $(CCACHE),ccache )$(CROSS_COMPILE)gcc
AR      := $(CROSS_COMPILE)ar
LD      := $(CROSS_COMPILE)ld
OBJCOPY := $(CROSS_COMPILE)objcopy
CLANG   ?= clang
STRIP   ?= llvm-strip
BPFTOOL ?= $(or $(shell command -v bpftool),/usr/sbin/bpftool)
HOST    := $(patsubst aarch64,arm64,$(patsubst x86_64,x86,$(shell uname -m)))
ARCH    := $(HOST)

# READS_ONLY=1: the program that only reads snapshots, without BPF and clang. On other machines than these there is no
# other: no tables to find callers by, no places for probes.
READS_ONLY := $(if $(filter x86 arm64,$(ARCH)),,1)

ifneq ($(CCACHE),)
  export CCACHE_NOHASHDIR := 1
  export CCACHE_BASEDIR := $(CURDIR)
endif

comma   := ,
# Files for another machine have a folder of their own.
MADE    := .output$(if $(filter-out $(HOST),$(ARCH)),/$(ARCH))
OUT     := $(MADE)$(if $(READS_ONLY),/reading)$(if $(SAN),/san$(if $(SAN_ROOMS),-rooms))
VERSION := $(shell cat VERSION)
# The commit: `git archive` writes it into the file; in a clone git says it.
COMMIT  := $(shell grep -sxE '[0-9a-f]{40}' scripts/commit | cut -c -12)
COMMIT  := $(or $(COMMIT),$(shell git -c safe.directory='*' --git-dir=.git --work-tree=. describe --always --dirty --exclude='*' --abbrev=12 2>/dev/null),not known)
SAN_FLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)

# Builds in two folders are equal (reproducible-builds.org).
MAP_FLAGS := $(if $(SOURCE_DATE_EPOCH),-ffile-prefix-map=$(CURDIR)=.)

# Sanitized code is compiled in half the time by -O1, with the lines that a report of the sanitizer needs.
CFLAGS  ?= $(if $(SAN),-O1 -g1,-O2 -g)
ALL_CFLAGS := $(SYSROOT:%=--sysroot=%) -std=gnu2x -D_GNU_SOURCE -DALLOCSNAP_VERSION='"$(VERSION)"' -DALLOCSNAP_LIBDIR='"$(libdir)"' -Wall -Wextra -Wno-missing-field-initializers \
	      $(if $(CI),-Werror) -Iinclude -Isrc -Isrc/arch/$(ARCH) -Ibpf $(SAN_FLAGS) $(CFLAGS) $(MAP_FLAGS)
BPF_CFLAGS := $(MAP_FLAGS) -target bpf -mcpu=v3 -g -O2 -Wall -Wextra -Wno-unused-parameter $(if $(CI),-Werror) \
	      -D__TARGET_ARCH_$(ARCH) -Ivmlinux -Ibpf -Ibpf/arch/$(ARCH)

# Link options of the installed libraries: only liballocsnap-collect records, and resolves names (src/symbols).
API_LIBS     := -ljansson -lzstd -lz -lm
SYMBOLS_LIBS := -ldw -lelf -lz -liberty
LIB_LIBS     := $(SYMBOLS_LIBS) $(API_LIBS) -lcapstone -lsqlite3 -lncursesw -ltinfo
COLLECT_LIBS := $(if $(READS_ONLY),,-lbpf -lcapstone)

# Four layers: only COLLECT sees libbpf, and the program's own code is above all libraries.
rooms       = $(filter-out src/java/agent.c src/cli/reading.c src/inject/refused.c,$(foreach room,$(1),$(wildcard src/$(room)/*.c)))
API_SRC     := $(call rooms,base snapshot formats engine render)
LIB_SRC     := $(API_SRC) $(call rooms,archive symbols unwind elf elf/python helper sandbox symbolize fleet)
COLLECT_SRC := $(call rooms,process go inject java collect/*) $(addprefix src/exact/,books_reader.c books_codes.c books_epochs.c books_stacks.c known_code.c)
APP_SRC     := $(call rooms,cli census debuginfod fleet/cluster doctor push record top report)
MAIN        := src/main.c

# Injected code is x86-64's. src/inject/refused.c stands for these.
INJECTS := $(filter x86,$(ARCH))
ifeq ($(INJECTS),)
COLLECT_SRC := $(filter-out $(addprefix src/inject/,eject.c execute.c found_samplers.c hooks.c injected_file.c placing.c plan.c remote_call.c \
	       sampler_image.c stopped_threads.c),$(COLLECT_SRC)) src/inject/refused.c
endif

# src/cli/reading.c stands for these.
ifneq ($(READS_ONLY),)
RECORDS     := $(call rooms,census doctor) src/record/record.c src/record/recorder.c src/record/recording.c \
	       src/record/recording_show.c src/record/triggers.c src/top/live.c $(addprefix src/cli/,leak_watch.c top_record.c \
	       program_texts.c find_running_process.c preload_sampler.c recording_place.c \
	       $(patsubst %,cmd_%.c,attach capture run record doctor census eject))
APP_SRC     := $(filter-out $(RECORDS),$(APP_SRC))
COLLECT_SRC :=
MAIN        := src/cli/reading.c
endif
MAIN_SRC    := $(MAIN) $(APP_SRC)
BPF_SRC     := $(wildcard bpf/*.bpf.c)

# ROOMS: a sanitized build compiles only these folders; the other objects come from the plain build, which is there.
ROOMS    = $(if $(SAN),$(SAN_ROOMS))
in_rooms = $(filter $(addsuffix /%,$(ROOMS)),$(1))
obj  = $(patsubst %.c,$(OUT)/%.o,$(if $(ROOMS),$(in_rooms),$(1))) $(if $(ROOMS),$(patsubst %.c,.output/%.o,$(filter-out $(in_rooms),$(1))))
LIB     := $(OUT)/liballocsnap.a
COLLECT := $(OUT)/liballocsnap-collect.a
APP     := $(OUT)/liballocsnap-app.a
SKEL    := $(MADE)/allocsnap.skel.h
SKEL_TYPES := $(SKEL:.skel.h=.types.h)
ALL_CFLAGS += -I$(dir $(SKEL))
BIN     := $(if $(filter .output,$(OUT)),allocsnap,$(OUT)/allocsnap)
SAMPLER := $(OUT)/liballocsnap-sampler.so
SAMPLERS := $(SAMPLER) $(OUT)/liballocsnap-sampler-new.so
EXACT := $(OUT)/liballocsnap-exact.so

ifeq ($(V),1)
  Q =
  msg =
else
  Q = @
  msg = @printf '  %-8s %s\n' "$(1)" "$(patsubst $(abspath $(OUT))/%,%,$(2))";
  MAKEFLAGS += --no-print-directory
endif
MAKEFLAGS += --no-builtin-rules

# link FILES AND OPTIONS: a program that runs meanwhile, or is about to be started, stays whole.
define link
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $(1) -o $@.new && mv -f $@.new $@
endef

FORCE:
.PHONY: FORCE all check check-long check-touched demo arrows prose sizes man completion install clean help
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

all: $(BIN) $(if $(READS_ONLY),,$(SAMPLERS) $(if $(INJECTS),$(EXACT)) arrows)	## build ./allocsnap

check:			## install what is missing, build, run the gate: 12 minutes on two slow cores (as root)
	$(Q)scripts/install-deps.sh build test
	$(Q)$(MAKE) -j$$(nproc) all prose sizes
	$(Q)tests/run.py check

check-long:		## everything at full size, in hours; PARTS="san live" chooses, tests/parts lists them (as root)
	$(Q)scripts/install-deps.sh build test fleet answers formats kernels
	$(Q)$(MAKE) -j$$(nproc) all prose sizes
	$(Q)tests/run.py long $(PARTS)

check-touched:		## the parts of check-long that the commits since BASE touch (as root)
	$(Q)scripts/install-deps.sh build test fleet answers formats kernels
	$(Q)$(MAKE) -j$$(nproc) all prose sizes
	$(Q)BASE=$(BASE) tests/run.py touched

demo:			## install what is missing, then record a live sqlite3 and find a C++ leak (as root)
	$(Q)scripts/install-deps.sh build demo
	$(Q)$(MAKE) -j$$(nproc) all $(OUT)/answers/shopcache
	$(Q)SHOPCACHE=$(OUT)/answers/shopcache scripts/demo.sh

# ---- BPF: objects, linked into one, and its skeleton; sanitized builds have the same ----

$(MADE)/bpf/%.bpf.o: bpf/%.bpf.c | $(MADE)/bpf
	$(call msg,CLANG,$@)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $@
	$(Q)$(STRIP) -g $@

$(MADE)/allocsnap.bpf.o: $(patsubst bpf/%.bpf.c,$(MADE)/bpf/%.bpf.o,$(BPF_SRC))
	$(call msg,GEN-OBJ,$@)
	$(Q)$(BPFTOOL) gen object $@ $^

$(SKEL): $(MADE)/allocsnap.bpf.o
	$(call msg,GEN-SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name allocsnap_bpf >$@

# All but one object need its types only. They keep their time while they are the same.
$(SKEL_TYPES): $(SKEL_TYPES).made ;
$(SKEL_TYPES).made: $(SKEL)
	$(Q)sed -n '/^#ifdef __cplusplus/,/^#endif/d; /^struct allocsnap_bpf {/,/^};/p; /^};/q' $< >$@
	$(Q)cmp -s $@ $(@:.made=) || cp $@ $(@:.made=)

# ---- C ----

$(call obj,$(COLLECT_SRC)): | $(SKEL_TYPES)

# The page is in the program as it was built; `make` needs no tools for it.
$(OUT)/src/report/report_page.o: src/report/page/page.html
$(OUT)/src/fleet/row_schema.o: $(wildcard src/fleet/sql/*.sql)

# `allocsnap --version` says the commit.
$(OUT)/src/cli/cmd_help.o: ALL_CFLAGS += -DALLOCSNAP_COMMIT='"$(COMMIT)"'
$(OUT)/src/cli/cmd_help.o: $(OUT)/commit
$(OUT)/commit: $(shell echo '$(COMMIT)' | cmp -s - $(OUT)/commit || echo FORCE)
	$(Q)mkdir -p $(@D) && echo '$(COMMIT)' >$@

$(OUT)/%.o: %.c VERSION
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(LIB): $(call obj,$(LIB_SRC))
$(COLLECT): $(call obj,$(COLLECT_SRC))
$(APP): $(call obj,$(APP_SRC))
$(LIB) $(COLLECT) $(APP): $(if $(ROOMS),$(OUT)/rooms)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

ifneq ($(ROOMS),)
# Other folders than last time: other objects.
$(OUT)/rooms: $(shell mkdir -p $(OUT) && echo $(ROOMS) | cmp -s - $(OUT)/rooms || echo FORCE)
	$(Q)echo $(ROOMS) >$@
endif

$(BIN): $(call obj,$(MAIN)) $(APP) $(if $(READS_ONLY),,$(COLLECT)) $(LIB)
	$(call link,$^ $(COLLECT_LIBS) $(LIB_LIBS))

# It runs in the programs themselves, of any C library: it is linked with libdl only, which is libc in musl and in new
# versions of glibc, and asks for no versions of symbols. The compiler may not call functions of its own choice.
CODE_x86   := -fcf-protection
CODE_arm64 := -mbranch-protection=standard -mno-outline-atomics
SAMPLER_CFLAGS := $(MAP_FLAGS) -std=gnu2x -D_GNU_SOURCE -O2 -g -Wall -Wextra -Wno-missing-field-initializers $(if $(CI),-Werror) -Isrc -Isrc/arch/$(ARCH) \
		  -fPIC -fvisibility=hidden -fno-builtin -fno-tree-loop-distribute-patterns -fno-stack-protector \
		  -fasynchronous-unwind-tables $(CODE_$(ARCH))
SAMPLER_LDFLAGS := -shared -nostdlib -Wl,-z,now,-z,relro,-z,nodelete,-z,noexecstack \
		   -Wl,--no-as-needed -l:libdl.so.2

# The second one has C++'s operators, too (src/sampler/operators.h).
$(filter %-new.so,$(SAMPLERS)): SAMPLER_CFLAGS += -DSAMPLER_OPERATORS
$(SAMPLERS): src/sampler/preload.c $(wildcard src/sampler/*.h)
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAMPLER_CFLAGS) $< $(SAMPLER_LDFLAGS) -Wl,-soname,$(@F) -o $@.new && mv -f $@.new $@

$(EXACT): src/exact/exact_preload.c $(wildcard src/exact/*.h) src/sampler/next_allocator.h
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAMPLER_CFLAGS) -mgeneral-regs-only -Ibpf $< $(SAMPLER_LDFLAGS) -Wl,-soname,$(@F) -o $@.new && mv -f $@.new $@

# It is put into processes that run, and calls nothing. All of it lies in memory as it lies in the file; .bss has pages
# of its own, as what follows the data in their last page is not zero.
INJECTED := $(OUT)/injected.so
INJECTED_CFLAGS := $(MAP_FLAGS) -std=gnu2x -D_GNU_SOURCE -O2 -Wall -Wextra -Wno-missing-field-initializers $(if $(CI),-Werror) -Isrc -Isrc/arch/$(ARCH) -Ibpf \
		   -fPIC -fvisibility=hidden -ffreestanding -mgeneral-regs-only -mno-red-zone -fno-builtin \
		   -fno-tree-loop-distribute-patterns -fno-stack-protector -fcf-protection=none -fasynchronous-unwind-tables
INJECTED_LDFLAGS := -shared -nostdlib -Wl,-Bsymbolic,-z,now,-z,norelro,-z,noseparate-code,-z,noexecstack,--no-undefined,--build-id \
		    -Wl,--section-start=.bss=0x40000

PYTHON_HOOKS := $(OUT)/python_hooks.so
MALLOC_HOOKS := $(OUT)/malloc_hooks.so

$(INJECTED): src/sampler/injected.c src/sampler/injected_hooks.S $(wildcard src/sampler/*.h) bpf/shared/call_types.h
$(PYTHON_HOOKS): src/exact/python_hooks.c $(wildcard src/exact/*.h) bpf/shared/python_types.h
$(MALLOC_HOOKS): src/exact/malloc_hooks.c src/sampler/injected_hooks.S $(wildcard src/exact/*.h) src/sampler/injected.h
$(MALLOC_HOOKS): INJECTED_CFLAGS += -DINJECTED_EXACT
$(INJECTED) $(PYTHON_HOOKS) $(MALLOC_HOOKS):
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(INJECTED_CFLAGS) $(filter %.c %.S,$^) $(INJECTED_LDFLAGS) -o $@.new && mv -f $@.new $@
	$(Q)if readelf -rW $@ | grep -q R_X86; then echo "$@ has relocations" >&2; exit 1; fi

# A Java virtual machine loads it, of any C library: it calls none.
JAVA_AGENT := $(OUT)/liballocsnap-java.so

$(JAVA_AGENT): src/java/agent.c src/java/samples.h src/java/jvm_tables.h
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -g,$(SAMPLER_CFLAGS)) $< -shared -nostdlib -Wl,-z,now,-z,relro,-z,noexecstack,--no-undefined,--build-id -o $@.new && mv -f $@.new $@

$(OUT)/src/java/agent_load.o: $(JAVA_AGENT)
$(OUT)/src/java/agent_load.o: ALL_CFLAGS += -Wa,-I$(OUT)

$(OUT)/src/inject/injected_file.o: $(INJECTED) $(PYTHON_HOOKS) $(MALLOC_HOOKS)
$(OUT)/src/inject/injected_file.o: ALL_CFLAGS += -Wa,-I$(OUT)

$(MADE)/bpf:
	$(Q)mkdir -p $@

arrows: $(LIB)		## check includes against scripts/arrows, and the names in docs/rules.md
	$(Q)scripts/check-arrows.sh
	$(Q)scripts/check-rules.sh

prose:			## count what scripts/prose.py finds in comments and documents, and names that are there twice
	$(Q)scripts/prose.py
	$(Q)scripts/check-names.py

# ---- the rest ----

include scripts/install.mk
include scripts/package.mk

sizes: $(MADE)/allocsnap.bpf.o $(BIN)	## the longest files and functions, the deepest BPF stacks, the work of the verifier (as root); fails above their limits
	$(Q)scripts/sizes.sh
	$(Q)scripts/check-bpf-stack.py $<
	$(Q)scripts/check-verified.py $(BIN)

clean:			## remove what make made
	$(Q)rm -rf .output allocsnap

help:			## this list
	$(Q)sed -nE 's/^([a-z-]+):.*	## (.*)/  make \1\t\2/p' Makefile scripts/install.mk scripts/package.mk tests/tests.mk tests/*/rules.mk bench/rules.mk bench/soak/rules.mk 2>/dev/null | expand -t 28

include tests/tests.mk

-include $(shell find $(OUT) $(MADE)/bpf \( -name 'package*' -o -name machines \) -prune -o -type f -name '*.d' -print 2>/dev/null)
