# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The files that other programs use; part of the Makefile.

PUBLIC         := $(addprefix include/,allocsnap.h engine.h reason.h render.h snapshot.h)
PUBLIC_COLLECT := include/collect.h
INSTALL_LIBS   := $(addprefix $(OUT)/install/,liballocsnap.a $(if $(READS_ONLY),,liballocsnap-collect.a))

# The second library asks the first one for its snapshots; fleets, and finding snapshots, are the program's alone.
$(OUT)/install/liballocsnap.a: $(call obj,$(API_SRC)) $(PUBLIC)
$(OUT)/install/liballocsnap-collect.a: \
	$(call obj,$(COLLECT_SRC) $(filter-out $(API_SRC) src/fleet/% src/archive/archive.c src/archive/walk.c,$(LIB_SRC)) $(wildcard src/base/*.c)) $(PUBLIC_COLLECT)

# One object in which only what the headers declare is visible: a program may have its own array.c.
$(INSTALL_LIBS): scripts/public-names.sh
	$(call msg,AR,$@)
	$(Q)mkdir -p $(@D) && rm -f $@
	$(Q)$(LD) -r $(filter %.o,$^) -o $(@:.a=.o)
	$(Q)scripts/public-names.sh $(filter %.h,$^) >$(@:.a=.names)
	$(Q)$(OBJCOPY) --keep-global-symbols=$(@:.a=.names) $(@:.a=.o)
	$(Q)$(AR) rcs $@ $(@:.a=.o)

# Where systemd looks, also below /usr/local.
unitdir ?= $(prefix)/lib/systemd/system
mandir  ?= $(prefix)/share/man
datadir ?= $(prefix)/share

# The pages come from the same tables as --help.
man: $(BIN)		## write the man pages to .output/man
	$(Q)rm -rf $(OUT)/man && mkdir -p $(OUT)/man
	$(Q)SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || stat -c %Y VERSION)} \
		$(abspath $(BIN)) --man $(OUT)/man

# Completion for shells comes from these tables, too. Debian's packages use both folders.
bashcompletiondir ?= $(prefix)/share/bash-completion/completions
zshcompletiondir  ?= $(prefix)/share/zsh/vendor-completions

completion: $(BIN)	## write the completion for bash and zsh to .output/completion
	$(Q)rm -rf $(OUT)/completion && mkdir -p $(OUT)/completion
	$(Q)(cat scripts/completion/allocsnap.bash && $(abspath $(BIN)) --completion bash) >$(OUT)/completion/allocsnap
	$(Q)(cat scripts/completion/_allocsnap && $(abspath $(BIN)) --completion zsh) >$(OUT)/completion/_allocsnap

# pc NAME,LIBS: its pkg-config file
pc = sed 's|@prefix@|$(prefix)|; s|@libdir@|$(libdir)|; s|@includedir@|$(includedir)|; s|@version@|$(VERSION)|; s|@libs@|$(2)|' \
	scripts/$(1).pc.in >$(DESTDIR)$(libdir)/pkgconfig/$(1).pc

install: all man completion $(INSTALL_LIBS)	## install below $(DESTDIR)$(prefix)
	$(Q)install -D -m 755 $(BIN) $(DESTDIR)$(bindir)/allocsnap
	$(Q)install -m 755 scripts/tracemalloc-to-json $(DESTDIR)$(bindir)/tracemalloc-to-json
	$(Q)install -D -m 644 -t $(DESTDIR)$(libdir) $(INSTALL_LIBS)
	$(if $(READS_ONLY),,$(Q)install -D -m 755 -t $(DESTDIR)$(libdir)/allocsnap $(SAMPLERS) $(EXACT))
	$(Q)install -D -m 644 -t $(DESTDIR)$(includedir)/allocsnap $(PUBLIC) $(if $(READS_ONLY),,$(PUBLIC_COLLECT))
	$(Q)install -d $(DESTDIR)$(libdir)/pkgconfig
	$(Q)$(call pc,allocsnap,$(API_LIBS))
	$(if $(READS_ONLY),,$(Q)$(call pc,allocsnap-collect,$(COLLECT_LIBS) $(SYMBOLS_LIBS)))
	$(Q)install -D -m 644 -t $(DESTDIR)$(mandir)/man1 $(OUT)/man/*.1 scripts/tracemalloc-to-json.1
	$(Q)install -D -m 644 -t $(DESTDIR)$(bashcompletiondir) $(OUT)/completion/allocsnap
	$(Q)install -D -m 644 -t $(DESTDIR)$(zshcompletiondir) $(OUT)/completion/_allocsnap
	$(Q)install -D -m 644 -t $(DESTDIR)$(datadir)/allocsnap/fleet src/fleet/sql/*.sql
	$(Q)install -d $(DESTDIR)$(unitdir)
	$(Q)$(foreach unit,$(if $(READS_ONLY),,allocsnap) allocsnap-push,sed 's|@bindir@|$(bindir)|' scripts/$(unit).service.in >$(DESTDIR)$(unitdir)/$(unit).service &&) true
