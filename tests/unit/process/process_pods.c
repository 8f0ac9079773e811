// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Names of pods and containers, by what the kubelet calls its log files. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process/pods.h"

#define ID "0f5c3a9be1d24477a8c6d5e4f3b2a1908f7e6d5c4b3a29181706f5e4d3c2b1a0"
#define OTHER "1f5c3a9be1d24477a8c6d5e4f3b2a1908f7e6d5c4b3a29181706f5e4d3c2b1a0"
#define UID "0f5c3a9b-e1d2-4477-a8c6-d5e4f3b2a190"
#define GROUP "/kubepods/burstable/pod" UID

static char root[] = "/tmp/allocsnap-pods.XXXXXX";

static void shell(const char *fmt, const char *name)
{
	char command[1024];

	snprintf(command, sizeof(command), "cd %s && ", root);
	snprintf(command + strlen(command), sizeof(command) - strlen(command), fmt, name);
	cr_assert_eq(system(command), 0, "%s", command);
}

static void begin(void)
{
	cr_assert(mkdtemp(root));
	shell("mkdir -p var/log/%s var/log/containers", "pods");
}

static void end(void)
{
	shell("rm -rf %s", root);
}

static void has_pod(const char *name)
{
	shell("mkdir 'var/log/pods/%s'", name);
}

static void has_log(const char *name)
{
	shell("ln -s gone 'var/log/containers/%s'", name);
}

static struct pod found_in(const char *cgroup)
{
	struct pod pod;

	pod_read(&pod, cgroup, "/");
	pod_find_names_below(&pod, root);
	return pod;
}

Test(pods, have_the_names_that_the_kubelet_gave_their_logs, .init = begin, .fini = end)
{
	struct pod pod;

	has_pod("kube-system_web-0_" OTHER);
	has_pod("shop_web-0.a_" UID);
	has_log("web-0.a_shop_server-" ID ".log");
	has_log("web-0.a_shop_sidecar-" OTHER ".log");
	pod = found_in(GROUP "/" ID);
	cr_expect_str_eq(pod.name, "web-0.a");
	cr_expect_str_eq(pod.namespace, "shop");
	cr_expect_str_eq(pod.container, "server");
	pod = found_in(GROUP "/" OTHER);
	cr_expect_str_eq(pod.container, "sidecar");
}

Test(pods, have_no_name_that_nothing_says, .init = begin, .fini = end)
{
	struct pod pod = found_in(GROUP "/" ID);

	cr_expect_str_eq(pod.uid, UID);
	cr_expect_str_eq(pod.name, "");
	has_pod("shop_web-0_" UID);
	pod_find_names_below(&pod, root); /* the name has come */
	cr_expect_str_eq(pod.name, "web-0");
	cr_expect_str_eq(pod.container, "");
	pod = found_in("/system.slice/x.service");
	cr_expect_str_eq(pod.name, "");
}

/* One name each: a namespace, a pod, and the UID. */
Test(pods, have_no_name_that_no_api_server_would_give, .init = begin, .fini = end)
{
	static const char *const names[] = {
		"shop_" UID, "_web-0_" UID, "shop__" UID, "a_b_c_" UID, "shop_web-0_" UID "_x", "Shop_web-0_" UID, "shop_web 0_" UID,
		"shop_web\\0_" UID, "shop_web\n0_" UID, "shop_web-0_" UID "0", "shop_web-0_x" UID, UID, "__" UID,
		"a123456789012345678901234567890123456789012345678901234567890123_web-0_" UID,
	};
	struct pod pod;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		has_pod(names[i]);
	pod = found_in(GROUP "/" ID);
	cr_expect_str_eq(pod.name, "", "%s in %s", pod.name, pod.namespace);
}

Test(pods, have_no_container_of_another_pod, .init = begin, .fini = end)
{
	struct pod pod;

	has_pod("shop_web-0_" UID);
	has_log("web-1_shop_server-" ID ".log");
	has_log("web-0_bank_server-" ID ".log");
	has_log("web-0_shop_Server-" ID ".log");
	has_log("web-0_shop_-" ID ".log");
	has_log("-" ID ".log");
	has_log("web-0_shop_server-" ID);
	pod = found_in(GROUP "/" ID);
	cr_expect_str_eq(pod.name, "web-0");
	cr_expect_str_eq(pod.container, "");
}

Test(pods, are_looked_for_below_the_root_only, .init = begin, .fini = end)
{
	struct pod pod;

	shell("mkdir -p elsewhere/shop_web-0_" UID " && rmdir var/log/pods && ln -s /%s var/log/pods", "elsewhere");
	pod = found_in(GROUP "/" ID);
	cr_expect_str_eq(pod.name, "web-0");
	pod_read(&pod, GROUP, "/");
	pod_find_names_below(&pod, "/nonexistent");
	cr_expect_str_eq(pod.name, "");
}
