# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The image and the DaemonSet of deploy/, on this machine as the node.

.PHONY: test-deploy

test-deploy:		## build the image, run the container of the DaemonSet beside two pods, drop each of its rights (as root)
	$(Q)scripts/install-deps.sh build package deploy
	$(Q)PACKAGE_TEST=$(abspath $(OUT)/package-test) tests/deploy/run.py $(DEPLOY_ARGS)
