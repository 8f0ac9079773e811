# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Shared by the suites.

.PHONY: stress test-harness

test-harness:		## what the check counts, which failures get a second try, which parts a path touches
	$(Q)tests/harness/test_check.py

SUITE := live

# The first run builds, and its output is shown.
stress:			## T=NAME: a test of the live suite, or of SUITE, 30 times beside 4 busy loops
	$(Q)test -n "$(T)" || { echo "make stress T=NAME [SUITE=NAME]" >&2; exit 2; }
	$(Q)$(MAKE) test-$(SUITE) $(shell echo $(SUITE) | tr a-z A-Z)_ARGS="$(T)"
	$(Q)tests/harness/stress.py $(STRESS_ARGS) $(MAKE) test-$(SUITE) $(shell echo $(SUITE) | tr a-z A-Z)_ARGS="$(T)"
