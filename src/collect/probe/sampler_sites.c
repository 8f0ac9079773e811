// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/sampler_sites.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/bpf.h"
#include "collect/probe/attach_methods.h"
#include "collect/process/objects.h"
#include "elf/sampler_places.h"

/* Finds the row with these places, or fills a new one: equal places share a row. A used row has a width. */
static int find_sampler_call(const struct allocsnap_bpf *bpf, const struct sampler_call *call, uint32_t *ret)
{
	struct sampler_call *rows = bpf->bss->sampler_calls;

	for (*ret = 0; *ret < SAMPLER_CALLS_MAX; ++*ret) {
		if (!rows[*ret].argument[0].bytes)
			rows[*ret] = *call;
		if (!memcmp(&rows[*ret], call, sizeof(*call)))
			return 0;
	}
	return -ENOSPC;
}

static int add_sampler_site(struct probes *probes, const struct allocsnap_bpf *bpf, uint32_t object,
			    const struct sampler_place *place)
{
	struct probe_site site = {
		.object = object,
		.function = place->is_free ? "otel_memory:free" : "otel_memory:alloc",
		.shape = place->is_free ? SHAPE_SAMPLE_FREE : SHAPE_SAMPLE,
		.layer = LAYER_HEAP,
		.offset = place->offset,
		.placement = { .why = PLACEMENT_EMULATED, .instruction = "nop" },
		.semaphore = place->semaphore,
	};
	int err = find_sampler_call(bpf, &place->call, &site.user_call);

	return err ?: array_push(probes, site, site);
}

/* Whether all places may be probed. -ENOTSUP with a line in *why if not. */
static int check_sampler_places(const struct attachment *at, const struct sampler_places *places, struct reason *why)
{
	int err = 0;

	if (at->object->is_copied)
		return reason_set(why, -ENOTSUP, "its code may be copied while it runs");
	if (at->object->is_copy)
		return reason_set(why, -ENOTSUP, "it is on a file system that may stop answering");
	for (size_t i = 0; i < places->nr && !err; i++)
		err = check_place(at, places->place[i].offset, why);
	return err;
}

static bool all_are_attached(const struct probes *probes, size_t first, size_t nr)
{
	for (size_t i = first; i < first + nr; i++)
		if (!probes->site[i].is_attached)
			return false;
	return true;
}

/* The entries become holes, as their numbers are in cookies. */
static void forget_sampler_sites(struct probes *probes, size_t first, size_t nr)
{
	for (size_t i = first; i < first + nr; i++)
		probes->site[i] = (struct probe_site){ .object = OBJECT_NONE };
	while (probes->site_nr && probes->site[probes->site_nr - 1].object == OBJECT_NONE)
		probes->site_nr--;
}

static int attach_sampler_sites(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
				size_t first, struct reason *why)
{
	size_t nr = probes->site_nr - first, link_nr = probes->link_nr;
	int err;

	first = probe_sites_settle(probes, first);
	err = attach_sites(probes, bpf, objects, first, nr, why);
	if (!err && all_are_attached(probes, first, nr))
		return 0;
	detach_from(probes, link_nr);
	forget_sampler_sites(probes, first, nr);
	return err;
}

static void say_unused(const struct object *object, const char *what, struct reason *why)
{
	reason_set(why, 0, "%s takes samples of the heap, but they are not used: %s", object->path, what);
}

int sampler_sites_attach(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
			 uint32_t index, struct reason *why)
{
	const struct object *object = objects->object[index];
	const struct sampler_places *places = object->facts->sampler;
	struct attachment at = attachment_to(probes, bpf, objects, index);
	size_t first = probes->site_nr;
	struct reason why_not = {};
	int err = 0;

	if (!places->nr || check_sampler_places(&at, places, &why_not)) {
		say_unused(object, places->nr ? why_not.text : places->fault, why);
		return 0;
	}
	for (size_t i = 0; i < places->nr && !err; i++)
		err = add_sampler_site(probes, bpf, index, &places->place[i]);
	if (err) {
		forget_sampler_sites(probes, first, probes->site_nr - first);
		if (err == -ENOSPC)
			say_unused(object, "there are too many kinds of such probes", why);
		return err == -ENOSPC ? 0 : err;
	}
	err = attach_sampler_sites(probes, bpf, objects, first, &why_not);
	if (!err && !sampler_sites_are_probed(probes, index))
		say_unused(object, *why_not.text ? why_not.text : "the kernel refuses", why);
	return err;
}

bool sampler_sites_are_probed(const struct probes *probes, uint32_t object)
{
	return array_any(probes->site_nr, i,
			 probes->site[i].object == object && shape_is_sampler(probes->site[i].shape));
}
