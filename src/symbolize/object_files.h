/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLIZE_OBJECT_FILES_H
#define ALLOCSNAP_SYMBOLIZE_OBJECT_FILES_H

#include "base/file_replace.h"
#include "symbolize/naming.h"

/* Inside naming: finds the file of an object of a snapshot. */

struct parser;
struct symbols;

struct object_file {
	char *path, *build_id;
	uint32_t names; /* index for symbols__lookup(), or NAMES_NONE: no file was found */
	struct file_version stamp; /* of the file, if there are names */
	unsigned int snapshot; /* the snapshot for which it was searched last */
	bool is_told;
	bool is_doubted, is_stripped; /* frames without a name remained; the reason is that it is stripped */
	struct reason why;
};

struct naming {
	struct naming_options options;
	struct parser *parser;
	struct symbols *symbols;
	struct object_file *file;
	size_t file_nr, file_alloc;
	int *fd; /* by index for symbols__lookup(); -1: closed */
	size_t fd_nr, fd_alloc;
	unsigned int snapshot; /* number of the current snapshot */
	unsigned int stripped_nr; /* stripped files that were reported */
};

/*
 * Stores the object's index for symbols__lookup(), or NAMES_NONE if there is no such file. 0 or
 * -ENOMEM.
 */
int naming_find_object(struct naming *naming, const char *path, const char *build_id,
		       uint32_t *ret_names);

/*
 * Call this, while the file is open, for an object that had no line for any frame and no name for
 * some. The object is reported later if it is stripped and has no debug file.
 */
void naming_doubt_object(struct naming *naming, const char *path, const char *build_id);

/* Closes the files found for one snapshot, but keeps the facts about them for the next one. */
void naming_close_objects(struct naming *naming);

#endif
