# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Places of probes in the allocators of three Debian suites, which are fetched once.

.PHONY: test-placement

test-placement: $(BIN) workloads	## record the allocators of Debian's suites, say where their probes sit (as root)
	$(Q)ALLOCSNAP=$(abspath $(BIN)) WORKLOADS=$(abspath $(OUT)/workloads) \
		PLACEMENT=$(abspath .output/placement) tests/placement/run.py $(PLACEMENT_ARGS)
