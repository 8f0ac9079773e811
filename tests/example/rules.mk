# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Programs that use the libraries as installed.

.PHONY: test-example

test-example: $(BIN) $(INSTALL_LIBS) workloads	## install, and build programs with the libraries
	$(Q)MAKE='$(MAKE)' CC='$(CC)' WORKLOADS=$(abspath $(OUT)/workloads) tests/example/run.sh
