# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Everybody in a control group, recorded for minutes: 200 processes, and those that come and go.

.PHONY: soak

soak: export SOAK_SECONDS ?= 600
soak: export SOAK_INTERVAL ?= 10
soak: export SOAK_PROCESSES ?= 200
soak: export SOAK_BIRTHS ?= 50
soak: $(BIN) $(LEDGER) $(WORKLOADS) $(OUT)/soak/survey	## record 200 processes for SOAK_SECONDS (600), check every file and sum (as root)
	$(Q)scripts/install-deps.sh build test
	$(Q)ALLOCSNAP=$(abspath $(BIN)) WORKLOADS=$(abspath $(OUT)/workloads) \
		LEDGER_FOLDER=$(abspath $(OUT)/ledger) SOAK=$(abspath $(OUT)/soak) tests/soak/run.py

$(OUT)/soak/survey: $(OUT)/tests/soak/survey.o $(LIB)
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $^ $(API_LIBS) -o $@
