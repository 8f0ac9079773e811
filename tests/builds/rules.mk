# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The programs of every target that make help names: built, and not run.

.PHONY: test-builds

test-builds:		## build the programs of each of these targets, and run none
	$(Q)MAKE='$(MAKE)' tests/builds/run.sh $(BUILDS_ARGS)

# BUILD_ONLY=1: what a phony target depends on is made, and its own recipe does nothing. So no target
# has to say a second time which programs it runs. private: recipes of files are not concerned.
ifdef BUILD_ONLY
PHONY_TARGETS := $(shell sed -n 's/^\.PHONY://p' Makefile scripts/install.mk scripts/package.mk tests/tests.mk tests/*/rules.mk bench/rules.mk bench/soak/rules.mk)
$(PHONY_TARGETS): private SHELL := true
endif
