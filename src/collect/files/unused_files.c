// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/files/unused_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/files/written_files.h"
#include "collect/probe/attach_methods.h"
#include "process/proc.h"
#include "collect/recording/collector.h"
#include "symbols/symbols.h"

/* ---- a file ---- */

static void note_probed_file(struct notes *notes, const char *path, const char *what, const char *why)
{
	notes_add(notes, "%s %s: %s", path, what, why);
}

/* Probes a file and keeps its probes. A file without an allocator is not kept. */
static int retain_object_probes(struct collector *collector, uint32_t index)
{
	struct object *object = collector->objects.object[index];
	struct reason why = {};
	bool was_kept = object->is_kept;
	int err = probe_object(collector, &collector->shared.probes, index, true, &why);

	if (err && err != -ENOMEM) {
		note_probed_file(&collector->notes, object->path, "is not probed before it is used", why.text);
		return 0;
	}
	object->is_kept |= object->is_put_off || probes_have_site(&collector->shared.probes, index);
	if (!err && !was_kept && object->is_kept && !object->is_put_off)
		note_probed_file(&collector->notes, object->path, "is probed from the start, for programs that come",
				 "each process that uses it pays for the traps");
	return err;
}

static int retain_file_probes(struct collector *collector, const char *path)
{
	uint32_t index;
	int err = objects_get_path(&collector->objects, path, &index, NULL);

	return err ? (err == -ENOMEM ? err : 0) : retain_object_probes(collector, index);
}

/* ---- a program ---- */

/* musl's loader is the C library. glibc's C library lies in the loader's folder, after links have been followed. */
static int retain_loader(struct collector *collector, const char *loader)
{
	const char *path, *slash;
	char *beside;
	uint32_t index;
	int err = objects_get_path(&collector->objects, loader, &index, NULL);

	if (err)
		return err == -ENOMEM ? err : 0;
	err = retain_object_probes(collector, index);
	if (err)
		return err;
	path = collector->objects.object[index]->path;
	slash = strrchr(path, '/');
	if (asprintf(&beside, "%.*s/libc.so.6", slash ? (int)(slash - path) : 0, path) < 0)
		return -ENOMEM;
	err = retain_file_probes(collector, beside);
	free(beside);
	return err;
}

static int retain_program(struct collector *collector, const char *path, bool is_again)
{
	struct object *object;
	struct reason why = {};
	uint32_t index;
	int err = objects_get_path(&collector->objects, path, &index, &why);

	if (err == -ENOMEM)
		return err;
	if (err) {
		if (!is_again)
			note_probed_file(&collector->notes, path,
					 "cannot be read, and what it allocates first will not be seen", why.text);
		return 0;
	}
	object = collector->objects.object[index];
	object->is_program = true;
	err = retain_object_probes(collector, index);
	return err || !*object->probe_info->interpreter ? err :
						     retain_loader(collector, object->probe_info->interpreter);
}

/* ---- the host ---- */

/* Leaves the program itself out: the allocator of a static program serves no other process. */
static int retain_process_libraries(struct collector *collector, pid_t pid)
{
	struct mappings mappings = { .objects = &collector->objects };
	char *exe = proc_link(pid, "exe");
	int err = exe ? mappings_refresh(&mappings, pid, NULL) : -ENOMEM;

	for (size_t i = 0; i < mappings.used_nr && !err; i++)
		if (strcmp(mappings_used(&mappings, i)->path, exe))
			err = retain_object_probes(collector, mappings.used[i]);
	mappings_release(&mappings);
	free(exe);
	return err == -ENOMEM ? err : 0;
}

static int retain_host_libraries(struct collector *collector)
{
	int err = retain_process_libraries(collector, 1);

	return err || collector->shared.probes.site_nr ? err : retain_process_libraries(collector, getpid());
}

/* ---- the rules ---- */

static bool is_path(const struct admission_rule *rule)
{
	return rule->key == ADMISSION_EXE && !strpbrk(rule->pattern, "*?");
}

/* Whether the rules admit a program that none of them names by its whole path. */
static bool admits_others(const struct collector_options *options)
{
	size_t path_nr = 0, pattern_nr = 0;

	for (size_t i = 0; i < options->rule_nr; i++)
		if (!options->rule[i].excludes && options->rule[i].key == ADMISSION_EXE)
			*(is_path(&options->rule[i]) ? &path_nr : &pattern_nr) += 1;
	return pattern_nr || !path_nr;
}

static bool admits_pids(const struct collector_options *options)
{
	return array_any(options->rule_nr, i,
			 !options->rule[i].excludes && options->rule[i].key == ADMISSION_PID);
}

static int remember_program(struct early_programs *early, const char *path)
{
	char *copy = strdup(path);
	int err = copy ? array_push(early, program, copy) : -ENOMEM;

	if (err)
		free(copy);
	return err;
}

/* ALLOCSNAP_NO_BEFOREHAND=1 disables this for long tests, because other processes use the host's C library, too. */
int probe_host_allocators(struct collector *collector)
{
	const struct collector_options *options = &collector->options;
	int err = 0;

	if (!options->system_wide || admits_pids(options) || getenv("ALLOCSNAP_NO_BEFOREHAND"))
		return 0;
	if (admits_others(options))
		err = retain_host_libraries(collector);
	for (size_t i = 0; i < options->rule_nr && !err; i++)
		if (!options->rule[i].excludes && is_path(&options->rule[i]))
			err = retain_program(collector, options->rule[i].pattern, false) ?:
				      remember_program(&collector->files->early, options->rule[i].pattern);
	return err;
}

/* The device is cached: our root directory does not change. */
static bool is_root_device(dev_t device)
{
	static struct stat root;

	return (root.st_ino || !stat("/", &root)) && root.st_dev == device;
}

static bool object_is_on_root(const struct object *object)
{
	struct stat st;

	return object->fd >= 0 && !fstat(object->fd, &st) && is_root_device(st.st_dev);
}

static bool is_program_off_root(struct objects *objects, const char *path)
{
	uint32_t object;

	return !objects_get_path(objects, path, &object, NULL) && !object_is_on_root(objects->object[object]);
}

/*
 * After each pass: probes a program of such a path, too, if it has been replaced since.
 * A program on another file system is looked for only once, because its file would keep the file system busy
 * (umount).
 */
static void probe_replaced_programs(struct collector *collector)
{
	size_t kept = 0;

	for (size_t i = 0; i < collector->files->early.program_nr; i++) {
		char *path = collector->files->early.program[i];

		retain_program(collector, path, true);
		if (is_program_off_root(&collector->objects, path))
			free(path);
		else
			collector->files->early.program[kept++] = path;
	}
	collector->files->early.program_nr = kept;
}

/* ---- needed objects ---- */

#define KEPT_MOST 512 /* files of the root file system that no process needs */

static void mark_object_needed(bool *is_needed, uint32_t object)
{
	if (object < OBJECT_OF_SOURCE)
		is_needed[object] = true;
}

static void mark_needed(const struct mappings *mappings, const struct tracebacks *tracebacks, bool *is_needed)
{
	for (size_t i = 0; i < mappings->mapping_nr; i++)
		mark_object_needed(is_needed, mappings->mapping[i].object);
	for (size_t i = 0; i < mappings->past_nr; i++)
		mark_object_needed(is_needed, mappings->past[i].object);
	for (size_t i = 0; i < tracebacks->place_nr; i++)
		mark_object_needed(is_needed, tracebacks->place[i].object);
}

/* Whether the file still exists unchanged. */
static bool is_file_unchanged(const struct object *object, struct stat *st)
{
	return object->fd >= 0 && !object->has_changed && !fstat(object->fd, st) && st->st_nlink;
}

/*
 * Whether the object stays probed for programs to come. On other file systems only until the first process that
 * used it has ended.
 */
static bool is_kept(const struct object *object)
{
	struct stat st;

	return object->is_kept && is_file_unchanged(object, &st) && (!object->was_needed || is_root_device(st.st_dev));
}

static bool may_stay(const struct object *object)
{
	struct stat st;

	return is_file_unchanged(object, &st) && is_root_device(st.st_dev);
}

struct idle_object {
	uint32_t object, idle_cnt;
};

static int by_idleness(const void *a, const void *b)
{
	const struct idle_object *x = a, *y = b;

	return (x->idle_cnt > y->idle_cnt) - (x->idle_cnt < y->idle_cnt);
}

/* Keeps the KEPT_MOST objects that were needed last. */
static void choose_kept(struct idle_object *idle, size_t nr, bool *goes)
{
	if (nr <= KEPT_MOST)
		return;
	qsort(idle, nr, sizeof(*idle), by_idleness);
	for (size_t i = KEPT_MOST; i < nr; i++)
		goes[idle[i].object] = true;
}

static void choose_dropped_objects(struct objects *objects, const bool *is_needed, struct idle_object *idle, bool *goes)
{
	size_t nr = 0;

	for (size_t i = 0; i < objects->object_nr; i++) {
		struct object *object = objects->object[i];

		if (!object)
			continue;
		object->was_needed |= is_needed[i];
		object->idle_cnt = is_needed[i] || is_kept(object) ? 0 : object->idle_cnt + 1;
		if (!object->idle_cnt)
			continue;
		if (may_stay(object))
			idle[nr++] = (struct idle_object){ i, object->idle_cnt };
		else
			goes[i] = true;
	}
	choose_kept(idle, nr, goes);
}

/* ---- drop the other objects ---- */

static void drop_unused_object(struct collector *collector, uint32_t object)
{
	probes_drop(&collector->shared.probes, object, &collector->shared.detacher);
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		probes_drop(&collector->targets.target[i]->probes.own, object, &collector->shared.detacher);
		probes_drop(&collector->targets.target[i]->probes.beside, object, &collector->shared.detacher);
	}
	unwind_tables_drop(&collector->unwind_tables, object);
	unwatch_file(&collector->files->written, &collector->objects, object);
	objects_drop(&collector->objects, object);
}

/* Several containers can share the names of equal files. The names stay as long as one of the files does. */
static void forget_unneeded_names(struct objects *objects, struct symbols *symbols)
{
	size_t nr = symbols__object_nr(symbols);
	bool *is_needed = calloc(nr + 1, sizeof(*is_needed));
	char key[24];

	for (size_t i = 0; i < objects->object_nr && is_needed; i++) {
		const struct object *object = objects->object[i];
		uint32_t names =
			object ? symbols__find(symbols, object->path, object_names_key(object, key)) : SYMBOLS_NONE;

		if (names != SYMBOLS_NONE)
			is_needed[names] = true;
	}
	if (is_needed)
		symbols__forget(symbols, is_needed);
	free(is_needed);
}

static void drop_unused_objects(struct collector *collector, const bool *goes)
{
	bool is_any = false;

	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *target = collector->targets.target[i];

		late_functions_forget(&target->late, goes);
		mappings_forget_objects(&target->mappings, goes);
	}
	for (size_t i = 0; i < collector->objects.object_nr; i++)
		if (goes[i]) {
			drop_unused_object(collector, i);
			is_any = true;
		}
	if (is_any)
		forget_unneeded_names(&collector->objects, collector->symbols);
}

#define READ_EACH_PASSES 8 /* no event reports an unmapping, so mappings are read anew after so many passes */

static void schedule_rereads(struct pass *pass, struct targets *targets)
{
	pass->nr++;
	for (size_t i = 0; i < targets->target_nr; i++)
		if (!((targets->target[i]->identity.pid + pass->nr) % READ_EACH_PASSES))
			targets->target[i]->reading.is_touched |= !targets->target[i]->life.has_ended;
}

void drop_unused(struct collector *collector)
{
	size_t nr = collector->objects.object_nr + 1;
	bool *is_needed = calloc(nr, sizeof(*is_needed)), *goes = calloc(nr, sizeof(*goes));
	struct idle_object *idle = calloc(nr, sizeof(*idle));

	if (is_needed && goes && idle) {
		for (size_t i = 0; i < collector->targets.target_nr; i++)
			mark_needed(&collector->targets.target[i]->mappings, &collector->targets.target[i]->tracebacks,
				    is_needed);
		choose_dropped_objects(&collector->objects, is_needed, idle, goes);
		drop_unused_objects(collector, goes);
	}
	probe_replaced_programs(collector);
	schedule_rereads(&collector->pass, &collector->targets);
	free(is_needed);
	free(goes);
	free(idle);
}

/* ---- tables ---- */

static void mark_mapped(const struct target *target, bool *is_mapped)
{
	const struct mappings *mappings = &target->mappings;

	for (size_t i = 0; i < mappings->mapping_nr && !target->life.has_ended; i++)
		if (mapping_is_there(mappings, &mappings->mapping[i]))
			mark_object_needed(is_mapped, mappings->mapping[i].object);
}

static size_t drop_unmapped(struct unwind_tables *tables, const bool *is_mapped)
{
	size_t dropped = 0;

	for (size_t i = 0; i < tables->entry_nr; i++)
		if (!is_mapped[i] && tables->entry[i].state != UNWIND_TABLE_UNSEEN) {
			unwind_tables_drop(tables, i);
			dropped++;
		}
	return dropped;
}

/* Drops the tables that did not fit, so that the next look makes them again. */
static void retry_missing_tables(struct unwind_tables *tables, struct targets *targets)
{
	for (size_t i = 0; i < tables->entry_nr; i++)
		if (tables->entry[i].state == UNWIND_TABLE_MISSING)
			unwind_tables_drop(tables, i);
	for (size_t i = 0; i < targets->target_nr; i++)
		targets->target[i]->reading.is_touched |= !targets->target[i]->life.has_ended;
}

void drop_unmapped_tables(struct collector *collector)
{
	bool *is_mapped = calloc(collector->objects.object_nr + 1, sizeof(*is_mapped));

	collector->unwind_tables.is_full = false;
	if (!is_mapped)
		return;
	for (size_t i = 0; i < collector->targets.target_nr; i++)
		mark_mapped(collector->targets.target[i], is_mapped);
	if (drop_unmapped(&collector->unwind_tables, is_mapped) && !grace_wait(&collector->pass.cut.grace)) {
		unwind_tables_settle(&collector->unwind_tables);
		retry_missing_tables(&collector->unwind_tables, &collector->targets);
	}
	free(is_mapped);
}
