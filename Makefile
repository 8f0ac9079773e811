# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# make help lists the targets; V=1 shows the commands; SAN=1 builds with ASan and UBSan.

prefix  ?= /usr/local
bindir  ?= $(prefix)/bin
CC      := $(CROSS_COMPILE)gcc
AR      := $(CROSS_COMPILE)ar
CLANG   ?= clang
STRIP   ?= llvm-strip
BPFTOOL ?= $(or $(shell command -v bpftool),/usr/sbin/bpftool)
ARCH    := $(patsubst aarch64,arm64,$(patsubst x86_64,x86,$(shell uname -m)))

comma   := ,
OUT     := .output$(if $(SAN),/san)
VERSION := $(shell cat VERSION)
SAN_FLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)

CFLAGS  ?= -O2 -g
ALL_CFLAGS := -std=gnu2x -D_GNU_SOURCE -DALLOCSNAP_VERSION='"$(VERSION)"' -Wall -Wextra -Wno-missing-field-initializers \
	      $(if $(CI),-Werror) -Iinclude -Isrc $(SAN_FLAGS) $(CFLAGS)
BPF_CFLAGS := -target bpf -mcpu=v3 -g -O2 -Wall -Wextra -Wno-unused-parameter $(if $(CI),-Werror) \
	      -D__TARGET_ARCH_$(ARCH) -Ivmlinux -Iinclude -Ibpf

LIB_LIBS     := -ldw -lelf -lz -liberty -ljansson -lm
COLLECT_LIBS := -lbpf -lcapstone

# Everything but src/collect and bpf is one library that never sees libbpf.
LIB_SRC     := $(wildcard src/base/*.c src/snapshot/*.c src/engine/*.c src/render/*.c src/symbols/*.c)
COLLECT_SRC := $(wildcard src/collect/*.c)
MAIN_SRC    := $(wildcard src/*.c)
BPF_SRC     := $(wildcard bpf/*.bpf.c)
UNIT_SRC    := $(wildcard tests/unit/*.c)
FAKE_SRC    := $(wildcard tests/fake_bpf/*.c)
WORKLOADS   := $(patsubst tests/workloads/%.c,$(OUT)/workloads/%,$(wildcard tests/workloads/*.c)) \
	       $(patsubst tests/workloads/%.cc,$(OUT)/workloads/%,$(wildcard tests/workloads/*.cc))

obj  = $(patsubst %.c,$(OUT)/%.o,$(1))
LIB     := $(OUT)/liballocsnap.a
COLLECT := $(OUT)/liballocsnap-collect.a
SKEL    := $(OUT)/allocsnap.skel.h
BIN     := $(if $(SAN),$(OUT)/allocsnap,allocsnap)

ifeq ($(V),1)
  Q =
  msg =
else
  Q = @
  msg = @printf '  %-8s %s\n' "$(1)" "$(patsubst $(abspath $(OUT))/%,%,$(2))";
  MAKEFLAGS += --no-print-directory
endif

.PHONY: all check demo test test-unit test-golden test-live golden-update workloads arrows sizes \
	install clean help
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

all: $(BIN) arrows	## build ./allocsnap

check:			## install what is missing, build, run every test (as root)
	$(Q)scripts/install-deps.sh
	$(Q)$(MAKE) all
	$(Q)tests/run.sh

demo:			## install what is missing, then record a live sqlite3 (as root)
	$(Q)scripts/install-deps.sh
	$(Q)$(MAKE) all
	$(Q)scripts/demo.sh

test: test-unit test-golden	## the tests that need no privilege

test-unit: $(OUT)/unit $(OUT)/unit-bpf
	$(Q)ASAN_OPTIONS=abort_on_error=1 $(OUT)/unit $(UNIT_ARGS)
	$(Q)ASAN_OPTIONS=abort_on_error=1 $(OUT)/unit-bpf $(UNIT_ARGS)

test-golden: $(BIN) $(OUT)/golden-snapshots
	$(Q)ALLOCSNAP=$(abspath $(BIN)) SNAPSHOTS=$(abspath $(OUT)/golden-snapshots.d) tests/golden/run.sh

golden-update: $(BIN) $(OUT)/golden-snapshots	## accept what the golden tests print now
	$(Q)ALLOCSNAP=$(abspath $(BIN)) SNAPSHOTS=$(abspath $(OUT)/golden-snapshots.d) tests/golden/run.sh --update

test-live: $(BIN) workloads	## attach to real programs (as root)
	$(Q)ALLOCSNAP=$(abspath $(BIN)) WORKLOADS=$(abspath $(OUT)/workloads) tests/live/run.py $(LIVE_ARGS)

workloads: $(WORKLOADS)

# ---- BPF: objects, linked into one, and its skeleton ----

$(OUT)/bpf/%.bpf.o: bpf/%.bpf.c | $(OUT)/bpf
	$(call msg,CLANG,$@)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MF $(@:.o=.d) -MT $@ -c $< -o $@
	$(Q)$(STRIP) -g $@

$(OUT)/allocsnap.bpf.o: $(patsubst bpf/%.bpf.c,$(OUT)/bpf/%.bpf.o,$(BPF_SRC))
	$(call msg,GEN-OBJ,$@)
	$(Q)$(BPFTOOL) gen object $@ $^

$(SKEL): $(OUT)/allocsnap.bpf.o
	$(call msg,GEN-SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name allocsnap_bpf >$@

# ---- C ----

$(call obj,$(COLLECT_SRC)): | $(SKEL)
$(call obj,$(COLLECT_SRC)): ALL_CFLAGS += -I$(OUT)

$(OUT)/tests/fake_bpf/%.o: ALL_CFLAGS += -Itests/fake_bpf -Ibpf

$(OUT)/%.o: %.c VERSION
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(LIB): $(call obj,$(LIB_SRC))
$(COLLECT): $(call obj,$(COLLECT_SRC))
$(LIB) $(COLLECT):
	$(call msg,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BIN): $(call obj,$(MAIN_SRC)) $(COLLECT) $(LIB)
	$(call msg,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(COLLECT_LIBS) $(LIB_LIBS) -o $@

$(OUT)/unit: $(call obj,$(UNIT_SRC)) $(COLLECT) $(LIB)
	$(call msg,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $^ $(COLLECT_LIBS) $(LIB_LIBS) -lcriterion -o $@

$(OUT)/unit-bpf: $(call obj,$(FAKE_SRC))
	$(call msg,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $^ -lcriterion -o $@

$(OUT)/golden-snapshots: $(OUT)/tests/golden/make_snapshots.o $(LIB)
	$(call msg,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $^ $(LIB_LIBS) -o $@
	$(Q)rm -rf $@.d && mkdir -p $@.d && $@ $@.d

# Frame pointers, line information, no inlining: programs whose answers are known.
$(OUT)/workloads/%: tests/workloads/%.c $(wildcard tests/workloads/*.h)
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -g -O1 -fno-omit-frame-pointer -fno-inline -fno-optimize-sibling-calls -pthread -Wall $< -o $@ -ldl

$(OUT)/workloads/%: tests/workloads/%.cc $(wildcard tests/workloads/*.h)
	$(call msg,CXX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CROSS_COMPILE)g++ -g -O1 -fno-omit-frame-pointer -fno-inline -fno-optimize-sibling-calls -pthread -Wall $< -o $@

$(OUT)/workloads/cxx_new: tests/workloads/cxx.cc

$(OUT)/bpf:
	$(Q)mkdir -p $@

arrows: $(LIB)		## the include arrows of docs/design.md hold
	$(Q)scripts/check-arrows.sh

# ---- the rest ----

install: all		## install below $(DESTDIR)$(prefix)
	$(Q)install -D -m 755 allocsnap $(DESTDIR)$(bindir)/allocsnap

sizes:			## the longest files and functions
	$(Q)scripts/sizes.sh

clean:			## remove what make made
	$(Q)rm -rf .output allocsnap

help:			## this list
	$(Q)sed -nE 's/^([a-z-]+):.*	## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 24

-include $(shell find $(OUT) -type f -name '*.d' 2>/dev/null)
