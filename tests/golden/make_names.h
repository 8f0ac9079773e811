/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_GOLDEN_MAKE_NAMES_H
#define ALLOCSNAP_GOLDEN_MAKE_NAMES_H

/* One process with and without names, and the same again recorded in another way. Included by make_snapshots.c. */

/* The frame that line() makes, without names. */
static uint32_t nameless_line(struct make *m, uint32_t lineno)
{
	struct snap_frame row = {
		.filename = string(m, "/opt/shop/bin/shopd"), .offset = 0x1000 + lineno,
		.object = object(m, "/opt/shop/bin/shopd", "c0ffee01"),
	};
	uint32_t id;

	must(snapshot_builder__frame(m->builder, &row, &id), "frame");
	return id;
}

/* A call that was inlined at the place of a line. */
static uint32_t inlined_line(struct make *m, const char *function, const char *filename, uint32_t lineno, uint32_t at)
{
	struct snap_frame row = {
		.filename = string(m, filename), .lineno = lineno, .function = string(m, function),
		.object = object(m, "/opt/shop/bin/shopd", "c0ffee01"), .offset = 0x1000 + at,
		.flags = SNAP_FRAME_INLINE,
	};
	uint32_t id;

	must(snapshot_builder__frame(m->builder, &row, &id), "frame");
	return id;
}

static void begin_recording(struct make *m, const char *unwinder, const char *start_ns)
{
	struct snap_probe probe = { .object = object(m, "/usr/lib/libc.so.6", NULL), .function = string(m, "malloc") };

	shop_metadata(m, "4711", "/opt/shop/bin/shopd", "64");
	shop_time(m, "1795237210123000000", "60000000000");
	metadata(m, "unwinder", unwinder);
	metadata(m, "machine", strcmp(unwinder, "fp") ? "x86_64" : "aarch64");
	metadata(m, "recording_start_monotonic_ns", start_ns);
	must(snapshot_builder__probe(m->builder, &probe), "probe");
	must(snapshot_builder__probe_domain(m->builder, 0), "probe domain");
}

static void make_named(struct make *m)
{
	begin(m, SNAP_WITH_ALL | SNAP_WITH_PROBE_DOMAIN | SNAP_WITH_FIRST_LINE);
	begin_recording(m, "dwarf", "1000000000");
	blocks(m, TRACEBACK(m, 0, inlined_line(m, "string_new", "src/string.h", 9, 31),
			    line(m, "cart_new", "src/cart.c", 31), line(m, "main", "src/main.c", 70)), 100, 4, 10 * SEC);
	end(m, "with-names");
}

static void make_nameless(struct make *m)
{
	begin(m, SNAP_WITH_ALL | SNAP_WITH_PROBE_DOMAIN);
	begin_recording(m, "dwarf", "1000000000");
	blocks(m, TRACEBACK(m, 0, nameless_line(m, 31), nameless_line(m, 70)), 100, 6, 10 * SEC);
	blocks(m, TRACEBACK(m, 0, nameless_line(m, 44), nameless_line(m, 70)), 7, 1, 10 * SEC);
	end(m, "without-names");
}

/* Mappings are recorded, too, and tracebacks are made by frame pointers. */
static void make_otherwise(struct make *m)
{
	struct snap_probe probe = { .function = 0 };

	begin(m, SNAP_WITH_ALL | SNAP_WITH_PROBE_DOMAIN | SNAP_WITH_FIRST_LINE);
	begin_recording(m, "fp", "2000000000");
	probe = (struct snap_probe){ .object = object(m, "/usr/lib/libc.so.6", NULL), .function = string(m, "mmap") };
	must(snapshot_builder__probe(m->builder, &probe), "probe");
	must(snapshot_builder__probe_domain(m->builder, 1), "probe domain");
	must(snapshot_builder__domain_name(m->builder, 1, "mmap"), "domain name");
	blocks(m, TRACEBACK(m, 0, line(m, "cart_new", "src/cart.c", 31)), 100, 4, 10 * SEC);
	m->domain = 1;
	blocks(m, TRACEBACK(m, 0, line(m, "pool_grow", "src/pool.c", 44)), 1 << 20, 1, 10 * SEC);
	m->domain = 0;
	end(m, "recorded-otherwise");
}

#endif
