// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/hazards.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fnmatch.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "bpf_types.h"
#include "collect/allocators.h"
#include "collect/bpf.h"
#include "collect/elf_object.h"
#include "collect/mappings.h"

/* ---- threads ---- */

/* How many bytes the walk gave, of the first thread found; or a negative errno. */
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

/* ---- objects ---- */

/* What only objects have that switch stacks: symbols defined or wanted, and sections. */
static const struct stack_switch {
	const char *name;
	const char *what;
} stack_switches[] = {
	{ "swapcontext", "switches stacks (swapcontext)" },
	{ "makecontext", "switches stacks (makecontext)" },
	{ "jump_fcontext", "switches stacks (Boost.Context)" },
	{ "make_fcontext", "switches stacks (Boost.Context)" },
	{ "ontop_fcontext", "switches stacks (Boost.Context)" },
	{ "bthread_jump_fcontext", "switches stacks (bthread)" },
	{ "co_switch", "switches stacks (libco)" },
	{ "coctx_swap", "switches stacks (libco)" },
	{ "acosw", "switches stacks (libaco)" },
	{ "coro_transfer", "switches stacks (libcoro)" },
	{ "_mco_switch", "switches stacks (minicoro)" },
	{ "coroutine_transfer", "switches stacks (Ruby's fibers)" },
	{ "qemu_coroutine_switch", "switches stacks (QEMU's coroutines)" },
	{ "pth_yield", "switches stacks (GNU Pth)" },
	{ "st_thread_create", "switches stacks (State Threads)" },
	{ "__splitstack_getcontext", "switches stacks (split stacks)" },
	{ "__morestack", "switches stacks (split stacks)" },
	{ "runtime.morestack", "is a Go program" },
	{ "runtime.mcall", "is a Go program" },
	{ ".note.go.buildid", "is a Go program" },
	{ ".go.buildinfo", "is a Go program" },
	{ ".gopclntab", "is a Go program" },
	{ ".data.rel.ro.gopclntab", "is a Go program" },
	{ ".go.module", "is a Go program" },
};

/*
 * Those have such names and switch stacks between allocator calls only, and where asked to: the
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

int hazard_of_object(const struct object *object, struct reason *ret)
{
	const char *name[ARRAY_SIZE(stack_switches)];
	size_t found;
	int err;

	if (!object->elf || is_harmless(object->path))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(stack_switches); i++)
		name[i] = stack_switches[i].name;
	err = elf_object__find_name(object->elf, name, ARRAY_SIZE(name), &found);
	if (err)
		return err == -ENOMEM ? err : 0;
	reason_set(ret, 0, "%s %s", object->path, stack_switches[found].what);
	return 1;
}
