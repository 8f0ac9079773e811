// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/file_system.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"

int file_system_ask(int program_fd, struct file_system *asked)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = asked, .ctx_size_in = sizeof(*asked));
	int err = program_fd < 0 ? -EBADF : bpf_prog_test_run_opts(program_fd, &opts);

	return err ?: (int)opts.retval;
}

enum file_system_kind file_system_kind(const struct file_system *of)
{
	/* A process reads the disk of fuseblk. ZFS manages its disks itself. */
	static const struct {
		const char *type;
		enum file_system_kind kind;
	} rows[] = {
		{ "fuseblk", FILE_SYSTEM_REMOTE },
		{ "overlay", FILE_SYSTEM_STACKED }, { "aufs", FILE_SYSTEM_STACKED },
		{ "ecryptfs", FILE_SYSTEM_STACKED }, { "shiftfs", FILE_SYSTEM_STACKED },
		{ "tmpfs", FILE_SYSTEM_LOCAL }, { "devtmpfs", FILE_SYSTEM_LOCAL },
		{ "ramfs", FILE_SYSTEM_LOCAL }, { "rootfs", FILE_SYSTEM_LOCAL },
		{ "hugetlbfs", FILE_SYSTEM_LOCAL }, { "zfs", FILE_SYSTEM_LOCAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (!strncmp(of->type, rows[i].type, sizeof(of->type)))
			return rows[i].kind;
	return of->flags & FILE_SYSTEM_HAS_DISK ? FILE_SYSTEM_LOCAL : FILE_SYSTEM_REMOTE;
}
