/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_FORMATS_H
#define ALLOCSNAP_RENDER_FORMATS_H

/* The functions behind the rows of the table of renderers (table_text.c). */

#include "render.h"
#include "render/emitter.h"

int text_put_report(FILE *out, const struct report *report);
int text_put_snapshot(FILE *out, const struct snapshot *snapshot);
int text_put_block(FILE *out, const struct snapshot *snapshot, uint64_t at, bool full_names);
int json_put_block(FILE *out, const struct snapshot *snapshot, uint64_t at, bool full_names);
int json_put_report(FILE *out, const struct report *report);
int json_put_snapshot(FILE *out, const struct snapshot *snapshot);
int folded_put_report(FILE *out, const struct report *report);
int pprof_put_report(FILE *out, const struct report *report);
int otlp_put_report(FILE *out, const struct report *report);

/* The stack below a statistic by traceback, and an empty line. Only text. */
struct source_tree;
void put_group_stack(struct emitter *out, const struct report *report, struct source_tree *tree,
		       const struct statistic *statistic);

/* The name of a group; of a domain with the domain's own name. Not cleaned; the caller frees it. NULL: no memory. */
char *group_name(const struct report *report, const struct statistic *statistic);

/* Returns the number of statistics that --top leaves. */
size_t report_rows(const struct report *report);

#endif
