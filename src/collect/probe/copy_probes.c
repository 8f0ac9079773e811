// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Copies the shared probes for one process. */
#include "collect/probe/probes.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "collect/process/mappings.h"

/* Sites keep their numbers: a call may begin at a shared link and return at the process's own. */
static int copy_sites(struct probes *probes, const struct probes *shared, const struct mappings *mappings)
{
	int err = 0;

	for (size_t i = 0; i < shared->site_nr && !err; i++) {
		struct probe_site site = shared->site[i];

		if (site.object == OBJECT_NONE || !mappings_use(mappings, site.object))
			site = (struct probe_site){ .object = OBJECT_NONE };
		err = array_push(probes, site, site);
	}
	return err;
}

static int copy_places(struct probe_places *places, const struct probe_places *from)
{
	int err = 0;

	for (size_t i = 0; i < from->place_nr && !err; i++) {
		struct probe_place place = from->place[i];

		place.cookie |= COOKIE_OWN_LINK;
		err = array_push(places, place, place);
	}
	return err;
}

static int copy_links(struct probes *probes, const struct probes *shared, const struct mappings *mappings)
{
	int err = 0;

	for (size_t i = 0; i < shared->link_nr && !err; i++) {
		struct probe_link link = shared->link[i];

		if (link.is_over || !mappings_use(mappings, link.object))
			continue;
		link.event = NULL;
		link.kept = 0;
		link.places = (struct probe_places){};
		err = copy_places(&link.places, &shared->link[i].places) ?: array_push(probes, link, link);
		if (err)
			free(link.places.place);
	}
	return err;
}

static int copy_looked(struct probes *probes, const struct probes *shared, const struct mappings *mappings)
{
	int err = 0;

	for (size_t i = 0; i < shared->looked_nr && !err; i++)
		if (mappings_use(mappings, shared->looked[i].object))
			err = array_push(probes, looked, shared->looked[i]);
	for (size_t i = 0; i < shared->ret_nr && !err; i++)
		if (mappings_use(mappings, shared->ret[i].object))
			err = array_push(probes, ret, shared->ret[i]);
	return err;
}

static int copy_failures(struct probes *probes, const struct probes *shared)
{
	int err = 0;

	for (size_t i = 0; i < shared->failed_nr && !err; i++)
		err = array_push(probes, failed, shared->failed[i]);
	for (size_t i = 0; i < shared->dropped_nr && !err; i++)
		err = array_push(probes, dropped, shared->dropped[i]);
	return err;
}

int probes_copy(struct probes *probes, const struct probes *shared, const struct mappings *mappings)
{
	int err = copy_sites(probes, shared, mappings) ?: copy_links(probes, shared, mappings) ?:
		  copy_looked(probes, shared, mappings) ?: copy_failures(probes, shared);

	if (err)
		probes_close(probes);
	return err;
}
