# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# CPython's tracemalloc as the oracle: random snapshots through both.

# The program's own objects; only its main() is called by another name.
ORACLE      := $(OUT)/oracle-serve
ORACLE_OBJ  := $(OUT)/tests/oracle/serve.o $(OUT)/tests/oracle/main.o \
	       $(call obj,$(filter-out src/main.c,$(MAIN_SRC)))
ORACLE_LIBS := $(COLLECT) $(LIB) $(COLLECT_LIBS) $(LIB_LIBS)
ORACLE_ENV  := ALLOCSNAP=$(abspath $(BIN)) ORACLE=$(abspath $(ORACLE))
# The Python must be the one whose tracemalloc the engine follows.
PYTHON      ?= /usr/bin/python3

.PHONY: test-oracle

test-oracle: $(BIN) $(ORACLE)	## compare with Python's tracemalloc
	$(Q)$(ORACLE_ENV) $(PYTHON) tests/oracle/run.py $(ORACLE_ARGS)

$(OUT)/tests/oracle/main.o: src/main.c VERSION
	$(call msg,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -Dmain=allocsnap_main -MMD -MP -c $< -o $@

$(ORACLE): $(ORACLE_OBJ) $(COLLECT) $(LIB)
	$(call link,$(ORACLE_OBJ) $(ORACLE_LIBS))
