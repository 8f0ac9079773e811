// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/units.h"

#define ID "0f5c3a9be1d24477a8c6d5e4f3b2a1908f7e6d5c4b3a29181706f5e4d3c2b1a0"
#define OTHER "1f5c3a9be1d24477a8c6d5e4f3b2a1908f7e6d5c4b3a29181706f5e4d3c2b1a0"

static void check_id(const char *cgroup, const char *wanted)
{
	char id[CONTAINER_ID_LEN + 1];

	cr_expect_str_eq(container_id(cgroup, id), wanted, "of %s: %s", cgroup, id);
}

Test(container_id, is_read_from_the_cgroup_path)
{
	check_id("/docker/" ID, ID);
	check_id("/system.slice/docker-" ID ".scope", ID);
	check_id("/kubepods.slice/kubepods-burstable-pod12345678_90ab.slice/cri-containerd-" ID ".scope", ID);
	check_id("/machine.slice/libpod-" ID ".scope/container", ID);
	check_id("/docker/" OTHER "/docker/" ID "/init", ID);
}

Test(container_id, is_empty_for_other_cgroup_paths)
{
	check_id("", "");
	check_id("/", "");
	check_id("/system.slice/redis.service", "");
	check_id("/user.slice/user-1000.slice/session-2.scope", "");
	check_id("/docker/" ID "0", "");
	check_id("/docker/0f5c3a9be1d24477", "");
}
