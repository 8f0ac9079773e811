// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probes.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/allocators.h"
#include "collect/attach.h"
#include "collect/bpf.h"
#include "collect/elf_object.h"
#include "collect/mappings.h"

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

/* Does the file define malloc itself? Then its operator new need not come to a malloc that is probed. */
static bool defines_malloc(const struct elf_function *function, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (!function[i].is_local &&
		    !strcmp(allocator_functions[function[i].name].name, "malloc"))
			return true;
	return false;
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
		.vaddr = function->vaddr,
		.throws = known->throws,
	};
	int err;

	if (function->is_local || is_probed(probes, object_index, function->offset))
		return 0;
	if (function->is_ifunc)
		return array_push(probes, failed, object_index);
	err = place(object->elf, function, shape_argument_nr(known->shape), &site.placement);
	return err ?: array_push(probes, site, site);
}

bool probes_have_sessions(const struct allocsnap_bpf *bpf)
{
	return bpf_program__autoload(bpf->progs.session_call);
}

const char *probes_kind(const struct probes *probes, const struct allocsnap_bpf *bpf)
{
	return probes_have_sessions(bpf) ? "uprobe_session" : probes->by_ret ? "uprobe_ret" : "uprobe";
}

uint64_t probes_since_ns(const struct probes *probes, uint32_t object)
{
	for (size_t i = 0; i < probes->looked_nr; i++)
		if (probes->looked[i].object == object)
			return probes->looked[i].time_ns;
	return UINT64_MAX;
}

bool probes_have_looked(const struct probes *probes, uint32_t object)
{
	return probes_since_ns(probes, object) != UINT64_MAX;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The sites of an object; symbols that make no sense are one failure. */
static int add_sites(struct probes *probes, const struct object *object, uint32_t index)
{
	struct elf_function *function;
	size_t nr;
	int err = find_functions(object->elf, &function, &nr);

	if (err)
		return err == -ENOMEM ? err : array_push(probes, failed, index);
	for (size_t i = 0; i < nr && !err; i++)
		if (!allocator_functions[function[i].name].own || defines_malloc(function, nr))
			err = add_site(probes, object, index, &function[i]);
	free(function);
	return err;
}

size_t probes_count_functions(const struct object *object)
{
	struct probes found = {};
	size_t nr = object->elf && !add_sites(&found, object, 0) ? found.site_nr : 0;

	probes_close(&found);
	return nr;
}

int probes_attach(struct probes *probes, const struct allocsnap_bpf *bpf,
		  const struct objects *objects, uint32_t index, struct reason *why)
{
	const struct object *object = objects->object[index];
	struct looked looked = { .object = index, .time_ns = now_ns() };
	size_t first = probes->site_nr;
	int err;

	if (probes_have_looked(probes, index))
		return 0;
	err = array_push(probes, looked, looked);
	if (err || !object->elf)
		return err;
	err = add_sites(probes, object, index);
	if (!err)
		err = attach_sites(probes, bpf, object, first, why);
	for (size_t i = first; i < probes->site_nr && !err; i++)
		if (!probes->site[i].is_attached && !probes->site[i].is_another)
			err = array_push(probes, failed, index);
	probes->looked[probes->looked_nr - 1].time_ns = now_ns();
	probes->looked_nr -= err != 0; /* once more, next time */
	return err;
}

bool probes_see_allocations(const struct probes *probes)
{
	for (size_t i = 0; i < probes->site_nr; i++)
		if (probes->site[i].is_attached && probes->site[i].shape != SHAPE_FREE)
			return true;
	return false;
}

uint64_t probes_lost_in(const uint32_t *object, size_t nr, const struct mappings *mappings)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < nr; i++)
		for (size_t j = 0; j < mappings->used_nr; j++)
			lost += mappings->used[j] == object[i];
	return lost;
}

void probes_close(struct probes *probes)
{
	for (size_t i = 0; i < probes->multi_fd_nr; i++)
		close(probes->multi_fd[i]);
	for (size_t i = 0; i < probes->link_nr; i++)
		bpf_link__destroy(probes->link[i].link);
	free(probes->ret);
	free(probes->multi_fd);
	free(probes->link);
	free(probes->site);
	free(probes->looked);
	free(probes->failed);
	free(probes->dropped);
	*probes = (struct probes){ .pid = probes->pid, .by_ret = probes->by_ret };
}
