# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The package's unit below systemd, in QEMU.

.PHONY: test-service

test-service: $(OUT)/workloads/holds		## the package's service in a machine of its own, in QEMU: start, watchdog, restart, stop, upgrade (as root)
	$(Q)scripts/install-deps.sh build package kernels
	$(Q)PACKAGE_TEST=$(abspath $(OUT)/package-test) OUT=$(abspath $(OUT)) KERNELS=$(abspath .output/kernels) \
		tests/service/run.py $(SERVICE_ARGS)
