// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Names of containers and pods in paths of control groups. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup_path.h"

#define ID "0f5c3a9be1d24477a8c6d5e4f3b2a1908f7e6d5c4b3a29181706f5e4d3c2b1a0"
#define OTHER "1f5c3a9be1d24477a8c6d5e4f3b2a1908f7e6d5c4b3a29181706f5e4d3c2b1a0"

Test(cgroup_from_top, is_what_is_shown_in_the_first_namespace)
{
	static const struct {
		const char *root, *shown, *path;
	} rows[] = {
		{ NULL, "/a/b", "/a/b" },
		{ "", "/../b", "/../b" },
		{ "/", "/a/b", "/a/b" },
		{ "/", "/", "/" },
		{ "/", "", "" },
		{ "/kubepods/pod1", "/", "/kubepods/pod1" },
		{ "/kubepods/pod1", "/init", "/kubepods/pod1/init" },
		{ "/kubepods/pod1", "/..", "/kubepods" },
		{ "/kubepods/pod1", "/../pod2/x", "/kubepods/pod2/x" },
		{ "/kubepods/pod1", "/../..", "/" },
		{ "/kubepods/pod1", "/../../system.slice", "/system.slice" },
		{ "/kubepods/pod1", "/../../../x", "/x" }, /* no kernel says so */
		{ "/kubepods", "/..x", "/kubepods/..x" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *path = cgroup_from_top(rows[i].root, rows[i].shown);

		cr_expect_str_eq(path, rows[i].path, "%s below %s: %s", rows[i].shown, rows[i].root, path);
		free(path);
	}
}

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

static void check_runtime(const char *cgroup, const char *wanted)
{
	char runtime[CONTAINER_RUNTIME_MAX];

	cr_expect_str_eq(container_runtime(cgroup, runtime), wanted, "of %s: %s", cgroup, runtime);
}

Test(container_runtime, is_what_stands_before_the_id)
{
	check_runtime("/system.slice/docker-" ID ".scope", "docker");
	check_runtime("/kubepods.slice/kubepods-pod12345678_90ab.slice/cri-containerd-" ID ".scope", "cri-containerd");
	check_runtime("/machine.slice/libpod-" ID ".scope/container", "libpod");
	check_runtime("/kubepods/besteffort/kubepods-besteffort-podx.slice:cri-containerd:" ID, "cri-containerd");
	check_runtime("/docker-" OTHER ".scope/new-thing-" ID, "new-thing");
}

Test(container_runtime, is_empty_without_such_a_name)
{
	check_runtime("", "");
	check_runtime(ID, "");
	check_runtime("/docker/" ID, "");
	check_runtime("/kubepods/burstable/pod0/" ID, "");
	check_runtime("/-" ID, "");
	check_runtime("/docker-" ID "0", "");
	check_runtime("/a-name-that-is-much-too-long-for-a-runtime-" ID, "");
}

#define UID "0f5c3a9b-e1d2-4477-a8c6-d5e4f3b2a190"
#define UID_OF_SYSTEMD "0f5c3a9b_e1d2_4477_a8c6_d5e4f3b2a190"

static void check_pod(const char *cgroup, const char *wanted)
{
	char uid[POD_UID_LEN + 1], id[CONTAINER_ID_LEN + 1];

	cr_expect_str_eq(pod_uid(cgroup, "/init.scope", uid, id), wanted, "of %s: %s", cgroup, uid);
	cr_expect_str_eq(id, *wanted && strstr(cgroup, ID) ? ID : "", "of %s: %s", cgroup, id);
}

Test(pod_uid, is_read_from_the_cgroup_path)
{
	check_pod("/kubepods/burstable/pod" UID "/" ID, UID);
	check_pod("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_OF_SYSTEMD ".slice/crio-" ID ".scope", UID);
	check_pod("/kubepods-besteffort-pod" UID_OF_SYSTEMD ".slice:cri-containerd:" ID, UID);
	check_pod("/kubelet/kubepods/pod0f5c3a9be1d24477a8c6d5e4f3b2a190/" ID, "0f5c3a9be1d24477a8c6d5e4f3b2a190");
}

/* A process in a pod or in a container can make groups below its own, and name them. */
Test(pod_uid, is_the_outermost_and_not_below_a_container)
{
	char uid[POD_UID_LEN + 1], id[CONTAINER_ID_LEN + 1];

	check_pod("/kubepods/pod" UID "/" ID "/kubepods/pod1f5c3a9b-e1d2-4477-a8c6-d5e4f3b2a190/" OTHER, UID);
	check_pod("/docker/" OTHER "/kubepods/pod" UID "/" ID, "");
	check_pod("/system.slice/docker-" OTHER ".scope/kubepods/pod" UID "/" ID, "");
	/* a node that is a container */
	pod_uid("/docker/" OTHER "/kubelet.slice/kubelet-pod" UID_OF_SYSTEMD ".slice/cri-containerd-" ID ".scope", "/docker/" OTHER "/init.scope",
		uid, id);
	cr_expect_str_eq(uid, UID);
	cr_expect_str_eq(id, ID);
	pod_uid("/docker/" OTHER "/docker/" ID "/pod" UID, "", uid, id);
	cr_expect_str_eq(uid, "");
}

Test(pod_uid, is_empty_for_other_cgroup_paths)
{
	check_pod("", "");
	check_pod("/", "");
	check_pod("/pod", "");
	check_pod("/system.slice/podman.service", "");
	check_pod("/tripod" UID, "");
	check_pod("/pod" UID "0", "");
	check_pod("/pod0f5c3a9b-e1d2-4477-a8c6-d5e4f3b2a19g", "");
	check_pod("/pod0f5c3a9b-e1d2-4477-a8c6d-5e4f3b2a190", "");
	check_pod("/kubepods/" UID, "");
}
