// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/inject_rules.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"

/* ---- the kernel ---- */

/* Linux moves pages of files with MREMAP_DONTUNMAP since 5.13. */
static bool is_old(const char *release)
{
	unsigned int major = 0, minor = 0;

	return sscanf(release, "%u.%u", &major, &minor) != 2 || major < 5 || (major == 5 && minor < 13);
}

static bool is_hardened(const char *release)
{
	return strstr(release, "hardened") || strstr(release, "grsec");
}

int judge_kernel(const struct kernel_texts *kernel, struct reason *why)
{
	if (is_old(kernel->release))
		return reason_set(why, -ENOTSUP, "injection needs Linux 5.13, this is %.60s", kernel->release);
	if (is_hardened(kernel->release))
		return reason_set(why, -ENOTSUP, "this is a hardened kernel (%.60s), with which injection is not tested",
				  kernel->release);
	if (strstr(kernel->lockdown, "[confidentiality]"))
		return reason_set(why, -ENOTSUP, "the kernel is locked down (confidentiality), with which injection is not tested");
	if (kernel->selinux[0] == '1')
		return reason_set(why, -ENOTSUP, "SELinux enforces its policy, with which injection is not tested");
	if (atoi(kernel->ptrace_scope) >= 3)
		return reason_set(why, -ENOTSUP, "no process may be traced here (kernel.yama.ptrace_scope is 3)");
	return 0;
}

/* ---- the process ---- */

/* The text of a line of /proc/PID/status, up to its end; "" if there is none. */
static void status_text(const char *status, const char *field, char *ret, size_t room)
{
	size_t len = strlen(field);
	const char *at = status;

	*ret = '\0';
	while (at && (strncmp(at, field, len) || at[len] != ':')) {
		at = strchr(at, '\n');
		at += at ? 1 : 0;
	}
	if (!at)
		return;
	at += len + 1;
	at += strspn(at, " \t");
	snprintf(ret, room, "%.*s", (int)strcspn(at, "\n"), at);
}

int judge_target(pid_t pid, const char *status, struct reason *why)
{
	char text[256];

	status_text(status, "State", text, sizeof(text));
	if (*text == 'Z' || *text == 'X')
		return reason_set(why, -ESRCH, "process %d has ended", pid);
	if (*text == 'T' || *text == 't')
		return reason_set(why, -EAGAIN, "process %d is stopped", pid);
	status_text(status, "VmSize", text, sizeof(text));
	if (!*text)
		return reason_set(why, -ENOTSUP, "process %d is a thread of the kernel", pid);
	status_text(status, "Tgid", text, sizeof(text));
	if (atoi(text) != pid)
		return reason_set(why, -ENOTSUP, "%d is a thread of process %.20s", pid, text);
	status_text(status, "TracerPid", text, sizeof(text));
	if (strcmp(text, "0"))
		return reason_set(why, -EAGAIN, "process %.20s traces it (a debugger, or strace)", text);
	status_text(status, "x86_Thread_features", text, sizeof(text));
	if (strstr(text, "shstk"))
		return reason_set(why, -ENOTSUP, "it has a shadow stack (CET), with which injection is not tested");
	return 0;
}
