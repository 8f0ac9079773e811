# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The program that the tests of the C API talk to; it has the libraries as they are installed.

test-live workloads: $(OUT)/workloads/collect_api

$(OUT)/workloads/collect_api: $(OUT)/tests/live/collect_api.o $(OUT)/install/liballocsnap-collect.a \
			      $(OUT)/install/liballocsnap.a
	$(call msg,LINK,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $^ $(COLLECT_LIBS) $(LIB_LIBS) -o $@
