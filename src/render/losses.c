// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/units.h"
#include "render.h"
#include "render/clean.h"
#include "render/facts.h"
#include "snapshot.h"

/* "losses: NAME VALUE, …"; a loss of 0 is left out. `show` tells what they mean. */
static void put_loss(FILE *out, const char *name, uint64_t value)
{
	if (value)
		fprintf(out, "%s%s %" PRIu64, ftell(out) ? ", " : "losses: ", name, value);
}

static void put_nonzero_losses(FILE *out, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	for (uint32_t i = 0; i < tables->counter_nr; i++)
		if (tables->counter[i].kind == SNAP_LOST)
			put_loss(out, snapshot__string(snapshot, tables->counter[i].name),
				 tables->counter[i].value);
}

/* Closes the stream and returns its text, cleaned; NULL and errno 0 if there is none. */
static char *finish_line(FILE *out, char **text, const size_t *len)
{
	char *line;

	if (fclose(out)) {
		free(*text);
		errno = ENOMEM;
		return NULL;
	}
	line = *len ? clean_copy(*text) : NULL;
	if (!*len)
		errno = 0;
	free(*text);
	return line;
}

char *losses_line(const struct snapshot *snapshot)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	put_nonzero_losses(out, snapshot);
	return finish_line(out, &text, &len);
}

char *loss_list_line(const struct report_loss *loss, size_t nr)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	for (size_t i = 0; i < nr; i++)
		put_loss(out, loss[i].name, loss[i].value);
	return finish_line(out, &text, &len);
}

/* The memory in use when the recording began, part of which may still be in use; 0: not known. */
static uint64_t older_bytes(const struct snapshot *snapshot)
{
	uint64_t rss = snapshot__metadata_u64(snapshot, "rss_bytes", UINT64_MAX);
	uint64_t at_start = snapshot__metadata_u64(snapshot, "rss_at_start_bytes", 0);

	return at_start < rss ? at_start : rss;
}

int render_traced(FILE *out, const struct snapshot *snapshot, const char *margin)
{
	struct snapshot_facts facts = snapshot_facts(snapshot);
	uint64_t rss = snapshot__metadata_u64(snapshot, "rss_bytes", 0);
	uint64_t older = older_bytes(snapshot);
	char traced_text[UNIT_TEXT_MAX], rss_text[UNIT_TEXT_MAX], older_text[UNIT_TEXT_MAX];

	format_size(traced_text, facts.current_bytes, false);
	format_size(rss_text, rss, false);
	format_size(older_text, older, false);
	return put_line(out, "%straced %s%s in %" PRIu64 " block%s%s%s%s%s%s%s",
			margin, facts.is_estimated ? "about " : "", traced_text,
			facts.blocks, facts.blocks == 1 ? "" : "s",
			snapshot__metadata(snapshot, "filters") ? " (filtered)" : "",
			rss ? ", of RSS " : "", rss ? rss_text : "",
			older ? "; up to " : "", older ? older_text : "",
			older ? " older than the recording" : "");
}
