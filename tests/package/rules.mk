# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The packages of this commit, on systems made from nothing.

.PHONY: test-package

test-package:		## make the packages of this commit; install, use and remove them in other systems (as root)
	$(Q)scripts/install-deps.sh build package
	$(Q)PACKAGE_TEST=$(abspath $(OUT)/package-test) tests/package/run.py $(PACKAGE_ARGS)
