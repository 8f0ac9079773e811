/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_GOLDEN_MAKE_H
#define ALLOCSNAP_GOLDEN_MAKE_H

/* Making snapshots, for make_snapshots.c alone: what fails ends the program. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "snapshot.h"

struct make {
	struct snapshot_builder *builder;
	const char *dir;
	const char *build_id; /* of the program; NULL: c0ffee01 */
	const char *boot_id; /* NULL: SHOP_BOOT */
	uint32_t thread;      /* of the blocks; 0: 4711 */
	uint32_t domain;
};

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "make_snapshots: %s: %s\n", what, strerror(-err));
	exit(1);
}

static uint32_t string(struct make *m, const char *text)
{
	uint32_t id;

	must(snapshot_builder__string(m->builder, text, &id), "string");
	return id;
}

static uint32_t object(struct make *m, const char *path, const char *build_id)
{
	struct snap_object row = { .path = string(m, path), .build_id = string(m, build_id) };
	uint32_t id = 0;

	if (path)
		must(snapshot_builder__object(m->builder, &row, &id), "object");
	return id;
}

/* A frame with line information, "FUNCTION at FILE:LINE". */
static uint32_t line(struct make *m, const char *function, const char *filename, uint32_t lineno)
{
	struct snap_frame row = {
		.filename = string(m, filename), .lineno = lineno,
		.function = string(m, function),
		.object = object(m, "/opt/shop/bin/shopd", m->build_id ?: "c0ffee01"),
		.offset = 0x1000 + lineno,
	};
	uint32_t id;

	must(snapshot_builder__frame_declared(m->builder, &row, lineno - lineno % 10 + 1, &id), "frame");
	return id;
}

/* A snapshot without metadata has only its frames' places. */
static uint32_t place(struct make *m, const char *function, const char *path, uint64_t offset)
{
	struct snap_frame row = {
		.filename = string(m, path ?: "<unknown>"), .function = string(m, function),
		.object = object(m, path, NULL), .offset = offset,
	};
	uint32_t id;

	must(snapshot_builder__frame(m->builder, &row, &id), "frame");
	return id;
}

#define TRACEBACK(m, flags, ...) \
	traceback(m, flags, (uint32_t[]){ __VA_ARGS__ }, \
		  sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t))

/* Most recent call first. */
static uint32_t traceback(struct make *m, uint32_t flags, const uint32_t *frame, uint32_t nframe)
{
	uint32_t id;

	must(snapshot_builder__traceback(m->builder, frame, nframe, nframe, flags, &id),
	     "traceback");
	return id;
}

static void blocks(struct make *m, uint32_t traceback, uint64_t size, unsigned int count,
		   uint64_t birth_ns)
{
	static uint64_t address = 0x7f0000000000;

	for (unsigned int i = 0; i < count; i++) {
		struct snap_trace row = {
			.size = size, .traceback = traceback, .birth_ns = birth_ns,
			.address = address += 0x1000, .thread = m->thread ?: 4711,
			.domain = m->domain,
		};

		must(snapshot_builder__trace(m->builder, &row), "trace");
	}
}

static void metadata(struct make *m, const char *key, const char *value)
{
	must(snapshot_builder__metadata(m->builder, key, value), "metadata");
}

static void count(struct make *m, enum snap_counter_kind kind, const char *name, uint64_t value)
{
	must(snapshot_builder__counter(m->builder, kind, name, value), "counter");
}

static void begin(struct make *m, unsigned int columns)
{
	m->builder = snapshot_builder__new(columns);
	must(m->builder ? 0 : -errno, "builder");
}

static void write_file(const struct make *m, const char *name, const void *bytes, size_t len)
{
	char path[4096];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s.snap", m->dir, name);
	out = fopen(path, "wb");
	must(out && fwrite(bytes, 1, len, out) == len && !fclose(out) ? 0 : -errno, path);
}

static void end(struct make *m, const char *name)
{
	void *bytes;
	size_t len;

	must(snapshot_builder__serialize(m->builder, &bytes, &len), name);
	write_file(m, name, bytes, len);
	free(bytes);
	snapshot_builder__free(m->builder);
}

/* The file that end() wrote, compressed, as another one. */
static void pack(struct make *m, const char *name, const char *packed)
{
	struct snapshot_save_options options = { .compress = true };
	struct reason why = { "out of memory" };
	struct snapshot *snapshot;
	char path[4096];
	void *bytes;
	size_t len;

	snprintf(path, sizeof(path), "%s/%s.snap", m->dir, name);
	snapshot = snapshot__open(path, &why);
	must(snapshot ? 0 : -errno, why.text);
	must(snapshot__serialize(snapshot, &options, &bytes, &len), packed);
	write_file(m, packed, bytes, len);
	free(bytes);
	snapshot__close(snapshot);
}

#endif
