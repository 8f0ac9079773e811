// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/uprobe_multi.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collect/probe/feature_probes.h"

/* union bpf_attr for BPF_LINK_CREATE, include/uapi/linux/bpf.h; older headers lack its last fields. */
struct link_create {
	uint32_t program_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t nr, multi_flags, pid, reserved;
};

static int link_create(struct link_create *create)
{
	int fd = syscall(SYS_bpf, BPF_LINK_CREATE, create, sizeof(*create));

	return fd < 0 ? -errno : fd;
}

/* "/" is not a regular file: a kernel that knows the attach type gets as far as to report this (EBADF). */
static bool knows_type(int program_fd, uint32_t attach_type)
{
	uint64_t offset = 0;
	struct link_create create = {
		.program_fd = program_fd,
		.attach_type = attach_type,
		.path = (uintptr_t)"/",
		.offsets = (uintptr_t)&offset,
		.nr = 1,
	};

	return link_create(&create) == -EBADF;
}

bool uprobe_session_works(void)
{
	int fd = trial_load_as(UPROBE_SESSION_ATTACH_TYPE);
	bool works = fd >= 0 && knows_type(fd, UPROBE_SESSION_ATTACH_TYPE);

	if (fd >= 0)
		close(fd);
	return works;
}

#define OF_RETURNS 1 /* BPF_F_UPROBE_MULTI_RETURN */

int uprobe_multi_attach(int program_fd, const struct uprobe_multi *uprobes)
{
	struct link_create create = {
		.program_fd = program_fd,
		.attach_type = uprobes->attach_type,
		.path = (uintptr_t)uprobes->path,
		.offsets = (uintptr_t)uprobes->offset,
		.cookies = (uintptr_t)uprobes->cookie,
		.ref_ctr_offsets = (uintptr_t)uprobes->semaphore,
		.nr = uprobes->nr,
		.multi_flags = uprobes->of_returns ? OF_RETURNS : 0,
		.pid = uprobes->pid,
	};

	return link_create(&create);
}
