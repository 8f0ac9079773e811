// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probes.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/allocators.h"
#include "collect/bpf.h"
#include "collect/elf_object.h"
#include "collect/mappings.h"
#include "collect/proc.h"
#include "collect/uprobe_multi.h"

#define ENOTSUPP 524 /* include/linux/errno.h: not for user space, but uprobes let it out */

/* Code that is looked at to place a probe; functions are far smaller. */
#define CODE_MAX (64 << 10)

/* The functions that an object defines, named by allocator_functions[]. */
static int find_functions(struct elf_object *elf, struct elf_function **ret, size_t *ret_nr)
{
	const char *name[allocator_function_nr];

	for (size_t i = 0; i < allocator_function_nr; i++)
		name[i] = allocator_functions[i].name;
	return elf_object__find_functions(elf, name, allocator_function_nr, ret, ret_nr);
}

static int place(struct elf_object *elf, const struct elf_function *function,
		 unsigned int argument_nr, struct placement *ret)
{
	size_t size = function->size < CODE_MAX ? function->size : CODE_MAX;
	uint8_t *code = malloc(size ?: 1);
	int err;

	if (!code)
		return -ENOMEM;
	if (elf_object__read(elf, function->offset, code, size))
		size = 0; /* nothing to decode: the entry */
	err = placement_find(&(struct placement_function){
		.code = code,
		.size = size,
		.address = function->vaddr,
		.elf_machine = elf_object__machine(elf),
		.argument_nr = argument_nr,
	}, ret);
	free(code);
	return err;
}

static bool is_probed(const struct probes *probes, uint32_t object, uint64_t offset)
{
	for (size_t i = 0; i < probes->site_nr; i++)
		if (probes->site[i].object == object && probes->site[i].offset == offset)
			return true;
	return false;
}

static int add_site(struct probes *probes, const struct object *object, uint32_t object_index,
		    const struct elf_function *function)
{
	const struct allocator_function *known = &allocator_functions[function->name];
	struct probe_site site = {
		.object = object_index,
		.function = known->name,
		.shape = known->shape,
		.domain = allocator_of(object->path)->domain,
		.offset = function->offset,
	};
	int err;

	if (function->is_local || is_probed(probes, object_index, function->offset))
		return 0;
	if (function->is_ifunc) {
		probes->failed_nr++;
		return 0;
	}
	err = place(object->elf, function, shape_argument_nr(known->shape), &site.placement);
	return err ?: array_push(probes, site, site);
}

static bool is_multi(const struct allocsnap_bpf *bpf)
{
	return bpf_program__expected_attach_type(bpf->progs.enter_call) == UPROBE_MULTI_ATTACH_TYPE;
}

const char *probes_kind(const struct allocsnap_bpf *bpf)
{
	return is_multi(bpf) ? "uprobe_multi" : "uprobe";
}

/* Where and to whom the sites first … site_nr are attached. */
struct attachment {
	struct probes *probes;
	const struct allocsnap_bpf *bpf;
	pid_t pid;
	char path[64];
	size_t first;
};

static uint64_t site_offset(const struct probe_site *site)
{
	return site->offset + site->placement.offset;
}

static uint64_t site_cookie(const struct probes *probes, const struct probe_site *site)
{
	return SITE_COOKIE(site - probes->site, site->shape, site->domain);
}

/* ---- at once ---- */

static int attach_multi_link(const struct attachment *at, bool is_return,
			     struct uprobe_multi *uprobes)
{
	struct bpf_program *program = is_return ? at->bpf->progs.leave_call :
						  at->bpf->progs.enter_call;
	int err, fd;

	uprobes->path = at->path;
	uprobes->pid = at->pid;
	uprobes->is_return = is_return;
	fd = uprobe_multi_attach(bpf_program__fd(program), uprobes);
	if (fd < 0)
		return fd;
	err = array_push(at->probes, multi_fd, fd);
	if (err)
		close(fd);
	return err;
}

/* Frees first; returns only for what gives out blocks. */
static int attach_multi(const struct attachment *at, bool is_return)
{
	struct probes *probes = at->probes;
	size_t most = probes->site_nr - at->first;
	uint64_t offset[most], cookie[most];
	struct uprobe_multi uprobes = { .offset = offset, .cookie = cookie };

	for (size_t pass = is_return; pass < 2; pass++) {
		for (size_t i = at->first; i < probes->site_nr; i++) {
			const struct probe_site *site = &probes->site[i];

			if ((site->shape == SHAPE_FREE) != !pass)
				continue;
			offset[uprobes.nr] = site_offset(site);
			cookie[uprobes.nr++] = site_cookie(probes, site);
		}
	}
	return uprobes.nr ? attach_multi_link(at, is_return, &uprobes) : 0;
}

/* All or none. */
static int attach_all(const struct attachment *at)
{
	size_t link_nr = at->probes->multi_fd_nr;
	int err = attach_multi(at, true);

	if (!err)
		err = attach_multi(at, false);
	while (err && at->probes->multi_fd_nr > link_nr)
		close(at->probes->multi_fd[--at->probes->multi_fd_nr]);
	for (size_t i = at->first; i < at->probes->site_nr && !err; i++)
		at->probes->site[i].is_attached = true;
	return err;
}

/* ---- one by one ---- */

static int attach_link(const struct attachment *at, const struct probe_site *site, bool is_return)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts,
		.retprobe = is_return,
		.bpf_cookie = site_cookie(at->probes, site));
	uint64_t offset = site_offset(site), cookie = site_cookie(at->probes, site);
	struct uprobe_multi alone = { .nr = 1, .offset = &offset, .cookie = &cookie };
	struct bpf_link *link;
	int err;

	if (is_multi(at->bpf))
		return attach_multi_link(at, is_return, &alone);
	link = bpf_program__attach_uprobe_opts(is_return ? at->bpf->progs.leave_call :
							   at->bpf->progs.enter_call,
					       proc_live_thread(at->pid), at->path,
					       site_offset(site), &opts);
	if (!link)
		return -errno;
	err = array_push(at->probes, link, link);
	if (err)
		bpf_link__destroy(link);
	return err;
}

/* The return probe first: an entry alone would leave a call pending for ever. */
static int attach_site(const struct attachment *at, struct probe_site *site)
{
	int err = site->shape == SHAPE_FREE ? 0 : attach_link(at, site, true);

	if (!err)
		err = attach_link(at, site, false);
	site->is_attached = !err;
	return err;
}

static int attach_each(const struct attachment *at, bool frees, const struct object *object,
		       struct reason *why)
{
	for (size_t i = at->first; i < at->probes->site_nr; i++) {
		struct probe_site *site = &at->probes->site[i];
		int err;

		if ((site->shape == SHAPE_FREE) != frees)
			continue;
		err = attach_site(at, site);
		if (!err)
			continue;
		at->probes->failed_nr++;
		reason_set(why, err, "cannot probe %s in %s: %s", site->function, object->path,
			   err == -ENOTSUPP ? "the kernel cannot probe its first instruction" :
					      strerror(-err));
		if (err == -EPERM || err == -EACCES || err == -ESRCH || err == -ENOMEM)
			return err;
	}
	return 0;
}

/* /proc/self/fd leads to the very file that was looked at, whatever its path means by now. */
static int attach_sites(struct probes *probes, const struct allocsnap_bpf *bpf, pid_t pid,
			const struct object *object, size_t first, struct reason *why)
{
	struct attachment at = { .probes = probes, .bpf = bpf, .pid = pid, .first = first };
	int err;

	snprintf(at.path, sizeof(at.path), "/proc/self/fd/%d", object->fd);
	if (first == probes->site_nr)
		return 0;
	/* Where one of them can't be probed, the others still can. */
	if (is_multi(bpf) && !attach_all(&at))
		return 0;
	err = attach_each(&at, true, object, why);
	return err ?: attach_each(&at, false, object, why);
}

int probes_attach(struct probes *probes, const struct allocsnap_bpf *bpf, pid_t pid,
		  const struct object *object, uint32_t object_index, struct reason *why)
{
	struct elf_function *function;
	size_t nr, first = probes->site_nr;
	int err;

	if (!object->elf)
		return 0;
	err = find_functions(object->elf, &function, &nr);
	if (err == -ENOMEM)
		return err;
	if (err) { /* symbols that make no sense */
		probes->failed_nr++;
		return 0;
	}
	for (size_t i = 0; i < nr && !err; i++)
		err = add_site(probes, object, object_index, &function[i]);
	free(function);
	return err ?: attach_sites(probes, bpf, pid, object, first, why);
}

bool probes_see_allocations(const struct probes *probes)
{
	for (size_t i = 0; i < probes->site_nr; i++)
		if (probes->site[i].is_attached && probes->site[i].shape != SHAPE_FREE)
			return true;
	return false;
}

void probes_close(struct probes *probes)
{
	for (size_t i = 0; i < probes->multi_fd_nr; i++)
		close(probes->multi_fd[i]);
	for (size_t i = 0; i < probes->link_nr; i++)
		bpf_link__destroy(probes->link[i]);
	free(probes->multi_fd);
	free(probes->link);
	free(probes->site);
	memset(probes, 0, sizeof(*probes));
}
