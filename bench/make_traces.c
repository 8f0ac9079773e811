// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * make_traces DIR TRACES PART: two snapshots of a large process, the same every time.
 *
 *	old.snap, new.snap		TRACES traces; one in ten is another one in the new
 *	old-zstd.snap			the old one, compressed
 *	part-old.snap, part-new.snap	the first PART traces of each
 *	frames.txt			for Python: FILENAME TAB LINENO, by frame id, from 0
 *	tracebacks.u32			DEPTH frame ids each, by traceback id, from 0
 *	part-old.sizes.u64, …		the columns of the parts, as they are
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reason.h"
#include "snapshot.h"

#define DEPTH 20
#define FRAMES 5000
#define FILES 400
#define TRACEBACKS 50000

struct make {
	const char *dir;
	uint64_t trace_nr, part_nr;
	uint32_t frame[FRAMES];
	uint32_t traceback[TRACEBACKS];
};

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "make_traces: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* A number as random as another one of the same two is. */
static uint64_t random_of(uint64_t seed, uint64_t number)
{
	uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15 + number * 0xd1342543de82ef95;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	x *= 0x2545f4914f6cdd1d;
	return x ^ x >> 32;
}

static char *path_of(const struct make *m, const char *name)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%s", m->dir, name);
	return path;
}

static uint32_t string(struct snapshot_builder *builder, const char *text)
{
	uint32_t id;

	must(snapshot_builder__string(builder, text, &id), text);
	return id;
}

static void add_frames(struct make *m, struct snapshot_builder *builder)
{
	struct snap_object object = { .path = string(builder, "/opt/bench/bin/bench") };
	uint32_t object_id;
	char text[64];

	must(snapshot_builder__object(builder, &object, &object_id), "object");
	for (uint32_t i = 0; i < FRAMES; i++) {
		struct snap_frame row = { .lineno = 10 + i / FILES * 7, .object = object_id,
					  .offset = 0x1000 + 16 * i };

		snprintf(text, sizeof(text), "src/part_%02u/module_%03u.c", i % FILES % 20,
			 i % FILES);
		row.filename = string(builder, text);
		snprintf(text, sizeof(text), "function_%u", i);
		row.function = string(builder, text);
		must(snapshot_builder__frame(builder, &row, &m->frame[i]), "frame");
	}
}

/* Like the leaves of a tree: the older a frame is, the more tracebacks share it. */
static void add_tracebacks(struct make *m, struct snapshot_builder *builder)
{
	uint32_t frame[DEPTH];

	for (uint32_t i = 0; i < TRACEBACKS; i++) {
		for (uint32_t depth = 0; depth < DEPTH; depth++)
			frame[depth] = m->frame[random_of(depth, i >> depth) % FRAMES];
		must(snapshot_builder__traceback(builder, frame, DEPTH, DEPTH, 0,
						 &m->traceback[i]), "traceback");
	}
}

static void add_traces(const struct make *m, struct snapshot_builder *builder, bool is_new)
{
	for (uint64_t i = 0; i < m->trace_nr; i++) {
		uint64_t seed = is_new && random_of(99, i) % 10 == 0 ? 101 : 100;
		uint64_t random = random_of(seed, i);
		struct snap_trace row = {
			.size = random % 64 ? 8 + random / 64 % 512 * 8 :
					      4096 + random / 64 % 65536,
			.traceback = m->traceback[(random >> 32) % TRACEBACKS],
			.domain = random >> 30 & 1,
			.birth_ns = 1000000000 + i * 100,
			.address = 0x7f0000000000 + (random >> 20) * 16,
			.thread = 4000 + random % 16,
		};

		must(snapshot_builder__trace(builder, &row), "trace");
	}
}

static struct snapshot *build(struct make *m, bool is_new)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_ALL);
	struct snapshot *snapshot;

	must(builder ? 0 : -ENOMEM, "builder");
	add_frames(m, builder);
	add_tracebacks(m, builder);
	add_traces(m, builder, is_new);
	must(snapshot_builder__metadata(builder, "pid", "4711"), "metadata");
	must(snapshot_builder__metadata(builder, "traceback_limit", "64"), "metadata");
	must(snapshot_builder__metadata(builder, "monotonic_ns", "5000000000"), "metadata");
	must(snapshot_builder__finish(builder, &snapshot), "snapshot");
	return snapshot;
}

static void save(const struct make *m, const struct snapshot *snapshot, const char *name,
		 bool compress)
{
	struct snapshot_save_options options = { .compress = compress };
	struct reason why = { "" };

	if (snapshot__save(snapshot, path_of(m, name), &options, &why)) {
		fprintf(stderr, "make_traces: %s\n", why.text);
		exit(1);
	}
}

static void write_file(const struct make *m, const char *name, const void *bytes, size_t len)
{
	FILE *out = fopen(path_of(m, name), "wb");

	must(out && fwrite(bytes, 1, len, out) == len && !fclose(out) ? 0 : -errno, name);
}

static struct snapshot *part_of(const struct make *m, const struct snapshot *snapshot)
{
	uint8_t *keep = calloc(1, m->trace_nr);
	struct snapshot *part;

	must(keep ? 0 : -ENOMEM, "part");
	memset(keep, 1, m->part_nr);
	must(snapshot__select(snapshot, keep, &part), "part");
	free(keep);
	return part;
}

static void write_part(const struct make *m, const struct snapshot *snapshot, bool is_new)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	struct snapshot *part = part_of(m, snapshot);

	save(m, part, is_new ? "part-new.snap" : "part-old.snap", false);
	snapshot__close(part);
	write_file(m, is_new ? "part-new.sizes.u64" : "part-old.sizes.u64", t->trace_size,
		   m->part_nr * sizeof(*t->trace_size));
	write_file(m, is_new ? "part-new.tracebacks.u32" : "part-old.tracebacks.u32",
		   t->trace_traceback, m->part_nr * sizeof(*t->trace_traceback));
	write_file(m, is_new ? "part-new.domains.u32" : "part-old.domains.u32",
		   t->trace_domain, m->part_nr * sizeof(*t->trace_domain));
}

/* The tables that both share. Traceback 0 has no frames and gets zeros. */
static void write_tables(const struct make *m, const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	uint32_t *row = calloc(t->traceback_nr, DEPTH * sizeof(*row));
	FILE *out = fopen(path_of(m, "frames.txt"), "w");

	must(row && out ? 0 : -errno, "tables");
	for (uint32_t i = 0; i < t->frame_nr; i++)
		fprintf(out, "%s\t%u\n", snapshot__string(snapshot, t->frame[i].filename),
			t->frame[i].lineno);
	must(fclose(out) ? -errno : 0, "frames.txt");
	for (uint32_t i = 1; i < t->traceback_nr; i++)
		memcpy(row + i * DEPTH, t->traceback_frame + t->traceback[i].first,
		       DEPTH * sizeof(*row));
	write_file(m, "tracebacks.u32", row, t->traceback_nr * DEPTH * sizeof(*row));
	free(row);
}

int main(int argc, char **argv)
{
	static struct make make;

	if (argc != 4) {
		fprintf(stderr, "usage: make_traces DIR TRACES PART\n");
		return 2;
	}
	make.dir = argv[1];
	make.trace_nr = strtoull(argv[2], NULL, 10);
	make.part_nr = strtoull(argv[3], NULL, 10);
	if (make.part_nr > make.trace_nr)
		make.part_nr = make.trace_nr;
	for (int is_new = 0; is_new < 2; is_new++) {
		struct snapshot *snapshot = build(&make, is_new);

		save(&make, snapshot, is_new ? "new.snap" : "old.snap", false);
		if (!is_new) {
			save(&make, snapshot, "old-zstd.snap", true);
			write_tables(&make, snapshot);
		}
		write_part(&make, snapshot, is_new);
		snapshot__close(snapshot);
	}
	return 0;
}
