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
#include "collect/probe/probes.h"
#include "elf/allocators.h"
#include "sandbox/client.h"

/* ---- threads ---- */

/* Reads the walk's output up to a thread at risk. 1 with the thread; 0: there is none; or a negative errno. */
static int read_risky_thread(int fd, bool has_sessions, struct risky_thread *ret)
{
	struct risky_thread found[512];
	ssize_t got;

	while ((got = read(fd, found, sizeof(found))) > 0)
		for (size_t i = 0; i < got / sizeof(*found); i++)
			if (found[i].is_intercepted || !has_sessions) {
				*ret = found[i];
				return 1;
			}
	return got ? -errno : 0;
}

/* Asks the kernel. Results as of read_risky_thread(). */
static int find_risky_thread(const struct allocsnap_bpf *bpf, pid_t pid, struct risky_thread *ret)
{
	union bpf_iter_link_info of_process = { .task.pid = pid };
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &of_process,
		    .link_info_len = sizeof(of_process));
	struct bpf_link *link = bpf_program__attach_iter(bpf->progs.risky_threads, &opts);
	int fd, found;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	found = fd < 0 ? fd : read_risky_thread(fd, probes_have_sessions(bpf), ret);
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return found;
}

int hazard_of_threads(const struct allocsnap_bpf *bpf, pid_t pid, struct reason *ret)
{
	struct risky_thread thread;
	int found = find_risky_thread(bpf, pid, &thread);

	if (!found || found == -ESRCH)
		return found;
	if (found < 0)
		reason_set(ret, 0, "its threads cannot be looked at: %s", strerror(-found));
	else
		reason_set(ret, 0, "its thread %u %s", thread.tid,
			   thread.is_intercepted ? "handles its system calls itself" : "has an alternate signal stack");
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
