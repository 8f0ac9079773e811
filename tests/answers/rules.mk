# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Real programs with planted leaks: commands as a user types them, and whether their first row names the planted place.

PLANTED := $(OUT)/answers/shopcache

.PHONY: test-answers

test-answers: $(BIN) $(PLANTED) $(INSTALL_LIBS) workloads	## find leaks planted in real programs by the commands of a user (as root)
	$(Q)ALLOCSNAP=$(abspath $(BIN)) WORKLOADS=$(abspath $(OUT)/workloads) ANSWERS=$(abspath $(OUT)/answers) \
		tests/answers/run.py $(ANSWERS_ARGS)

# As a user's own program: optimized, with debug information, without frame pointers.
$(OUT)/answers/%: tests/answers/planted/%.cc
	$(call msg,CXX,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CROSS_COMPILE)g++ -O2 -g -std=c++17 -Wall -Wl,--build-id -pthread $< -o $@
