// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/attach_methods.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/bpf.h"
#include "collect/probe/feature_probes.h"
#include "collect/probe/late_programs.h"
#include "collect/probe/link_holder.h"
#include "collect/probe/uprobe_multi.h"
#include "collect/process/objects.h"
#include "elf/placement.h"

static bool links_work(void)
{
	return !trial_pid_of_link();
}

static bool events_work(void)
{
	return true; /* the last resort is always tried */
}

const struct probe_way probe_ways[] = {
	{
		.kind = "uprobe_session",
		.without = "ALLOCSNAP_NO_UPROBE_SESSION",
		.has_sessions = true,
		.works = uprobe_session_works,
		.attach = attach_as_link,
	},
	{
		.kind = "uprobe_multi",
		.without = "ALLOCSNAP_NO_UPROBE_MULTI",
		.works = links_work,
		.attach = attach_as_link,
	},
	{
		.kind = "uprobe",
		.is_alone = true,
		.works = events_work,
		.attach = attach_as_event,
	},
};

static bool is_forbidden(const struct probe_way *way)
{
	if (way->has_sessions && getenv("ALLOCSNAP_NO_UPROBE_RETURN"))
		return true;
	for (; way->without; way++)
		if (getenv(way->without))
			return true;
	return false;
}

const struct probe_way *probe_way_choose(void)
{
	const struct probe_way *way = probe_ways;

	while (is_forbidden(way) || !way->works())
		way++;
	return way;
}

const struct probe_way *probe_way_of(const struct allocsnap_bpf *bpf)
{
	if (bpf_program__autoload(bpf->progs.session_call))
		return &probe_ways[0];
	return &probe_ways[bpf_program__expected_attach_type(bpf->progs.enter_call) ==
					   UPROBE_MULTI_ATTACH_TYPE ? 1 : 2];
}

static int nop5_err(void)
{
	static bool is_known;
	static int err;

	if (!is_known)
		err = trial_nop5();
	is_known = true;
	return err;
}

int check_place(const struct attachment *at, uint64_t offset, struct reason *why)
{
	uint8_t code[NOP5_BYTES];

	if (!is_nop5(code, object_read(at->object, offset, code, sizeof(code))) || !nop5_err())
		return 0;
	return reason_set(why, -ENOTSUP,
			  "its probe would sit on a nop of five bytes, and this kernel %s",
			  nop5_err() == -EFAULT ? "ends forked children there" :
						  "may end forked children there (it cannot be tried)");
}

struct attachment attachment_to(struct probes *probes, const struct allocsnap_bpf *bpf,
				const struct objects *objects, uint32_t index)
{
	const struct object *object = objects->object[index];
	struct attachment at = {
		.probes = probes, .bpf = bpf, .way = probe_way_of(bpf), .parser = objects->parser,
		.object = object, .object_index = index,
	};

	snprintf(at.path, sizeof(at.path), "/proc/self/fd/%d", object->fd);
	return at;
}

int attach_again(const struct attachment *at, struct probe_link *link)
{
	const struct bpf_program *program;
	int err = late_programs_find(at->probes->late, at->bpf, link->end, &program);

	return err ?: at->way->attach(at, program, link->end, &link->places, link);
}

static int attach_link(const struct attachment *at, enum probe_end end,
		       const struct probe_places *places, const struct probe_sites *sites)
{
	struct probe_link link = {
		.object = at->object_index, .end = end, .first = sites->first, .nr = sites->nr,
		.frees = sites->frees,
	};
	int err = 0;

	for (size_t i = 0; i < places->place_nr && !err; i++)
		err = array_push(&link.places, place, places->place[i]);
	if (!err)
		err = attach_again(at, &link);
	if (!err)
		err = array_push(at->probes, link, link);
	if (err)
		detach_link(at->probes, &link);
	return err;
}

int attach_places(const struct attachment *at, enum probe_end end,
		  const struct probe_places *places, const struct probe_sites *sites)
{
	size_t before = at->probes->link_nr;
	size_t step = at->way->is_alone ? 1 : places->place_nr;
	int err = 0;

	for (size_t i = 0; i < places->place_nr && !err && !at->probes->is_trial; i += step)
		err = attach_link(at, end, &(struct probe_places){ places->place + i, step },
				  sites);
	if (err)
		detach_from(at->probes, before);
	return err;
}

void detach_link(const struct probes *probes, struct probe_link *link)
{
	if (link->event)
		bpf_link__destroy(link->event);
	if (link->kept)
		link_holder__detach(probes->link_holder, link->kept);
	free(link->places.place);
}

void detach_settle(const struct probes *probes)
{
	if (probes->link_holder)
		link_holder__settle(probes->link_holder);
}

void detach_from(struct probes *probes, size_t link)
{
	if (probes->link_nr <= link)
		return;
	while (probes->link_nr > link)
		detach_link(probes, &probes->link[--probes->link_nr]);
	detach_settle(probes);
}
