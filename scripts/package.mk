# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Packages of this commit, in .output/package; part of the Makefile. What is not committed is not in them. Two builds of
# one commit are equal byte for byte.

.PHONY: deb rpm tarball

# Its time stands for the build's.
PACKAGE      := .output/package
EPOCH        := $(or $(SOURCE_DATE_EPOCH),$(shell git -c safe.directory='*' --git-dir=.git log -1 --format=%ct 2>/dev/null))
package_with  = $(Q)scripts/install-deps.sh build package && SOURCE_DATE_EPOCH=$(EPOCH) scripts/package/$(1)

deb:			## Debian packages of this commit in .output/package
	$(call package_with,build-deb.sh $(VERSION) $(abspath $(PACKAGE)))

rpm:			## an RPM of this commit in .output/package, tried with Debian's rpmbuild only
	$(call package_with,build-rpm.sh $(VERSION) $(abspath $(PACKAGE)))

tarball:		## a program that needs only glibc 2.34 or newer, with its manual, in .output/package
	$(call package_with,build-tarball.sh $(VERSION) $(abspath $(PACKAGE)))

# ---- the program of the tarball: all libraries but the C library are in it ----

STATIC_LIBS := -Wl,-Bstatic $(filter-out -lm,$(COLLECT_LIBS) $(LIB_LIBS)) -llzma -lbz2 -Wl,-Bdynamic -lm

$(OUT)/static/allocsnap: $(BIN)
	$(call link,$(call obj,src/main.c) $(APP) $(COLLECT) $(LIB) $(STATIC_LIBS))
