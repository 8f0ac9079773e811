// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/block_sources.h"

#include "collect/files/written_files.h"
#include "collect/sources/python_source.h"
#include "collect/sources/sampler_source.h"
#include "collect/sources/user_allocator_probes.h"

/* Probes the functions of the heap and mappings, unless another source hides the heap. */
static int attach_heap(struct collector *collector, struct target *target, struct reason *why)
{
	const struct mappings *mappings = &target->mappings;
	int err = 0;

	for (size_t i = 0; i < mappings->used_nr && !err; i++)
		err = probe_object(collector, target->probes.used, mappings->used[i], !target->probes.hide_heap, why);
	return err;
}

static const struct block_source heap_source = { .attach = attach_heap };

const struct block_source *const block_sources[] = {
	&sampler_source, &python_source, &user_allocator_source, &heap_source, NULL,
};

#define FOR_EACH_SOURCE(source, does) \
	for (const struct block_source *const *at_ = block_sources, *source; (source = *at_); at_++) \
		if (source->does)

int sources_choose(struct collector *collector, struct reason *why)
{
	int err = 0;

	FOR_EACH_SOURCE(source, choose)
		err = err ?: source->choose(collector, why);
	return err;
}

int sources_configure(struct collector *collector, struct allocsnap_bpf *bpf)
{
	int err = 0;

	FOR_EACH_SOURCE(source, configure)
		err = err ?: source->configure(collector, bpf);
	return err;
}

int sources_open(struct collector *collector, struct reason *why)
{
	int err = 0;

	FOR_EACH_SOURCE(source, open)
		err = err ?: source->open(collector, why);
	return err;
}

int sources_preload(struct collector *collector)
{
	int err = 0;

	FOR_EACH_SOURCE(source, preload)
		err = err ?: source->preload(collector);
	return err;
}

bool sources_load_later(const struct collector *collector)
{
	FOR_EACH_SOURCE(source, loads_later)
		if (source->loads_later(collector))
			return true;
	return false;
}

void sources_close(struct collector *collector)
{
	FOR_EACH_SOURCE(source, close)
		source->close(collector);
}

/* ---- a process ---- */

static void set_hide_heap(struct target *target)
{
	target->probes.hide_heap = false;
	FOR_EACH_SOURCE(source, hides_heap)
		target->probes.hide_heap |= source->hides_heap(target);
}

void sources_prepare(const struct target *target)
{
	FOR_EACH_SOURCE(source, prepare)
		source->prepare(target);
}

int sources_attach(struct collector *collector, struct target *target, struct reason *why)
{
	int err = 0;

	FOR_EACH_SOURCE(source, attach) {
		err = err ?: source->attach(collector, target, why);
		set_hide_heap(target);
	}
	return err;
}

int sources_check(struct collector *collector, const struct target *target, struct reason *why)
{
	int err = 0;

	FOR_EACH_SOURCE(source, check)
		err = err ?: source->check(collector, target, why);
	return err;
}

void sources_note_missing(struct collector *collector, const struct target *target, uint32_t object)
{
	FOR_EACH_SOURCE(source, note_missing)
		source->note_missing(collector, target, object);
}

void sources_leave(struct collector *collector, struct target *target)
{
	FOR_EACH_SOURCE(source, leave)
		source->leave(collector, target);
}

void sources_forget_program(struct target *target)
{
	FOR_EACH_SOURCE(source, forget_program)
		source->forget_program(target);
	set_hide_heap(target);
}

void sources_end(struct collector *collector, struct target *target)
{
	FOR_EACH_SOURCE(source, end)
		source->end(collector, target);
}

/* ---- cost ---- */

uint64_t sources_keep_cost(struct collector *collector)
{
	uint64_t least_ns = UINT64_MAX;

	FOR_EACH_SOURCE(source, keep_cost) {
		uint64_t wait_ns = source->keep_cost(collector);

		least_ns = wait_ns < least_ns ? wait_ns : least_ns;
	}
	return least_ns;
}

bool sources_can_save(const struct target *target)
{
	FOR_EACH_SOURCE(source, can_save)
		if (source->can_save(target))
			return true;
	return false;
}

bool sources_have_own_rate(const struct target *target)
{
	FOR_EACH_SOURCE(source, has_own_rate)
		if (source->has_own_rate(target))
			return true;
	return false;
}

/* ---- a pass ---- */

void sources_before_cut(struct collector *collector)
{
	FOR_EACH_SOURCE(source, before_cut)
		source->before_cut(collector);
}

int sources_after_read(struct collector *collector)
{
	int err = 0;

	FOR_EACH_SOURCE(source, after_read)
		err = err ?: source->after_read(collector);
	return err;
}

void sources_look(struct target *target)
{
	FOR_EACH_SOURCE(source, look)
		source->look(target);
}

/* ---- views ---- */

bool sources_are_estimated(const struct target *target, const struct settings *settings)
{
	FOR_EACH_SOURCE(source, is_estimated)
		if (source->is_estimated(target, settings))
			return true;
	return false;
}

bool sources_show_nothing(const struct collector_options *options, const struct target *target)
{
	FOR_EACH_SOURCE(source, has_view)
		if (options->domains == source->domain_bit && !source->has_view(target))
			return true;
	return false;
}

const char *sources_option_given(const struct collector_options *options, const char **ret_domain)
{
	FOR_EACH_SOURCE(source, option_given) {
		*ret_domain = source->domain;
		if (source->option_given(options))
			return source->option_given(options);
	}
	return NULL;
}
