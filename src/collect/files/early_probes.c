// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/files/early_probes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/process/proc.h"
#include "collect/files/file_state.h"
#include "collect/recording/collector.h"
#include "collect/files/unused_files.h"

/* ---- a file ---- */

static void note_probed_file(struct notes *notes, const char *path, const char *what, const char *why)
{
	struct reason line;

	reason_set(&line, 0, "%s %s: %s", path, what, why);
	notes_add(notes, line.text);
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
	return err || !*object->facts->interpreter ? err :
						     retain_loader(collector, object->facts->interpreter);
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

static bool is_path(const struct process_filter_rule *rule)
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
	for (size_t i = 0; i < options->rule_nr; i++)
		if (!options->rule[i].excludes && options->rule[i].key == ADMISSION_PID)
			return true;
	return false;
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

	if (!options->everyone || admits_pids(options) || getenv("ALLOCSNAP_NO_BEFOREHAND"))
		return 0;
	if (admits_others(options))
		err = retain_host_libraries(collector);
	for (size_t i = 0; i < options->rule_nr && !err; i++)
		if (!options->rule[i].excludes && is_path(&options->rule[i]))
			err = retain_program(collector, options->rule[i].pattern, false) ?:
				      remember_program(&collector->files->early, options->rule[i].pattern);
	return err;
}

static bool is_program_off_root(struct objects *objects, const char *path)
{
	uint32_t object;

	return !objects_get_path(objects, path, &object, NULL) && !object_is_on_root(objects->object[object]);
}

/*
 * A program on another file system is looked for only once, because its file would keep the file system busy
 * (umount).
 */
void probe_replaced_programs(struct collector *collector)
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
