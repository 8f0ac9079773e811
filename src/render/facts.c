// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/facts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "formats/import.h"
#include "render.h"
#include "render/clean.h"
#include "shared/bpf_types.h"
#include "snapshot.h"

/* Whether the traceback has one call only; frames that were inlined into it do not count. */
static bool is_one_call(const struct snapshot_tables *tables, const struct snap_traceback *traceback)
{
	const uint32_t *frame = &tables->traceback_frame[traceback->first];
	uint32_t call_nr = 0;

	for (uint32_t i = 0; i < traceback->nframe && call_nr < 2; i++)
		call_nr += !(tables->frame[frame[i]].flags & (SNAP_FRAME_INLINE | SNAP_FRAME_SKIPPED));
	return call_nr <= 1;
}

static uint64_t *traceback_share(struct traceback_shares *shares, const struct snapshot_tables *tables,
				 const struct snap_traceback *traceback)
{
	if (!traceback->nframe)
		return &shares->none;
	if (traceback->flags & SNAP_TRACEBACK_BROKEN)
		return &shares->broken;
	if (traceback->flags & SNAP_TRACEBACK_LIMITED || traceback->total_nframe > traceback->nframe)
		return &shares->limited;
	if (traceback->flags & SNAP_TRACEBACK_END)
		return &shares->end[SNAP_TRACEBACK_END_OF(traceback->flags)];
	return is_one_call(tables, traceback) ? &shares->caller_only : &shares->ended;
}

bool snapshot_has_counter(const struct snapshot *snapshot, const char *name)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	for (uint32_t i = 0; i < tables->counter_nr; i++)
		if (!strcmp(snapshot__string(snapshot, tables->counter[i].name), name))
			return true;
	return false;
}

/* A sum above 2^64 - 1, which no process reaches, becomes 2^64 - 1. */
static void add_size(uint64_t *sum, uint64_t size)
{
	if (__builtin_add_overflow(*sum, size, sum))
		*sum = UINT64_MAX;
}

double trace_bytes_beyond(const struct snapshot_tables *tables, uint64_t at)
{
	return tables->trace_weight ? tables->trace_size[at] * (tables->trace_weight[at] - 1) : 0;
}

uint64_t add_bytes_beyond(uint64_t samples, double beyond)
{
	uint64_t sum = samples;

	if (!(beyond < 0x1p64) || __builtin_add_overflow(sum, (uint64_t)(beyond + 0.5), &sum))
		return UINT64_MAX;
	return sum;
}

/* Each kind with how it reads in a sentence. A file may have any text there. */
static const struct sampler_kind {
	const char *name, *words;
} sampler_kinds[] = {
	{ "own", "by the process's own sampler" },
	{ "preloaded", "by a preloaded sampler" },
	{ "injected", "by an injected sampler" },
	{ "pools", "by pools of CPython" },
};

static const struct sampler_kind *find_sampler_kind(const struct snapshot *snapshot)
{
	const char *name = snapshot__metadata(snapshot, "sampler_kind");

	for (size_t i = 0; i < ARRAY_SIZE(sampler_kinds) && name; i++)
		if (!strcmp(sampler_kinds[i].name, name))
			return &sampler_kinds[i];
	return NULL;
}

const char *snapshot_sampler_kind(const struct snapshot *snapshot)
{
	const struct sampler_kind *kind = find_sampler_kind(snapshot);

	return kind ? kind->name : NULL;
}

const char *rate_text(char text[RATE_TEXT_MAX], const struct snapshot *snapshot)
{
	uint64_t bytes = snapshot__metadata_u64(snapshot, "sample_bytes", 0);
	const struct sampler_kind *kind = find_sampler_kind(snapshot);
	char rate[UNIT_TEXT_MAX];
	int len = 0;

	*text = '\0';
	if (bytes)
		len = snprintf(text, RATE_TEXT_MAX, "one in %s", format_size(rate, bytes, false));
	if (kind)
		snprintf(text + len, RATE_TEXT_MAX - len, "%s%s", len ? " " : "", kind->words);
	return text;
}

uint64_t snapshot_recorded_ns(const struct snapshot *snapshot)
{
	uint64_t start_ns = snapshot__metadata_u64(snapshot, "recording_start_monotonic_ns", UINT64_MAX);
	uint64_t now_ns = snapshot__metadata_u64(snapshot, "monotonic_ns", 0);

	return start_ns < now_ns ? now_ns - start_ns : 0;
}

struct snapshot_facts snapshot_facts(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	struct snapshot_facts facts = {
		.samples = tables->trace_nr, .is_estimated = tables->trace_weight,
	};
	double bytes = 0, blocks = 0;

	for (uint64_t i = 0; i < tables->trace_nr; i++) {
		add_size(&facts.current_bytes, tables->trace_size[i]);
		bytes += trace_bytes_beyond(tables, i);
		blocks += tables->trace_weight ? tables->trace_weight[i] - 1 : 0;
		++*traceback_share(&facts.shares, tables,
				   &tables->traceback[tables->trace_traceback[i]]);
	}
	facts.current_bytes = add_bytes_beyond(facts.current_bytes, bytes);
	facts.blocks = add_bytes_beyond(tables->trace_nr, blocks);
	facts.has_peak = snapshot_has_counter(snapshot, "peak_bytes");
	facts.peak_bytes = snapshot__counter(snapshot, "peak_bytes");
	if (facts.peak_bytes < facts.current_bytes)
		facts.peak_bytes = facts.current_bytes;
	return facts;
}

const char *counter_meaning(const char *name)
{
	static const struct {
		const char *name;
		const char *meaning;
	} list[] = {
#define X(name, meaning) { #name, meaning },
		ALLOCSNAP_COUNTERS(X)
		ALLOCSNAP_LOSSES(X)
		IMPORT_LOSSES(X)
#undef X
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (!strcmp(list[i].name, name))
			return list[i].meaning;
	return NULL;
}

/* ---- losses ---- */

int snapshot_losses(const struct snapshot *snapshot, struct report_loss **ret, size_t *ret_nr)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	struct report_loss *loss = calloc(tables->counter_nr + 1ull, sizeof(*loss));

	*ret_nr = 0;
	*ret = loss;
	for (uint32_t i = 0; loss && i < tables->counter_nr; i++)
		if (tables->counter[i].kind == SNAP_LOST)
			loss[(*ret_nr)++] = (struct report_loss){ snapshot__string(snapshot, tables->counter[i].name),
								  tables->counter[i].value };
	return loss ? 0 : -ENOMEM;
}

/* "losses: NAME VALUE, …"; a loss of 0 is left out. `show` tells what they mean. */
char *loss_list_line(const struct report_loss *loss, size_t nr)
{
	char *text = NULL, *line = NULL;
	const char *before = "losses: ";
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	for (size_t i = 0; out && i < nr; i++) {
		if (!loss[i].value)
			continue;
		fprintf(out, "%s%s %" PRIu64, before, loss[i].name, loss[i].value);
		before = ", ";
	}
	errno = ENOMEM;
	if (out && !fclose(out)) {
		line = len ? clean_copy(text) : NULL;
		errno = len ? errno : 0;
	}
	free(text);
	return line;
}

char *losses_line(const struct snapshot *snapshot)
{
	struct report_loss *loss;
	size_t nr;
	char *line = snapshot_losses(snapshot, &loss, &nr) ? NULL : loss_list_line(loss, nr);

	free(loss);
	return line;
}
