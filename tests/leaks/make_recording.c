// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * make_recording: writes the snapshots that standard input describes, one command a line.
 *
 *	snapshot PATH NOW_NS BEGIN_NS KIND HOST	KIND: exact, compact or sampled
 *	metadata KEY VALUE	counter NAME VALUE
 *	gap BEGIN_NS END_NS
 *	site NUMBER FUNCTION LINE ALLOCATIONS	its traceback is FUNCTION at sim.c:LINE, called by main
 *	block SITE SIZE BIRTH_NS ADDRESS WEIGHT
 *	save
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

#define SITES_MOST 4096

static struct snapshot_builder *builder;
static uint32_t site_traceback[SITES_MOST];
static char path[4096], kind[16];

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "make_recording: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void metadata(const char *key, const char *value)
{
	must(snapshot_builder__metadata(builder, key, value), key);
}

static void begin(const char *line)
{
	char now_ns[32], begin_ns[32], host[64];

	must(sscanf(line, "snapshot %4095s %31s %31s %15s %63s", path, now_ns, begin_ns, kind, host) == 5 ? 0 :
	     -EINVAL, line);
	builder = snapshot_builder__new(SNAP_WITH_ALL | SNAP_WITH_CHURN |
					(strcmp(kind, "sampled") ? 0 : SNAP_WITH_WEIGHT));
	must(builder ? 0 : -ENOMEM, "builder");
	metadata("host", host);
	metadata("pid", "4711");
	metadata("comm", "sim");
	metadata("wall_ns", now_ns);
	metadata("monotonic_ns", now_ns);
	metadata("recording_start_monotonic_ns", begin_ns);
}

static uint32_t frame(const char *function, uint32_t line)
{
	struct snap_frame row = { .lineno = line };
	uint32_t id;

	must(snapshot_builder__string(builder, function, &row.function), function);
	must(snapshot_builder__string(builder, "sim.c", &row.filename), "sim.c");
	must(snapshot_builder__frame(builder, &row, &id), "frame");
	return id;
}

static void add_site(const char *text)
{
	uint32_t number, line, frames[2];
	struct snap_churn churn = {};
	char function[256];

	must(sscanf(text, "site %" SCNu32 " %255s %" SCNu32 " %" SCNu64, &number, function, &line,
		    &churn.allocations) == 4 && number < SITES_MOST ? 0 : -EINVAL, text);
	frames[0] = frame(function, line);
	frames[1] = frame("main", 1);
	must(snapshot_builder__traceback(builder, frames, 2, 2, 0, &site_traceback[number]), "traceback");
	must(snapshot_builder__churn(builder, site_traceback[number], &churn), "churn");
}

static void add_block(const char *text)
{
	struct snap_trace trace = {};
	uint32_t site;

	must(sscanf(text, "block %" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %lf", &site, &trace.size, &trace.birth_ns,
		    &trace.address, &trace.weight) == 5 && site < SITES_MOST ? 0 : -EINVAL, text);
	trace.traceback = site_traceback[site];
	must(snapshot_builder__trace(builder, &trace), text);
}

static void add_fact(const char *text)
{
	char word[16], key[256], value[256];

	must(sscanf(text, "%15s %255s %255s", word, key, value) == 3 ? 0 : -EINVAL, text);
	if (!strcmp(word, "metadata"))
		metadata(key, value);
	else if (!strcmp(word, "counter"))
		must(snapshot_builder__counter(builder, SNAP_COUNTED, key, strtoull(value, NULL, 10)), key);
	else if (!strcmp(word, "gap"))
		must(snapshot_builder__gap(builder, strtoull(key, NULL, 10), strtoull(value, NULL, 10)), text);
	else
		must(-EINVAL, text);
}

static void save(void)
{
	const struct snapshot_save_options options = { .compact = !strcmp(kind, "compact") };
	struct snapshot *snapshot;
	struct reason why = {};

	must(snapshot_builder__finish(builder, &snapshot), "finish");
	must(snapshot__save(snapshot, path, &options, &why), why.text);
	snapshot__close(snapshot);
}

int main(void)
{
	char *line = NULL;
	size_t room = 0;

	while (getline(&line, &room, stdin) > 0) {
		if (!strncmp(line, "snapshot ", 9))
			begin(line);
		else if (!strncmp(line, "site ", 5))
			add_site(line);
		else if (!strncmp(line, "block ", 6))
			add_block(line);
		else if (!strncmp(line, "save", 4))
			save();
		else
			add_fact(line);
	}
	free(line);
	return 0;
}
