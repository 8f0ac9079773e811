// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/inject/inject_rules.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "collect/inject/target_maps.h"

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

/* ---- its room ---- */

/* Counts as the kernel does (may_expand_vm()): a stack that grows is no data. */
static void count_mapped(const struct target_maps *maps, struct mappings_needed *ret)
{
	*ret = (struct mappings_needed){ .nr = maps->line_nr };
	for (size_t i = 0; i < maps->line_nr; i++) {
		const struct maps_line *line = &maps->line[i];

		if (!strcmp(line->path, "[vsyscall]")) /* it belongs to no process */
			continue;
		ret->bytes += line->end - line->start;
		if (line->perms[1] == 'w' && line->perms[3] == 'p' && strcmp(line->path, "[stack]"))
			ret->data_bytes += line->end - line->start;
	}
}

bool limit_of_text(const char *limits, const char *name, uint64_t *ret)
{
	const char *at = strstr(limits, name);

	if (at && sscanf(at + strlen(name), "%" SCNu64, ret) == 1)
		return true;
	*ret = UINT64_MAX;
	return at && !strncmp(at + strlen(name) + strspn(at + strlen(name), " "), "unlimited", strlen("unlimited"));
}

int judge_room(const struct target_maps *maps, const struct mappings_needed *needed, const char *max_map_count,
	       const char *limits, struct reason *why)
{
	struct mappings_needed mapped, most;

	if (sscanf(max_map_count, "%" SCNu64, &most.nr) != 1 || !limit_of_text(limits, "Max address space", &most.bytes) ||
	    !limit_of_text(limits, "Max data size", &most.data_bytes))
		return reason_set(why, -EIO, "the kernel does not say how much it may map");
	count_mapped(maps, &mapped);
	if (mapped.nr + needed->nr > most.nr)
		return reason_set(why, -EAGAIN, "it has %" PRIu64 " mappings, and %" PRIu64 " more would be too many (vm.max_map_count)",
				  mapped.nr, needed->nr);
	if (mapped.bytes + needed->bytes > most.bytes)
		return reason_set(why, -EAGAIN, "%" PRIu64 " KiB more would be more than its limit on addresses (ulimit -v)",
				  needed->bytes >> 10);
	if (needed->data_bytes && mapped.data_bytes + needed->data_bytes > most.data_bytes)
		return reason_set(why, -EAGAIN, "%" PRIu64 " KiB more would be more than its limit on data (ulimit -d)",
				  needed->data_bytes >> 10);
	return 0;
}
