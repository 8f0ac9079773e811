/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_NAMING_OBJECT_FILES_H
#define ALLOCSNAP_NAMING_OBJECT_FILES_H

/* Inside naming: from an object as a snapshot has it to the file that it was. */

#include "base/file_stamp.h"
#include "base/idmap.h"
#include "symbolize/naming.h"

struct parser;
struct symbols;

struct object_file {
	char *path, *build_id;
	uint32_t names; /* index for symbols__lookup(), or NAMES_NONE: it was not found */
	struct file_stamp stamp; /* of the file, where there are names */
	unsigned int snapshot; /* that it was looked for last */
	bool is_told;
	bool is_doubted, is_stripped; /* frames without a name were left; and why */
	struct reason why;
};

struct naming {
	struct naming_options options;
	struct parser *parser;
	struct symbols *symbols;
	struct object_file *file;
	size_t file_nr, file_alloc;
	struct idmap file_ids;
	int *fd; /* by index for symbols__lookup(); -1: closed */
	size_t fd_nr, fd_alloc;
	unsigned int snapshot; /* counts them */
	unsigned int stripped_nr; /* told */
};

/* Its index for symbols__lookup(), NAMES_NONE where there is no such file. 0 or -ENOMEM. */
int naming_find_object(struct naming *naming, const char *path, const char *build_id,
		       uint32_t *ret_names);

/*
 * It had no line for any frame, and for some no name; while it is open. To be told if nothing that could have
 * one is there.
 */
void naming_doubt_object(struct naming *naming, const char *path, const char *build_id);

/* Closes what was found for one snapshot; what is known of it is kept for the next. */
void naming_close_objects(struct naming *naming);

#endif
