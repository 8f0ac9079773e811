/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_SHOW_H
#define ALLOCSNAP_RENDER_SHOW_H

/* The parts of `show`; a report has some of them, too. */

#include "render/emitter.h"
#include "render/facts.h"

#define SHOW_NAME "  %-30s " /* the first column of text */

/* "gaps" if there are any, "cost" if it is known. */
void emit_gaps(struct emitter *out, const struct snapshot *snapshot);
void emit_cost(struct emitter *out, const struct snapshot *snapshot);

/* "rss" if its parts are known. Only JSON: render_rss() writes the text. */
void emit_rss(struct emitter *out, const struct snapshot *snapshot);

/* "tracebacks": blocks by how their stack walk ended. */
void emit_tracebacks(struct emitter *out, const struct snapshot_facts *facts);

/* A sentence about the blocks that had no room in the recording's block map. Only text. */
void put_dropped(struct emitter *out, const struct snapshot *snapshot);

#endif
