// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/block_sources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "collect/files/written_files.h"
#include "collect/probe/attach_methods.h"
#include "collect/probe/hazards.h"
#include "collect/sources/copied_functions.h"

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
	&sampler_source, &malloc_books_source, &java_source, &python_source, &go_source, &user_allocator_source, &page_source,
	&heap_source, NULL,
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

static void sources_prepare(const struct target *target)
{
	FOR_EACH_SOURCE(source, prepare)
		source->prepare(target);
}

static int sources_attach(struct collector *collector, struct target *target, struct reason *why)
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

static void sources_note_missing(struct collector *collector, const struct target *target, uint32_t object)
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

int sources_add_tracebacks(struct collector *collector)
{
	int err = 0;

	FOR_EACH_SOURCE(source, add_tracebacks)
		err = err ?: source->add_tracebacks(collector);
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

bool sources_are_used(const struct target *target)
{
	FOR_EACH_SOURCE(source, is_used)
		if (source->is_used(target))
			return true;
	return false;
}

const char *sources_why_unused(const struct target *target)
{
	FOR_EACH_SOURCE(source, why_unused)
		if (source->why_unused(target))
			return source->why_unused(target);
	return NULL;
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

/* ---- hazards of return probes ---- */

/*
 * Looks for a hazard in the threads and in the objects that were not looked at yet. 1 with a line, 0, or a
 * negative errno.
 */
static int find_hazard(const struct allocsnap_bpf *bpf, struct sandbox *sandbox, const struct target *target,
		       struct reason *ret)
{
	const struct mappings *mappings = &target->mappings;
	int found;

	if (getenv("ALLOCSNAP_NO_UPROBE_RETURN")) {
		reason_set(ret, 0, "ALLOCSNAP_NO_UPROBE_RETURN is set");
		return 1;
	}
	found = hazard_of_threads(bpf, target->identity.pid, ret);
	for (size_t i = 0; i < mappings->used_nr && !found && !probes_have_sessions(bpf); i++)
		if (!probes_have_looked(target->probes.used, mappings->used[i]))
			found = hazard_of_object(sandbox, mappings_used(mappings, i), ret);
	return found;
}

static void note_switch(struct notes *notes, const struct process_identity *identity, const struct reason *hazard,
			const struct reason *dropped)
{
	notes_add(notes,
		  "process %d (%s) is recorded without return probes, which is slower: %s; the kernel could end it at one%s%s",
		  identity->pid, identity->comm, hazard->text, *dropped->text ? "; " : "", dropped->text);
}

/* Called before objects of a process are probed. Later, sessions decline the calls of a thread that is a hazard. */
static int avoid_hazards(struct collector *collector, struct target *target)
{
	struct reason hazard = {}, dropped = {};
	int found, err;

	if (target->probes.used->by_ret || target->probes.used == &collector->shared.probes ||
	    (probes_have_sessions(collector->bpf) && target->life.started_ns))
		return 0;
	found = find_hazard(collector->bpf, collector->helpers.sandbox, target, &hazard);
	if (found <= 0)
		return found;
	err = probes_switch(target->probes.used, collector->bpf, &collector->objects, &dropped);
	if (err)
		reason_set(&dropped, err, "its calls are recorded no longer: %s", strerror(-err));
	if (err != -ESRCH)
		note_switch(&collector->notes, &target->identity, &hazard, &dropped);
	return err;
}

/* ---- probing what a process has mapped ---- */

static void log_object_notes(struct objects *objects, struct notes *notes)
{
	while (objects->note_nr) {
		char *note = objects->note[--objects->note_nr];

		notes_add(notes, "%s", note);
		free(note);
	}
}

/* Whether no code has been mapped since the mappings were read. */
static bool are_mappings_current(const struct accounts *accounts, const struct target *target)
{
	const struct process *now = &accounts->process[target->slot % PROCESSES_MAX];

	return target->slot != ACCOUNT_NONE && now->image == target->now.account.image &&
	       now->code_cnt == target->now.account.code_cnt;
}

/*
 * Later changes are for the kernel side to find. So an old mapping must not hide them: it is withdrawn if code
 * was mapped meanwhile.
 */
static void report_target_mappings(struct unwind_tables *unwind_tables, const struct accounts *accounts,
				   const struct target *target)
{
	if (!are_mappings_current(accounts, target))
		return;
	unwind_tables_tell(unwind_tables, &target->mappings, target->now.account.image, true);
	if (!are_mappings_current(accounts, target))
		unwind_tables_tell(unwind_tables, &target->mappings, target->now.account.image, false);
}

/* Compares paths: some file systems report another file number for a mapping. */
static void mark_program(const struct objects *objects, const struct process_identity *identity,
			 const struct mappings *mappings)
{
	for (size_t i = 0; i < mappings->used_nr; i++)
		if (is_path_of_mapping(mappings_used(mappings, i)->path, identity->exe))
			objects->object[mappings->used[i]]->is_program = true;
}

int probe_new_objects(struct collector *collector, struct target *target, struct reason *why)
{
	struct mappings *mappings = &target->mappings;
	int err;

	sources_prepare(target);
	err = unwind_tables_add(&collector->unwind_tables, mappings);
	if (!err)
		report_target_mappings(&collector->unwind_tables, &collector->targets.accounts, target);
	if (target->probes.used->is_paused)
		return err; /* the resume will do it */
	err = err ?: avoid_hazards(collector, target);
	log_object_notes(&collector->objects, &collector->notes);
	mark_program(&collector->objects, &target->identity, &target->mappings);
	copied_mark(&collector->objects, &collector->notes, &target->mappings, target->probes.used);
	if (err)
		reason_set(why, err, "cannot probe process %d: %s", target->identity.pid, strerror(-err));
	return err ?: sources_attach(collector, target, why);
}

void probe_new_mappings(struct collector *collector, struct target *target)
{
	size_t looked_nr = target->probes.used->looked_nr;

	if (probe_new_objects(collector, target, NULL))
		return;
	for (size_t i = looked_nr; i < target->probes.used->looked_nr; i++)
		sources_note_missing(collector, target, target->probes.used->looked[i].object);
}
