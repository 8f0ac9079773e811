// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Probes what a process has mapped: asks the sources in their order, after what is true for all of them was done. */
#include "collect/sources/block_sources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "collect/probe/attach_methods.h"
#include "collect/probe/uretprobe_safety.h"
#include "collect/sources/copied_functions.h"
#include "collect/sources/sources_private.h"

/* ---- hazards of return probes ---- */

/*
 * Looks for a hazard in the threads and in the objects that were not looked at yet. 1 with a line, 0, or a
 * negative errno.
 */
static int find_hazard(const struct allocsnap_bpf *bpf, struct parser *parser, const struct target *target,
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
			found = hazard_of_object(parser, mappings_used(mappings, i), ret);
	return found;
}

static void note_switch(struct notes *notes, const struct process_identity *identity, const struct reason *hazard,
			const struct reason *dropped)
{
	struct reason note;

	reason_set(&note, 0,
		"process %d (%s) is recorded without return probes, which is slower: %s; the kernel could end it at one%s%s",
		identity->pid, identity->comm, hazard->text, *dropped->text ? "; " : "", dropped->text);
	notes_add(notes, note.text);
}

/* Called before objects of a process are probed. Later, sessions decline the calls of a thread that is a hazard. */
static int avoid_hazards(struct collector *collector, struct target *target)
{
	struct reason hazard = {}, dropped = {};
	int found, err;

	if (target->probes.used->by_ret || target->probes.used == &collector->shared.probes ||
	    (probes_have_sessions(collector->bpf) && target->life.started_ns))
		return 0;
	found = find_hazard(collector->bpf, collector->helpers.parser, target, &hazard);
	if (found <= 0)
		return found;
	err = probes_switch(target->probes.used, collector->bpf, &collector->objects, &dropped);
	if (err)
		reason_set(&dropped, err, "its calls are recorded no longer: %s", strerror(-err));
	if (err != -ESRCH)
		note_switch(&collector->notes, &target->identity, &hazard, &dropped);
	return err;
}

static void log_object_notes(struct objects *objects, struct notes *notes)
{
	while (objects->note_nr) {
		char *note = objects->note[--objects->note_nr];

		notes_add(notes, note);
		free(note);
	}
}

/* Whether no code has been mapped since the mappings were read. */
static bool are_mappings_current(const struct books *books, const struct target *target)
{
	const struct process *now = &books->process[target->slot % PROCESSES_MAX];

	return target->slot != BOOKS_NONE && now->image == target->now.books.image &&
	       now->code_cnt == target->now.books.code_cnt;
}

/*
 * Later changes are for the kernel side to find. So an old mapping must not hide them: it is withdrawn if code
 * was mapped meanwhile.
 */
static void report_target_mappings(struct unwind_tables *unwind_tables, const struct books *books,
				   const struct target *target)
{
	if (!are_mappings_current(books, target))
		return;
	unwind_tables_tell(unwind_tables, &target->mappings, target->now.books.image, true);
	if (!are_mappings_current(books, target))
		unwind_tables_tell(unwind_tables, &target->mappings, target->now.books.image, false);
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
		report_target_mappings(&collector->unwind_tables, &collector->targets.books, target);
	if (target->probes.used->is_paused)
		return err; /* the resume will do it */
	if (!err)
		err = avoid_hazards(collector, target);
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
