# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Simulated recordings with leaks and look-alikes: `allocsnap leaks` beside the same rule in Python, and how often it
# is right.

LEAKS_ENV := ALLOCSNAP=$(abspath $(BIN)) MAKE_RECORDING=$(abspath $(OUT)/leaks/make_recording)

.PHONY: test-leaks bench-leaks

test-leaks: $(BIN) $(OUT)/leaks/make_recording	## leaks of simulated recordings, beside the rule in Python
	$(Q)$(LEAKS_ENV) tests/leaks/run.py $(LEAKS_ARGS)

bench-leaks: $(BIN) $(OUT)/leaks/make_recording	## how often leaks are found and others named, over many seeds
	$(Q)$(LEAKS_ENV) tests/leaks/run.py --table $(LEAKS_ARGS)

$(OUT)/leaks/make_recording: $(OUT)/tests/leaks/make_recording.o $(LIB)
	$(call link,$^ $(API_LIBS))
