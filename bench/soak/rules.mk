# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Records all processes of a control group for minutes: 200 long-lived ones, and others that come and go.

.PHONY: soak

soak: export SOAK_SECONDS ?= 600
soak: export SOAK_INTERVAL ?= 10
soak: export SOAK_PROCESSES ?= 200
soak: export SOAK_BIRTHS ?= 50
soak: $(BIN) $(LEDGER) $(WORKLOADS) $(OUT)/soak/survey	## record 200 processes for SOAK_SECONDS (600), check every file and sum (as root)
	$(Q)scripts/install-deps.sh build test
	$(Q)ALLOCSNAP=$(abspath $(BIN)) WORKLOADS=$(abspath $(OUT)/workloads) \
		LEDGER_FOLDER=$(abspath $(OUT)/ledger) SOAK=$(abspath $(OUT)/soak) bench/soak/run.py

$(OUT)/soak/survey: $(OUT)/bench/soak/survey.o $(LIB)
	$(call link,$^ $(API_LIBS))

# Another user attacks the recorder meanwhile: see bench/soak/attack.c.
.PHONY: soak-hostile

ATTACK := $(addprefix $(OUT)/soak/,attack attack.1 attack.2) $(OUT)/workloads/slow_files

soak-hostile: export SOAK_SECONDS ?= 1800
soak-hostile: export SOAK_INTERVAL ?= 10
soak-hostile: export SOAK_PROCESSES ?= 100
soak-hostile: export SOAK_BIRTHS ?= 20
soak-hostile: $(BIN) $(LEDGER) $(WORKLOADS) $(ATTACK) $(OUT)/soak/survey	## the same for SOAK_SECONDS (1800) beside a user who attacks the recorder (as root)
	$(Q)scripts/install-deps.sh build test
	$(Q)ALLOCSNAP=$(abspath $(BIN)) WORKLOADS=$(abspath $(OUT)/workloads) SOAK_ATTACK="$(abspath $(ATTACK))" \
		LEDGER_FOLDER=$(abspath $(OUT)/ledger) SOAK=$(abspath $(OUT)/soak) bench/soak/run.py

# Two static programs, whose functions lie at different places, are copied over one another.
$(OUT)/soak/attack.1: ATTACK_FLAGS := -static
$(OUT)/soak/attack.2: ATTACK_FLAGS := -static -O0
$(OUT)/soak/attack $(OUT)/soak/attack.1 $(OUT)/soak/attack.2: bench/soak/attack.c tests/workloads/workload.h
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -g -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -pthread -Wall $(if $(CI),-Werror) $(ATTACK_FLAGS) $< -o $@
