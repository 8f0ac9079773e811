// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/python/python_places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/bpf.h"
#include "collect/probe/attach_methods.h"
#include "collect/process/objects.h"
#include "elf/python/python_info.h"

/* Debug hooks: the size and a letter before the block, as many bytes behind it as the size has (without serial numbers). */
#define HOOK_HEAD 16
#define HOOK_BYTES 24

/* Finds the row with these values, or fills a new one. */
static int find_python_call(const struct allocsnap_bpf *bpf, const struct python_call *call, uint32_t *ret)
{
	struct python_call *rows = bpf->bss->python_calls;

	for (*ret = 0; *ret < PYTHON_CALLS_MAX; ++*ret) {
		if (!rows[*ret].is_used)
			rows[*ret] = *call;
		if (!memcmp(&rows[*ret], call, sizeof(*call)))
			return 0;
	}
	return -ENOSPC;
}

static int add_python_place(const struct allocsnap_bpf *bpf, const struct python_site *place, uint32_t site,
			    enum call_shape shape, struct probe_places *ret)
{
	const struct python_call call = {
		.size = place->size, .count = place->count, .pointer = place->pointer,
		.operation = place->operation, .domain = place->domain, .asks_zf = place->asks_zf,
		.asks_letter = place->asks_letter, .is_used = true,
	};
	struct probe_place probe = { .offset = place->offset };
	uint32_t row;
	int err = find_python_call(bpf, &call, &row);

	if (err)
		return err;
	if (place->operation == PYTHON_POOL_OPEN || place->operation == PYTHON_POOL_CLOSE)
		probe.cookie = COOKIE_STEPPED; /* they are stores */
	probe.cookie |= SITE_COOKIE(site, shape, LAYER_POOL, DOMAIN_PYTHON) | CUSTOM_CALL_COOKIE(row);
	return array_push(ret, place, probe);
}

/* SHAPE_NR: it is not probed. */
static enum call_shape shape_of_operation(enum python_operation operation)
{
	if (operation == PYTHON_FREE || operation == PYTHON_UNTRACK || operation == PYTHON_POOL_CLOSE ||
	    operation == PYTHON_CODE_END)
		return SHAPE_PYTHON_FREE;
	if (operation == PYTHON_CREATION)
		return SHAPE_PYTHON_CREATION;
	return operation < PYTHON_OPERATION_NR || operation == PYTHON_TRACK || operation == PYTHON_POOL_OPEN ? SHAPE_PYTHON :
														 SHAPE_NR;
}

static int add_python_places(const struct allocsnap_bpf *bpf, const struct python_info *info, uint32_t site,
			     enum call_shape shape, struct probe_places *ret)
{
	int err = 0;

	for (uint32_t i = 0; i < info->site_nr && !err; i++)
		if (shape_of_operation(info->site[i].operation) == shape)
			err = add_python_place(bpf, &info->site[i], site, shape, ret);
	return err;
}

static const char *name_of_shape(enum call_shape shape)
{
	if (shape == SHAPE_PYTHON_CREATION)
		return "CPython's new objects";
	return shape == SHAPE_PYTHON_FREE ? "CPython's free" : "CPython's malloc, calloc, realloc";
}

static int attach_python_site(const struct attachment *at, const struct python_info *info, enum call_shape shape,
			      struct reason *why)
{
	struct probes *probes = at->probes;
	const struct probe_sites sites = { probes->site_nr, 1, shape_is_free(shape) };
	struct probe_places places = {};
	struct probe_site site = {
		.object = at->object_index,
		.function = name_of_shape(shape),
		.shape = shape,
		.layer = LAYER_POOL,
		.domain = DOMAIN_PYTHON,
		.is_attached = true,
	};
	int err = add_python_places(at->bpf, info, sites.first, shape, &places);

	if (!err && places.place_nr)
		site.offset = places.place[0].offset;
	if (!err)
		err = attach_places(at, PROBE_PYTHON, &places, &sites) ?: array_push(probes, site, site);
	free(places.place);
	return err ? reason_set(why, err, "cannot probe CPython in %s: %s", at->object->path,
				err == -ENOSPC ? "too many different places" : strerror(-err)) : 0;
}

static bool python_is_probed(const struct probes *probes, uint32_t object)
{
	for (size_t i = 0; i < probes->site_nr; i++)
		if (probes->site[i].object == object && shape_is_python(probes->site[i].shape))
			return true;
	return false;
}

int python_places_attach(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
			 uint32_t object, const struct python_info *info, struct reason *why)
{
	struct attachment at = attachment_to(probes, bpf, objects, object);
	size_t link_nr = probes->link_nr, site_nr = probes->site_nr;
	int err;

	if (python_is_probed(probes, object))
		return 0;
	err = attach_python_site(&at, info, SHAPE_PYTHON_FREE, why) ?: attach_python_site(&at, info, SHAPE_PYTHON, why);
	if (!err && info->creation_nr)
		err = attach_python_site(&at, info, SHAPE_PYTHON_CREATION, why);
	if (!err)
		return 0;
	detach_from(probes, link_nr);
	probes->site_nr = site_nr;
	return err;
}

void python_process_make(const struct python_info *info, uint64_t bias, struct python_process *ret)
{
	const struct python_pools *pools = &info->pools;

	*ret = (struct python_process){
		.tss_key = info->tss_key + bias,
		.main_interpreter = info->main_interpreter + bias,
		.used_pools = pools->used_pools,
		.usable_arenas = pools->usable_arenas,
		.arenas = pools->arenas,
		.max_arenas = pools->max_arenas,
		.pools_at = pools->in_interpreter ? 0 : bias,
		.pool_bytes = pools->pool_bytes,
		.arena_bytes = pools->arena_bytes,
		.in_interpreter = pools->in_interpreter,
		.state = pools->state,
		.hook_bytes = info->is_hooked ? HOOK_BYTES : 0,
		.hook_head = info->is_hooked ? HOOK_HEAD : 0,
		.offsets = info->offsets,
	};
}
