/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_BUILDER_H
#define ALLOCSNAP_SNAPSHOT_BUILDER_H

#include <stdbool.h>

#include "base/idmap.h"
#include "base/strpool.h"
#include "snapshot/private.h"

/* The rows of one section; snap_shapes[] has their size. ids is used if rows are interned. */
struct snap_table {
	void *row;
	size_t nr, alloc;
	struct idmap ids;
};

struct snapshot_builder {
	uint32_t columns;
	uint32_t domains; /* the domains of all traces, or-ed */
	bool has_first_lines; /* at least one first line is known */
	struct strpool string;
	struct snap_table table[SNAP_SECTION_TYPE_MAX]; /* by section type, except for the strings */
};

/* A snapshot of the rows so far. It owns nothing, and is valid until the builder changes. */
void snap_view(const struct snapshot_builder *builder, struct snapshot *view);

#endif
