// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Drops the probes of a file that is no longer used, or has changed. */
#include <stdlib.h>
#include <string.h>

#include "collect/probe/attach_methods.h"
#include "collect/probe/detach.h"
#include "collect/probe/link_holder.h"
#include "collect/process/objects.h"

void detach_begin_link(const struct probes *probes, struct probe_link *link, struct detacher *detacher)
{
	if (link->event)
		detach_begin(detacher, &(struct held_probes){ .event = link->event }, 1);
	if (link->kept)
		link_holder__detach(probes->link_holder, link->kept);
	link->event = NULL;
	link->kept = 0;
}

/* Links of frees are ended last. */
static void drop_links(struct probes *probes, uint32_t object, struct detacher *detacher)
{
	size_t kept = 0;

	for (size_t i = probes->link_nr; i-- > 0;)
		if (probes->link[i].object == object)
			detach_begin_link(probes, &probes->link[i], detacher);
	for (size_t i = 0; i < probes->link_nr; i++)
		if (probes->link[i].object == object)
			free(probes->link[i].places.place);
		else
			probes->link[kept++] = probes->link[i];
	probes->link_nr = kept;
}

/*
 * The cookies of other sites contain their indexes, so these entries become holes for later sites
 * (probe_sites_settle()).
 */
static void drop_sites(struct probes *probes, uint32_t object)
{
	for (size_t i = 0; i < probes->site_nr; i++)
		if (probes->site[i].object == object)
			probes->site[i] = (struct probe_site){ .object = OBJECT_NONE };
	while (probes->site_nr && probes->site[probes->site_nr - 1].object == OBJECT_NONE)
		probes->site_nr--;
}

static size_t remove_from(uint32_t *list, size_t nr, uint32_t object)
{
	size_t kept = 0;

	for (size_t i = 0; i < nr; i++)
		if (list[i] != object)
			list[kept++] = list[i];
	return kept;
}

static void drop_rets(struct probes *probes, uint32_t object)
{
	size_t kept = 0;

	for (size_t i = 0; i < probes->ret_nr; i++)
		if (probes->ret[i].object != object)
			probes->ret[kept++] = probes->ret[i];
	probes->ret_nr = kept;
}

static void drop_looked(struct probes *probes, uint32_t object)
{
	size_t kept = 0;

	for (size_t i = 0; i < probes->looked_nr; i++)
		if (probes->looked[i].object != object)
			probes->looked[kept++] = probes->looked[i];
	probes->looked_nr = kept;
}

bool probes_drop(struct probes *probes, uint32_t object, struct detacher *detacher)
{
	if (!probes_have_looked(probes, object))
		return false;
	drop_links(probes, object, detacher);
	drop_sites(probes, object);
	drop_rets(probes, object);
	drop_looked(probes, object);
	probes->failed_nr = remove_from(probes->failed, probes->failed_nr, object);
	probes->dropped_nr = remove_from(probes->dropped, probes->dropped_nr, object);
	return true;
}

static bool is_hole(const struct probes *probes, size_t at, size_t nr)
{
	for (size_t i = at; i < at + nr; i++)
		if (probes->site[i].object != OBJECT_NONE)
			return false;
	return true;
}

size_t probe_sites_settle(struct probes *probes, size_t first)
{
	size_t nr = probes->site_nr - first, at = 0;

	while (at + nr <= first && !is_hole(probes, at, nr))
		at++;
	if (!nr || at + nr > first)
		return first;
	memcpy(probes->site + at, probes->site + first, nr * sizeof(*probes->site));
	probes->site_nr = first;
	return at;
}
