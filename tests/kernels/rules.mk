# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The live tests on Debian's older kernels, which are fetched once, in QEMU without KVM.

.PHONY: test-kernels

test-kernels: $(BIN) workloads	## the smoke tests on older kernels, in QEMU
	$(Q)ALLOCSNAP=$(abspath $(BIN)) OUT=$(abspath $(OUT)) KERNELS=$(abspath .output/kernels) \
		tests/kernels/run.py $(KERNELS_ARGS)
