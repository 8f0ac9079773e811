// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/probes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "collect.h"
#include "collect/probe/attach_methods.h"
#include "collect/probe/detach.h"
#include "collect/probe/link_holder.h"
#include "process/mappings.h"
#include "process/objects.h"
#include "elf/allocators.h"
#include "elf/probe_info.h"
#include "elf/user_allocators.h"

static bool is_probed(const struct probes *probes, uint32_t object, uint64_t offset)
{
	return array_any(probes->site_nr, i,
			 probes->site[i].object == object && probes->site[i].offset == offset);
}

/* Several C libraries share domain 0, so their files tell them apart. */
static bool is_wanted_site(uint32_t domains, const struct probe_site *site, const struct object *object)
{
	static const uint32_t of_domain[] = {
		[DOMAIN_MAPPING] = COLLECTOR_MMAP,
		[DOMAIN_JEMALLOC] = COLLECTOR_MALLOC | COLLECTOR_JEMALLOC,
		[DOMAIN_TCMALLOC] = COLLECTOR_MALLOC | COLLECTOR_TCMALLOC,
		[DOMAIN_MIMALLOC] = COLLECTOR_MALLOC | COLLECTOR_MIMALLOC,
		[DOMAIN_PYTHON] = COLLECTOR_PYTHON,
		[DOMAIN_GO] = 0, /* no function has such blocks */
		[DOMAIN_JAVA] = COLLECTOR_JAVA,
	};
	const char *name = allocator_of(object->path)->name;

	if (site->domain >= ARRAY_SIZE(of_domain))
		return true; /* of a --probe option */
	if (site->domain)
		return domains & of_domain[site->domain];
	return domains & (COLLECTOR_MALLOC | (!strcmp(name, "glibc") ? COLLECTOR_GLIBC : 0) |
			  (!strcmp(name, "musl") ? COLLECTOR_MUSL : 0));
}

/* Which functions of an object are meant: a set. */
enum sites_of {
	SITES_OF_HEAP = 1,
	SITES_OF_OTHERS = 2,
};

static bool is_meant(const struct probe_site *site, unsigned int meant)
{
	return meant & (site->layer == LAYER_HEAP ? SITES_OF_HEAP : SITES_OF_OTHERS);
}

static int append_site(struct probes *probes, struct probe_site site, uint32_t object,
		       const struct object_function *function)
{
	site.object = object;
	site.offset = function->offset;
	site.vaddr = function->vaddr;
	site.placement = function->placement;
	if (is_probed(probes, object, function->offset))
		return 0;
	if (function->is_ifunc || function->is_ambiguous)
		return array_push(probes, failed, object);
	return array_push(probes, site, site);
}

static int add_known(struct probes *probes, const struct objects *objects, uint32_t index,
		     uint32_t i, unsigned int meant)
{
	const struct object *object = objects->object[index];
	const struct object_function *function = &object->probe_info->function[i];
	const struct allocator_function *known = &allocator_functions[function->name];
	const struct probe_site site = {
		.function = known->name,
		.renamed = function->renamed,
		.renamed_bytes = function->renamed ? strlen(known->prefix) : 0,
		.shape = known->shape,
		.layer = shape_is_mapping(known->shape) ? LAYER_MAPPING : LAYER_HEAP,
		.domain = shape_is_mapping(known->shape) ? DOMAIN_MAPPING :
							   heap_domain(object->probe_info, i, object->path),
		.of_heap = known->of_heap,
		.is_seldom = heap_is_seldom_called(object->probe_info, i),
		.throws = known->throws,
		.restarts = known->restarts,
	};

	if (!is_meant(&site, meant) || !is_wanted_site(objects->domains, &site, object))
		return 0;
	return append_site(probes, site, index, function);
}

const char *probe_site_name(const struct probe_site *site, const struct object *object, char *buf)
{
	if (!site->renamed || !object->probe_info)
		return site->function;
	snprintf(buf, FUNCTION_NAME_MAX, "%s%s", object->probe_info->heap_prefix[site->renamed - 1],
		 site->function + site->renamed_bytes);
	return buf;
}

bool user_allocator_applies(const struct user_allocator *allocator, const struct object *object)
{
	return user_allocator_is_in(allocator, object->path, object->is_program);
}

/* If several allocators share a function, it counts for the first one. Returns whether one has the wanted function. */
static bool describe_user_site(const struct objects *objects, uint32_t index, uint32_t wanted, struct probe_site *ret)
{
	const struct user_allocators *user_allocators = objects->user_allocators;

	for (size_t i = 0; i < user_allocators->function_nr; i++) {
		const struct user_function *named = &user_allocators->function[i];
		const struct user_allocator *allocator = &user_allocators->allocator[named->allocator];

		if (named->wanted != wanted || !user_allocator_applies(allocator, objects->object[index]))
			continue;
		*ret = (struct probe_site){
			.function = named->symbol,
			.shape = named->shape,
			.layer = allocator->wraps ? LAYER_HEAP : LAYER_POOL,
			.domain = DOMAIN_USER + named->allocator,
			.user_call = i,
			.user_function = i,
			.throws = user_function_throws(user_allocators, i),
			.is_user_allocator = true,
		};
		return true;
	}
	return false;
}

/* A symbol that has the name of a USDT probe is not meant. */
static int add_user_function(struct probes *probes, const struct objects *objects, uint32_t index,
			     const struct object_function *function, unsigned int meant)
{
	uint32_t wanted = function->name - allocator_function_nr;
	struct probe_site site;

	if (objects->user_allocators->wanted.function[wanted].is_usdt ||
	    !describe_user_site(objects, index, wanted, &site) || !is_meant(&site, meant))
		return 0;
	return append_site(probes, site, index, function);
}

static int add_user_probe(struct probes *probes, const struct objects *objects, uint32_t index,
			  const struct usdt_place *place, unsigned int meant)
{
	struct probe_site site;

	if (!describe_user_site(objects, index, place->wanted, &site) || !is_meant(&site, meant))
		return 0;
	site.usdt = place->call;
	site.semaphore = place->semaphore;
	return append_site(probes, site, index, &(struct object_function){
		.offset = place->offset,
		.placement = { .why = PLACEMENT_EMULATED, .instruction = "nop" },
	});
}

bool probes_have_sessions(const struct allocsnap_bpf *bpf)
{
	return probe_way_of(bpf)->has_sessions;
}

const char *probes_kind(const struct probes *probes, const struct allocsnap_bpf *bpf)
{
	return probes->by_ret ? "uprobe_ret" : probe_way_of(bpf)->kind;
}

static struct looked *find_looked(const struct probes *probes, uint32_t object)
{
	return array_find(probes, looked, i, probes->looked[i].object == object);
}

/* The time since when its functions are probed, as far as they can be; UINT64_MAX: it was not examined. */
static uint64_t probes_since_ns(const struct probes *probes, uint32_t object, bool with_heap)
{
	const struct looked *looked = find_looked(probes, object);

	if (!looked)
		return UINT64_MAX;
	return with_heap ? looked->heap_time_ns : looked->time_ns;
}

bool probes_have_looked(const struct probes *probes, uint32_t object)
{
	return find_looked(probes, object);
}

int probes_note_looked(struct probes *probes, uint32_t object)
{
	const struct looked looked = { .object = object, .time_ns = monotonic_now_ns(), .heap_time_ns = UINT64_MAX };

	return find_looked(probes, object) ? 0 : array_push(probes, looked, looked);
}

bool probes_have_site(const struct probes *probes, uint32_t object)
{
	return array_any(probes->site_nr, i, probes->site[i].object == object && probes->site[i].is_attached);
}

static int add_user_allocators(struct probes *probes, const struct objects *objects, uint32_t index, unsigned int meant)
{
	const struct probe_info *probe_info = objects->object[index]->probe_info;
	int err = 0;

	for (uint32_t i = 0; i < probe_info->function_nr && !err; i++)
		if (probe_info->function[i].name >= allocator_function_nr)
			err = add_user_function(probes, objects, index, &probe_info->function[i], meant);
	for (uint64_t i = 0; probe_info->usdt && i < probe_info->usdt->nr && !err; i++)
		err = add_user_probe(probes, objects, index, &probe_info->usdt->place[i], meant);
	return err;
}

/* Appends the sites of an object; inconsistent symbols count as one failure. */
static int append_object_sites(struct probes *probes, const struct objects *objects, uint32_t index,
			       unsigned int meant)
{
	const struct probe_info *probe_info = objects->object[index]->probe_info;
	int err = 0;

	if (probe_info->functions_err)
		return meant & SITES_OF_OTHERS ? array_push(probes, failed, index) : 0;
	for (uint32_t i = 0; i < probe_info->function_nr && !err; i++)
		if (probe_info->function[i].name < allocator_function_nr)
			err = add_known(probes, objects, index, i, meant);
	return err ?: add_user_allocators(probes, objects, index, meant);
}

static unsigned int sites_meant(bool with_heap)
{
	return with_heap ? SITES_OF_HEAP | SITES_OF_OTHERS : SITES_OF_OTHERS;
}

size_t probes_count_functions(const struct objects *objects, uint32_t object, bool with_heap)
{
	struct probes found = {};
	size_t nr = objects->object[object]->probe_info &&
				    !append_object_sites(&found, objects, object, sites_meant(with_heap)) ?
			    found.site_nr : 0;

	probes_close(&found);
	return nr;
}

/* The object's file system might not answer the kernel either (open_file.h). */
static int leave_unprobed(struct probes *probes, const struct object *object, uint32_t index,
			  size_t first, struct reason *why)
{
	int err = 0;

	for (size_t i = first; i < probes->site_nr && !err; i++)
		err = array_push(probes, failed, index);
	if (probes->site_nr > first)
		reason_set(why, 0, "%s is on a file system that may stop answering: it is not probed",
			   object->path);
	probes->site_nr = first;
	return err;
}

static int attach_new(struct probes *probes, const struct allocsnap_bpf *bpf,
		      const struct objects *objects, uint32_t index, size_t first,
		      struct reason *why)
{
	size_t nr = probes->site_nr - first;
	int err;

	if (objects->object[index]->is_copy)
		return leave_unprobed(probes, objects->object[index], index, first, why);
	first = probe_sites_settle(probes, first);
	err = attach_sites(probes, bpf, objects, first, nr, why);
	for (size_t i = first; i < first + nr && !err; i++)
		if (!probes->site[i].is_attached && !probes->site[i].is_another)
			err = array_push(probes, failed, index);
	return err;
}

/* CPython's raw domain is these three functions. */
static bool serves_python(const struct allocator_function *known)
{
	return !strcmp(known->name, "malloc") || !strcmp(known->name, "calloc") || !strcmp(known->name, "realloc");
}

static bool has_sites_for_python(const struct probes *probes, uint32_t object)
{
	return array_any(probes->site_nr, i, probes->site[i].object == object && probes->site[i].is_for_python);
}

int probes_attach_for_python(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
			     uint32_t index, struct reason *why)
{
	const struct probe_info *probe_info = objects->object[index]->probe_info;
	size_t first = probes->site_nr;
	int err = 0;

	if (probes->is_paused || !probe_info || probe_info->functions_err || has_sites_for_python(probes, index))
		return 0;
	for (uint32_t i = 0; i < probe_info->function_nr && !err; i++) {
		const struct object_function *function = &probe_info->function[i];
		const struct allocator_function *known = &allocator_functions[function->name];
		struct probe_site site = { .layer = LAYER_POOL, .domain = DOMAIN_PYTHON, .is_for_python = true };

		if (function->name >= allocator_function_nr || !serves_python(known))
			continue;
		site.function = known->name;
		site.shape = known->shape;
		err = append_site(probes, site, index, function);
	}
	return err || probes->site_nr == first ? err : attach_new(probes, bpf, objects, index, first, why);
}

/*
 * Examines an object again that turned out to be a program: the exec may be reported after the mapping of the
 * program, or a process runs a library as its program.
 */
static int look_as_program(struct probes *probes, const struct allocsnap_bpf *bpf,
			   const struct objects *objects, uint32_t index, struct reason *why)
{
	struct looked *looked = find_looked(probes, index);
	size_t first = probes->site_nr;
	bool has_heap = looked->heap_time_ns != UINT64_MAX;
	int err = objects->object[index]->probe_info ?
			  add_user_allocators(probes, objects, index, sites_meant(has_heap)) : 0;

	if (!err && probes->site_nr > first) {
		err = attach_new(probes, bpf, objects, index, first, why);
		looked->time_ns = monotonic_now_ns();
		if (has_heap)
			looked->heap_time_ns = looked->time_ns;
	}
	looked->as_program = !err;
	return err;
}

/* Probes what was left out for processes that have a sampler. */
static int add_heap(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
		    uint32_t index, struct reason *why)
{
	size_t first = probes->site_nr;
	int err = objects->object[index]->probe_info ? append_object_sites(probes, objects, index, SITES_OF_HEAP) : 0;

	err = err ?: attach_new(probes, bpf, objects, index, first, why);
	if (!err)
		find_looked(probes, index)->heap_time_ns = monotonic_now_ns();
	return err;
}

static int examine_object(struct probes *probes, const struct allocsnap_bpf *bpf,
			  const struct objects *objects, uint32_t index, bool with_heap, struct reason *why)
{
	const struct object *object = objects->object[index];
	struct looked looked = {
		.object = index, .time_ns = monotonic_now_ns(), .as_program = object->is_program,
		.heap_time_ns = with_heap ? monotonic_now_ns() : UINT64_MAX,
	};
	size_t first = probes->site_nr;
	int err = array_push(probes, looked, looked);

	if (err || !object->probe_info)
		return err;
	err = append_object_sites(probes, objects, index, sites_meant(with_heap));
	err = err ?: attach_new(probes, bpf, objects, index, first, why);
	probes->looked[probes->looked_nr - 1].time_ns = monotonic_now_ns();
	if (with_heap)
		probes->looked[probes->looked_nr - 1].heap_time_ns = monotonic_now_ns();
	probes->looked_nr -= err && err != -ETXTBSY; /* examined again next time */
	return err;
}

int probes_attach(struct probes *probes, const struct allocsnap_bpf *bpf,
		  const struct objects *objects, uint32_t index, bool with_heap, struct reason *why)
{
	const struct looked *looked = find_looked(probes, index);
	int err = 0;

	if (probes->is_paused)
		return 0;
	if (!looked)
		return examine_object(probes, bpf, objects, index, with_heap, why);
	if (with_heap && looked->heap_time_ns == UINT64_MAX)
		err = add_heap(probes, bpf, objects, index, why);
	if (!err && objects->user_allocators && objects->object[index]->is_program && !looked->as_program)
		return look_as_program(probes, bpf, objects, index, why);
	return err;
}

bool probes_see_heap(const struct probes *probes)
{
	for (size_t i = 0; i < probes->site_nr; i++)
		if (probes->site[i].is_attached && probes->site[i].layer == LAYER_HEAP &&
		    !shape_is_free(probes->site[i].shape) && !shape_is_reported(probes->site[i].shape))
			return true;
	return false;
}

bool probes_see_allocations(const struct probes *probes)
{
	return array_any(probes->site_nr, i,
			 probes->site[i].is_attached && !shape_is_free(probes->site[i].shape));
}

bool object_has_heap(const struct object *object)
{
	const struct probe_info *probe_info = object->probe_info;

	for (size_t i = 0; probe_info && i < probe_info->function_nr; i++)
		if (probe_info->function[i].name < allocator_function_nr &&
		    !shape_is_mapping(allocator_functions[probe_info->function[i].name].shape))
			return true;
	return false;
}

uint64_t probes_lost_in(const uint32_t *object, size_t nr, const struct mappings *mappings)
{
	return array_count(nr, i, mappings_use(mappings, object[i]));
}

void probes_close(struct probes *probes)
{
	detach_from(probes, 0);
	free(probes->ret);
	free(probes->link);
	free(probes->site);
	free(probes->looked);
	free(probes->failed);
	free(probes->dropped);
	*probes = (struct probes){
		.pid = probes->pid, .link_holder = probes->link_holder, .late = probes->late,
		.by_ret = probes->by_ret, .slot = probes->slot, .is_paused = probes->is_paused, .is_trial = probes->is_trial,
		.is_beside = probes->is_beside,
	};
}

/* ---- dropping the probes of a file that is no longer used, or has changed ---- */

/* Starts to end what holds a link, without waiting; the link itself stays known. */
static void detach_begin_link(const struct probes *probes, struct probe_link *link, struct detacher *detacher)
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
	for (size_t i = probes->link_nr; i-- > 0;)
		if (probes->link[i].object == object) {
			detach_begin_link(probes, &probes->link[i], detacher);
			free(probes->link[i].places.place);
		}
	array_keep(probes, link, i, probes->link[i].object != object);
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

bool probes_drop(struct probes *probes, uint32_t object, struct detacher *detacher)
{
	if (!probes_have_looked(probes, object))
		return false;
	drop_links(probes, object, detacher);
	drop_sites(probes, object);
	array_keep(probes, ret, i, probes->ret[i].object != object);
	array_keep(probes, looked, i, probes->looked[i].object != object);
	array_keep(probes, failed, i, probes->failed[i] != object);
	array_keep(probes, dropped, i, probes->dropped[i] != object);
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

/* ---- copying the shared probes for one process ---- */

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

/* ---- removing probes for a while, and attaching them again ---- */

void probes_detach(struct probes *probes, struct detacher *detacher)
{
	for (size_t i = probes->link_nr; i-- > 0;)
		if (!probes->link[i].frees)
			detach_begin_link(probes, &probes->link[i], detacher);
	for (size_t i = probes->link_nr; i-- > 0;)
		detach_begin_link(probes, &probes->link[i], detacher);
}

void probes_pause(struct probes *probes, struct detacher *detacher)
{
	probes->is_paused = true;
	probes_detach(probes, detacher);
}

void probes_end(struct probes *probes, struct detacher *detacher)
{
	probes_detach(probes, detacher);
	while (probes->link_nr)
		free(probes->link[--probes->link_nr].places.place);
	probes_close(probes);
}

/* If its file is being written to, only this link stays detached: other files and processes are still recorded. */
static int place_link(const struct attachment *at, struct probe_link *link)
{
	int err = attach_again(at, link);

	link->is_put_off = err == -ETXTBSY || err == -ESTALE;
	return link->is_put_off ? 0 : err;
}

static int place_again(struct probes *probes, const struct allocsnap_bpf *bpf,
		       const struct objects *objects, bool frees)
{
	int err = 0;

	for (size_t i = 0; i < probes->link_nr && !err; i++) {
		struct probe_link *link = &probes->link[i];
		struct attachment at = attachment_to(probes, bpf, objects, link->object);

		if (link->frees == frees && !link->event && !link->kept)
			err = place_link(&at, link);
	}
	return err;
}

int probes_resume(struct probes *probes, const struct allocsnap_bpf *bpf,
		  const struct objects *objects, struct detacher *detacher)
{
	int err = place_again(probes, bpf, objects, true) ?:
		  place_again(probes, bpf, objects, false);

	if (err)
		probes_pause(probes, detacher);
	else
		probes->is_paused = false;
	return err;
}

/* ---- late functions ---- */

int late_functions_see(struct late_functions *late, uint32_t object, uint64_t since_ns)
{
	struct seen_object seen = { .object = object, .since_ns = since_ns };

	if (object >= OBJECT_GONE)
		return 0;
	for (size_t i = 0; i < late->seen_nr; i++)
		if (late->seen[i].object == object)
			return 0;
	return array_push(late, seen, seen);
}

int late_functions_see_all(struct late_functions *late, const struct mappings *mappings, uint64_t since_ns)
{
	int err = 0;

	for (size_t i = 0; i < mappings->mapping_nr && !err; i++)
		err = late_functions_see(late, mappings->mapping[i].object, since_ns);
	return err;
}

void late_functions_count(struct late_functions *late, const struct objects *objects, const struct probes *probes,
			  bool with_heap, bool has_ended)
{
	for (; late->judged_nr < late->seen_nr; late->judged_nr++) {
		const struct seen_object *seen = &late->seen[late->judged_nr];

		if (!has_ended && !probes_have_looked(probes, seen->object))
			return; /* the next look will handle it */
		if (probes_since_ns(probes, seen->object, with_heap) > seen->since_ns)
			late->nr += probes_count_functions(objects, seen->object, with_heap);
	}
}

void late_functions_forget(struct late_functions *late, const bool *goes)
{
	size_t kept = 0, judged_nr = 0;

	for (size_t i = 0; i < late->seen_nr; i++) {
		if (goes[late->seen[i].object])
			continue;
		judged_nr += i < late->judged_nr;
		late->seen[kept++] = late->seen[i];
	}
	late->seen_nr = kept;
	late->judged_nr = judged_nr;
}

void late_functions_begin_image(struct late_functions *late)
{
	late->seen_nr = late->judged_nr = late->nr = 0;
}

void late_functions_release(struct late_functions *late)
{
	free(late->seen);
}
