# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A program that uses the library as installed.

.PHONY: test-example

test-example: $(BIN) $(OUT)/install/liballocsnap.a	## install, and build a program with the library
	$(Q)MAKE='$(MAKE)' CC='$(CC)' tests/example/run.sh
