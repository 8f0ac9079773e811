// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/copied_functions.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "process/mappings.h"
#include "process/proc.h"
#include "collect/sources/block_sources.h"
#include "elf/text_copies.h"

/* ---- files that may be copied ---- */

/* Finds the first library that copies the program's code as well as its own; NULL: none. */
static const struct object *find_copier(const struct mappings *mappings)
{
	for (size_t i = 0; i < mappings->used_nr; i++) {
		const struct object *object = mappings_used(mappings, i);

		if (object->probe_info && object->probe_info->copies_text && !object->is_program)
			return object;
	}
	return NULL;
}

static const struct object *copier_of(const struct object *object, const struct object *library)
{
	if (!object->probe_info)
		return NULL;
	return object->probe_info->copies_text ? object : object->is_program ? library : NULL;
}

static void mark_copied_object(struct notes *notes, struct object *object, const struct object *copier)
{
	object->is_copied = true;
	if (!object->probe_info->function_nr)
		return;
	notes_add(notes,
		  "nothing in %s is probed: its code may be copied while it runs, and a breakpoint in the copy would end the process (%s: %s)",
		  object->path, copier->path, text_copies[copier->probe_info->copies_text - 1].what);
}

void copied_mark(struct objects *objects, struct notes *notes, const struct mappings *mappings,
		 const struct probes *probes)
{
	const struct object *library = find_copier(mappings);

	for (size_t i = 0; i < mappings->used_nr; i++) {
		struct object *object = objects->object[mappings->used[i]];
		const struct object *copier = copier_of(object, library);

		if (copier && !object->is_copied && !probes_have_looked(probes, mappings->used[i]))
			mark_copied_object(notes, object, copier);
	}
}

bool copied_has_any(const struct mappings *mappings)
{
	return array_any(mappings->used_nr, i, mappings_used(mappings, i)->is_copied);
}

/* ---- functions that were copied ---- */

/* Zeroed: none. */
struct lines {
	struct maps_line *line;
	size_t line_nr, line_alloc;
	char *text;
};

static int add_maps_line(struct lines *lines, char *text)
{
	struct maps_line line;

	if (!maps_parse_line(text, &line))
		return 0;
	return array_push(lines, line, line);
}

static void read_maps_lines(struct lines *lines, pid_t pid)
{
	char *rest = lines->text = proc_read(pid, "maps", NULL), *text;

	while ((text = strsep(&rest, "\n")))
		if (add_maps_line(lines, text))
			break;
}

static void lines_release(struct lines *lines)
{
	free(lines->line);
	free(lines->text);
}

static bool is_of_code(const struct maps_line *line)
{
	return line->perms[2] == 'x';
}

static bool is_line_of_file(const struct maps_line *line, const char *path)
{
	return is_path_of_mapping(path, line->path);
}

static bool is_mapped(const struct lines *lines, const char *path)
{
	return array_any(lines->line_nr, i, is_line_of_file(&lines->line[i], path));
}

static bool is_mapped_as_code(const struct lines *lines, const char *path, uint64_t offset)
{
	for (size_t i = 0; i < lines->line_nr; i++) {
		const struct maps_line *line = &lines->line[i];

		if (is_of_code(line) && is_line_of_file(line, path) && offset >= line->offset &&
		    offset - line->offset < line->end - line->start)
			return true;
	}
	return false;
}

/* Counts the probed functions that are gone; *ret_path is the file of the first. */
static uint64_t count_copied_functions(const struct objects *objects, const struct mappings *mappings,
				       const struct probes *probes, const struct lines *lines, const char **ret_path)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < probes->site_nr; i++) {
		const struct probe_site *site = &probes->site[i];
		const char *path;

		if (!site->is_attached || !mappings_use(mappings, site->object))
			continue;
		path = objects->object[site->object]->path;
		if (!is_mapped(lines, path) || is_mapped_as_code(lines, path, site->offset))
			continue;
		*ret_path = nr++ ? *ret_path : path;
	}
	return nr;
}

void copied_count(struct objects *objects, struct notes *notes, struct target *target)
{
	struct lines lines = {};
	const char *path = NULL;
	uint64_t nr;

	read_maps_lines(&lines, target->identity.pid);
	nr = count_copied_functions(objects, &target->mappings, target->probes.used, &lines, &path);
	lines_release(&lines);
	if (nr <= target->losses.copied_nr)
		return;
	if (!target->losses.copied_nr)
		notes_add(notes,
			  "process %d (%s) runs a copy of the code of %s, in which nothing can be probed: what it allocates and frees there is not seen (functions_copied)",
			  target->identity.pid, target->identity.comm, path);
	target->losses.copied_nr = nr;
}

bool copied_is_away(pid_t pid, const char *path)
{
	struct lines lines = {};
	bool is_away;

	read_maps_lines(&lines, pid);
	is_away = is_mapped(&lines, path);
	for (size_t i = 0; i < lines.line_nr; i++)
		is_away &= !is_of_code(&lines.line[i]) || !is_line_of_file(&lines.line[i], path);
	lines_release(&lines);
	return is_away;
}
