/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_PAGES_BY_H
#define ALLOCSNAP_SNAPSHOT_PAGES_BY_H

/*
 * The ways in which a recording has seen pages come: the metadata `pages_by`. Inline, as both libraries need it and share only
 * what is installed.
 */

#include <stddef.h>
#include <string.h>

struct pages_by {
	const char *name;
	const char *text;   /* as in "page faults do not show" */
	const char *unseen; /* what comes unseen, and is not attributed */
};

/* NULL: a file may have any text there. */
static inline const struct pages_by *pages_by_name(const char *name)
{
	static const struct pages_by rows[] = {
		{ "rmap", "rmap does", "the start of the program, an mremap of more than 256 MiB, UFFDIO_MOVE" },
		{ "faults", "page faults do", "MAP_POPULATE, mlock, another process's writes, an mremap to a given place, the start of the program" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	return NULL;
}

#endif
