// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * make_seeds DIR SNAP…: small snapshots to start fuzzing from, of each snapshot as it is,
 * compressed, compact, and both: no more than TRACE_MAX of its traces.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reason.h"
#include "snapshot.h"

#define TRACE_MAX 16

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "make_seeds: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* Every so many traces one, from the first to the last. */
static struct snapshot *thinned(const struct snapshot *snapshot)
{
	uint64_t nr = snapshot__tables(snapshot)->trace_nr;
	uint8_t *keep = calloc(1, nr + 1);
	struct snapshot *few = NULL;

	must(keep ? 0 : -ENOMEM, "traces");
	for (uint64_t i = 0; i < TRACE_MAX && nr; i++)
		keep[i * nr / TRACE_MAX] = 1;
	must(snapshot__select(snapshot, keep, &few), "traces");
	free(keep);
	return few;
}

static void write_seed(const char *dir, const char *name, const struct snapshot *snapshot,
		       bool compress, bool compact)
{
	struct snapshot_save_options options = { .compress = compress, .compact = compact };
	char path[4096];
	void *bytes;
	size_t len;
	FILE *out;

	must(snapshot__serialize(snapshot, &options, &bytes, &len), name);
	snprintf(path, sizeof(path), "%s/%s%s%s", dir, compress ? "zstd-" : "",
		 compact ? "compact-" : "", name);
	out = fopen(path, "wb");
	must(out && fwrite(bytes, 1, len, out) == len && !fclose(out) ? 0 : -errno, path);
	free(bytes);
}

int main(int argc, char **argv)
{
	for (int i = 2; i < argc; i++) {
		struct snapshot *snapshot = snapshot__open(argv[i], NULL);
		struct snapshot *few;

		if (!snapshot)
			continue; /* a damaged one */
		few = thinned(snapshot);
		for (int form = 0; form < 4; form++)
			write_seed(argv[1], strrchr(argv[i], '/') + 1, few, form & 1, form & 2);
		snapshot__close(few);
		snapshot__close(snapshot);
	}
	return 0;
}
