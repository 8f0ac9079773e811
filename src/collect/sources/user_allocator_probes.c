// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/block_sources.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "elf/allocators.h"

/* The files of a process that may define an allocator of --probe. */
struct place {
	const struct user_allocators *user_allocators;
	const struct objects *objects;
	const struct target *target;
	uint32_t allocator;
	uint32_t object;   /* the first of these files */
	size_t object_nr;
};

static const struct user_allocator *allocator_at(const struct place *place)
{
	return &place->user_allocators->allocator[place->allocator];
}

static bool is_in(const struct place *place, uint32_t object)
{
	return user_allocator_applies(allocator_at(place), place->objects->object[object]);
}

static struct place find_allocator_place(const struct collector *collector, const struct target *target,
					 uint32_t allocator)
{
	const struct mappings *mappings = &target->mappings;
	struct place place = {
		.user_allocators = &collector->sources->user_allocators,
		.objects = &collector->objects,
		.target = target,
		.allocator = allocator,
	};

	for (size_t i = mappings->used_nr; i-- > 0;) {
		if (!is_in(&place, mappings->used[i]))
			continue;
		place.object = mappings->used[i];
		place.object_nr++;
	}
	return place;
}

static bool is_attached(const struct place *place, uint32_t function)
{
	const struct probes *probes = place->target->probes.used;

	for (size_t i = 0; i < probes->site_nr; i++)
		if (probes->site[i].is_user_allocator && probes->site[i].user_function == function &&
		    probes->site[i].is_attached && is_in(place, probes->site[i].object))
			return true;
	return false;
}

/* ---- functions that are not probed ---- */

static const struct object_function *find_user_function(const struct probe_info *probe_info,
							  const struct user_function *function)
{
	for (uint32_t i = 0; i < probe_info->function_nr; i++)
		if (probe_info->function[i].name == allocator_function_nr + function->wanted)
			return &probe_info->function[i];
	return NULL;
}

static bool is_known_function(const struct probe_info *probe_info, const char *symbol)
{
	for (uint32_t i = 0; i < probe_info->function_nr; i++)
		if (probe_info->function[i].name < allocator_function_nr && !probe_info->function[i].renamed &&
		    !strcmp(allocator_functions[probe_info->function[i].name].name, symbol))
			return true;
	return false;
}

static const struct probe_site *site_at(const struct probes *probes, uint32_t object,
					uint64_t offset)
{
	for (size_t i = 0; i < probes->site_nr; i++)
		if (probes->site[i].object == object && probes->site[i].offset == offset)
			return &probes->site[i];
	return NULL;
}

static int report_known_function(const char *symbol, const struct object *object, struct reason *why)
{
	return reason_set(why, -ENOENT, "%s in %s is known, and recorded without --probe", symbol, object->path);
}

static int report_function_not_probed(const struct place *place, const struct object_function *found,
				      const char *symbol, struct reason *why)
{
	const struct object *object = place->objects->object[place->object];
	const struct probe_site *site = site_at(place->target->probes.used, place->object, found->offset);
	char buf[FUNCTION_NAME_MAX];
	const char *name = site ? probe_site_name(site, object, buf) : NULL;

	if (found->is_ambiguous)
		return reason_set(why, -ENOENT, "%s in %s: several static functions have this name",
				  symbol, object->path);
	if (found->is_ifunc)
		return reason_set(why, -ENOENT,
				  "%s in %s is chosen at run time (IFUNC): name the function chosen",
				  symbol, object->path);
	if (site && !strcmp(name, symbol) && !site->is_user_allocator)
		return report_known_function(symbol, object, why);
	if (site && strcmp(name, symbol))
		return reason_set(why, -ENOENT, "%s in %s is %s, too, which is recorded already",
				  symbol, object->path, name);
	return reason_set(why, -ENOENT, "%s in %s cannot be probed", symbol, object->path);
}

static int report_missing_probe(const struct object *object, const struct user_function *function, struct reason *why)
{
	const struct usdt_places *usdt = object->probe_info->usdt;

	if (usdt && !usdt->nr)
		return reason_set(why, -ENOENT, "the USDT probes of %s cannot be used: %s", object->path, usdt->fault);
	if (usdt && array_any(usdt->nr, i, usdt->place[i].wanted == function->wanted))
		return reason_set(why, -ENOENT, "the USDT probe %s in %s cannot be probed", function->symbol, object->path);
	return reason_set(why, -ENOENT, "no USDT probe %s in %s (readelf -n lists those that are there)", function->symbol,
			  object->path);
}

/* Always returns -ENOENT. */
static int report_missing_function(const struct place *place, const struct user_function *function,
				   struct reason *why)
{
	const struct object *object = place->objects->object[place->object];
	const struct object_function *found;

	if (place->object_nr > 1)
		return reason_set(why, -ENOENT,
				  "no %s %s in any of %zu files that are %s%s",
				  shape_is_reported(function->shape) ? "USDT probe" : "symbol", function->symbol,
				  place->object_nr, allocator_at(place)->object,
				  shape_is_reported(function->shape) ? "" : ": static and inlined, or stripped?");
	if (!object->probe_info)
		return reason_set(why, -ENOENT, "cannot look for %s in %s: %s", function->symbol,
				  object->path, object->unreadable ?: "no ELF file");
	if (shape_is_reported(function->shape))
		return report_missing_probe(object, function, why);
	if (is_known_function(object->probe_info, function->symbol))
		return report_known_function(function->symbol, object, why);
	found = find_user_function(object->probe_info, function);
	if (found)
		return report_function_not_probed(place, found, function->symbol, why);
	return reason_set(why, -ENOENT, "no symbol %s in %s: static and inlined, or stripped?",
			  function->symbol, object->path);
}

/* ---- at the start ---- */

static void note_missing(struct notes *notes, const struct place *place, const struct user_function *function)
{
	struct reason missing;

	report_missing_function(place, function, &missing);
	notes_add(notes, "--probe: %s: %s", allocator_at(place)->name, missing.text);
}

/* Whether a function of such a shape could be probed. If not, *ret_missing is the first function that could not. */
static bool has_any(const struct place *place, bool (*does)(enum call_shape shape),
		    const struct user_function **ret_missing)
{
	const struct user_allocators *user_allocators = place->user_allocators;

	*ret_missing = NULL;
	for (size_t i = 0; i < user_allocators->function_nr; i++) {
		const struct user_function *function = &user_allocators->function[i];

		if (function->allocator != place->allocator || !does(function->shape))
			continue;
		if (is_attached(place, i))
			return true;
		*ret_missing = *ret_missing ?: function;
	}
	return false;
}

static int check_pairs(const struct place *place, struct reason *why)
{
	const struct user_function *function;
	const char *so = "";
	struct reason missing;

	if (has_any(place, shape_gives, &function)) {
		if (has_any(place, shape_takes, &function))
			return 0;
		so = " (nothing would be seen to leave)";
	}
	report_missing_function(place, function, &missing);
	return reason_set(why, -ENOENT, "--probe: %s: %s%s", allocator_at(place)->name, missing.text, so);
}

static void note_all_missing(struct notes *notes, const struct place *place)
{
	const struct user_allocators *user_allocators = place->user_allocators;

	for (size_t i = 0; i < user_allocators->function_nr; i++)
		if (user_allocators->function[i].allocator == place->allocator && !is_attached(place, i))
			note_missing(notes, place, &user_allocators->function[i]);
}

static void note_waiting(struct notes *notes, const struct place *place)
{
	notes_add(notes, "--probe: %s: process %d (%s) maps no %s yet: it is waited for",
		  allocator_at(place)->name, place->target->identity.pid, place->target->identity.comm,
		  allocator_at(place)->object);
}

static bool is_any_program(const struct place *place)
{
	return !strcmp(allocator_at(place)->object, "exe");
}

/* A process that starts others (a shell) need not have the functions that its children have. */
static int check_allocator_place(struct collector *collector, const struct place *place, struct reason *why)
{
	struct reason missing = {};
	int err = check_pairs(place, &missing);

	if (err && collector->options.follow_forks && is_any_program(place))
		notes_add(&collector->notes, "%s", missing.text);
	else if (err)
		return reason_set(why, err, "%s", missing.text);
	else
		note_all_missing(&collector->notes, place);
	return 0;
}

/*
 * Called when a process has been probed for the first time. Returns -ENOENT with a line in *why if the process's
 * files have none of an allocator's functions that give out blocks, or none that take them back. Other missing
 * functions, and allocators that are not mapped yet, become notes.
 */
static int check_user_allocators(struct collector *collector, const struct target *target, struct reason *why)
{
	size_t nr = collector->options.system_wide ? 0 : collector->sources->user_allocators.allocator_nr;
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		struct place place = find_allocator_place(collector, target, i);

		if (place.object_nr)
			err = check_allocator_place(collector, &place, why);
		else
			note_waiting(&collector->notes, &place);
	}
	return err;
}

/* ---- later ---- */

static void note_missing_functions(struct collector *collector, const struct target *target, uint32_t object)
{
	for (size_t i = 0; i < collector->sources->user_allocators.allocator_nr; i++) {
		struct place place = find_allocator_place(collector, target, i);

		/* With "exe" it is not known whether a child should have the functions. */
		if (place.object_nr && is_in(&place, object) && !is_any_program(&place))
			note_all_missing(&collector->notes, &place);
	}
}

/* ---- the source ---- */

static int read_user_allocators(struct collector *collector, struct reason *why)
{
	const struct collector_options *options = &collector->options;
	struct user_allocators *user_allocators = &collector->sources->user_allocators;
	struct reason what = { "out of memory" };
	int err = 0;

	collector->objects.user_allocators = user_allocators;
	for (size_t i = 0; i < options->probe_nr && !err; i++)
		err = user_allocators_add(user_allocators, options->probe[i], &what);
	return err ? reason_set(why, err, "--probe: %s", what.text) : 0;
}

static int configure_user_calls(struct collector *collector, struct allocsnap_bpf *bpf)
{
	const struct user_allocators *user_allocators = &collector->sources->user_allocators;

	for (size_t i = 0; i < user_allocators->function_nr; i++)
		bpf->bss->user_calls[i] = user_call_of(&user_allocators->function[i].call);
	return 0;
}

static void release_user_allocators(struct collector *collector)
{
	user_allocators_release(&collector->sources->user_allocators);
}

const struct block_source user_allocator_source = {
	.choose = read_user_allocators,
	.configure = configure_user_calls,
	.close = release_user_allocators,
	.check = check_user_allocators,
	.note_missing = note_missing_functions,
};
