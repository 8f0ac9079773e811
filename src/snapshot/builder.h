/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_BUILDER_H
#define ALLOCSNAP_SNAPSHOT_BUILDER_H

#include <stdbool.h>

#include "base/idmap.h"
#include "base/strpool.h"
#include "snapshot/private.h"

/* The rows of one section; their size is in snap_shapes[]. ids is used where rows are interned. */
struct snap_table {
	void *row;
	size_t nr, alloc;
	struct idmap ids;
};

struct snapshot_builder {
	uint32_t columns;
	uint32_t domains; /* all of them or-ed */
	bool has_first_lines; /* one at least is known */
	struct strpool string;
	struct snap_table table[SNAP_SECTION_TYPE_MAX]; /* by section type, but for the strings */
};

/* What was built so far, as a snapshot that owns nothing, until the builder changes. */
void snap_view(const struct snapshot_builder *builder, struct snapshot *view);

#endif
