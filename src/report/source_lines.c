// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/source_lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "render/json_parts.h"
#include "render/source_tree.h"

#define LINES_AROUND 2
#define LINE_CHARACTERS 240

struct reading {
	struct report_data *data;
	struct source_tree *tree;
	uint64_t recorded_ns;
	size_t newer_nr;
	uint8_t *verdict; /* by string id of a file: enum verdict */
};

enum verdict {
	FILE_NOT_ASKED = 0,
	FILE_TAKEN,
	FILE_IS_NEWER,
};

/* Whole characters only. */
static void cut_line(char *line)
{
	size_t at = 0;

	for (int i = 0; line[at] && i < LINE_CHARACTERS; i++)
		at += utf8_len(line + at) ?: 1;
	line[at] = '\0';
}

static int add_source_line(json_t *lines, struct reading *reading, const char *file, uint32_t number)
{
	char *line = source_tree__indented_line(reading->tree, file, number), key[16];
	int err = 0;

	if (!line)
		return 0;
	cut_line(line);
	for (char *tab = line; *tab; tab++)
		*tab = *tab == '\t' ? ' ' : *tab; /* a cleaned tab is four characters */
	snprintf(key, sizeof(key), "%u", number);
	err = json_set_text(lines, key, line);
	free(line);
	return err;
}

/* The lines of a file that are there already, or a new list. Borrowed; NULL: no memory. */
static json_t *find_lines(struct reading *reading, uint32_t file)
{
	json_t *lines;
	char key[16];

	snprintf(key, sizeof(key), "%u", file);
	lines = json_object_get(reading->data->sources, key);
	if (lines)
		return lines;
	lines = json_object();
	return json_object_set_new(reading->data->sources, key, lines) ? NULL : lines;
}

static bool is_file_taken(struct reading *reading, uint32_t file, const char *name)
{
	uint8_t *verdict = &reading->verdict[file];

	if (*verdict == FILE_NOT_ASKED) {
		*verdict = source_tree__is_newer(reading->tree, name, reading->recorded_ns) ? FILE_IS_NEWER : FILE_TAKEN;
		reading->newer_nr += *verdict == FILE_IS_NEWER;
	}
	return *verdict == FILE_TAKEN;
}

static int add_lines_of_frame(struct reading *reading, const struct report_frame *frame)
{
	const char *name = strpool_get(&reading->data->strings, frame->file);
	uint64_t last = (uint64_t)frame->line + LINES_AROUND; /* a file may say that a line is the last of 2^32 */
	json_t *lines;
	int err = 0;

	if (!frame->line || frame->is_library || !is_file_taken(reading, frame->file, name))
		return 0;
	lines = find_lines(reading, frame->file);
	if (!lines)
		return -ENOMEM;
	for (uint64_t at = frame->line > LINES_AROUND ? frame->line - LINES_AROUND : 1;
	     at <= last && at <= UINT32_MAX && !err; at++)
		err = add_source_line(lines, reading, name, at);
	return err;
}

int report_add_sources(struct report_data *data, const char *folder, uint64_t recorded_ns, size_t *ret_newer_nr)
{
	struct reading reading = { .data = data, .tree = source_tree__open(folder), .recorded_ns = recorded_ns };
	int err = 0;

	data->sources = json_object();
	reading.verdict = calloc(data->strings.start_nr ?: 1, 1);
	if (!data->sources || !reading.verdict)
		err = -ENOMEM;
	for (size_t i = 0; i < data->frame_nr && !err; i++)
		err = add_lines_of_frame(&reading, &data->frame[i]);
	source_tree__close(reading.tree);
	free(reading.verdict);
	*ret_newer_nr = reading.newer_nr;
	return err;
}
