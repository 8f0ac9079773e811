// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/uretprobe_safety.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "shared/bpf_types.h"
#include "collect/bpf.h"
#include "collect/process/mappings.h"
#include "collect/process/proc.h"
#include "elf/allocators.h"
#include "sandbox/client.h"

/* ---- threads ---- */

/*
 * Asks the kernel for the first thread with an alternate signal stack. Returns the number of bytes written to
 * *ret (0: no such thread), or a negative errno.
 */
static ssize_t first_alternate_stack(const struct allocsnap_bpf *bpf, pid_t pid,
				     struct alternate_stack *ret)
{
	union bpf_iter_link_info of_process = { .task.pid = pid };
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &of_process,
		    .link_info_len = sizeof(of_process));
	struct bpf_link *link = bpf_program__attach_iter(bpf->progs.alternate_stacks, &opts);
	ssize_t got;
	int fd;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	got = fd < 0 ? fd : read(fd, ret, sizeof(*ret));
	if (got < 0)
		got = -errno;
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return got;
}

int hazard_of_threads(const struct allocsnap_bpf *bpf, pid_t pid, struct reason *ret)
{
	struct alternate_stack found;
	ssize_t got = first_alternate_stack(bpf, pid, &found);

	if (!got || got == -ESRCH)
		return got;
	if (got == sizeof(found))
		reason_set(ret, 0, "its thread %u has an alternate signal stack", found.tid);
	else
		reason_set(ret, 0, "its threads' signal stacks cannot be looked at: %s",
			   got < 0 ? strerror(-got) : "cut short");
	return 1;
}

/* ---- tracers ---- */

int hazard_of_tracer(pid_t pid, struct reason *ret)
{
	uint64_t tracer = 0;
	char *comm;

	if (proc_status(pid, "TracerPid", &tracer) || !tracer || (pid_t)tracer == getpid())
		return 0;
	comm = proc_text(tracer, "comm");
	reason_set(
		ret, 0,
		"process %d is traced by %d (%s), which can see a system call at each return of an allocator function (uretprobe, 335); --no-return-probes avoids that",
		pid, (int)tracer, comm ?: "?");
	free(comm);
	return 1;
}

/* ---- objects ---- */

/*
 * These libraries have such names but switch stacks only between allocator calls, and only on request: the
 * asynchronous jobs of OpenSSL.
 */
static const char *const harmless[] = { "libcrypto.so*" };

static bool is_harmless(const char *path)
{
	const char *slash = strrchr(path, '/');

	for (size_t i = 0; i < ARRAY_SIZE(harmless); i++)
		if (!fnmatch(harmless[i], slash ? slash + 1 : path, 0))
			return true;
	return allocator_of(path)->is_c_library;
}

int hazard_of_object(struct parser *parser, const struct object *object, struct reason *ret)
{
	const char *what;
	int err;

	if (!object->facts || is_harmless(object->path))
		return 0;
	err = parser__stack_switch(parser, object->fd, &what);
	if (err == -EIO)
		what = "may switch stacks, and reading it has failed";
	else if (err)
		return err == -ENOMEM ? err : 0;
	reason_set(ret, 0, "%s %s", object->path, what);
	return 1;
}
