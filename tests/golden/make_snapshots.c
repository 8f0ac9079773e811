// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * make_snapshots DIR: the snapshots of the golden tests, the same bytes every time.
 *
 *	old.snap, new.snap	one process, 10 s apart
 *	other.snap		another process, another program, another traceback limit
 *	python.snap		the example of the manual of Python's tracemalloc
 *	many.snap		12 call sites, more than --top shows
 *	cxx.snap		containers, templates and overloads of C++
 *	hostile.snap		names that steer a terminal, that are no UTF-8, that are long
 *	empty.snap		nothing at all
 *	plain.snap		no losses, no births, no metadata
 *	unseen.snap		a process that ended before its functions were probed
 *	mixed.snap		three threads, two domains, sizes and ages from small to large
 *	packed.snap		the same, compressed
 *	pooled.snap, renamed.snap	with an allocator of its own, under two names
 *	buffer.snap, enlarged.snap	one process, whose buffer has become bigger
 *	rss.snap, sparse.snap, afar.snap, rss-hostile.snap	what RSS is made of
 *	pages.snap, pages-zeros.snap	resident pages, also where pages that were only read are among them
 *	pages-ended.snap, pages-unread.snap	pages of a process that had ended, and of one that could not be read
 *	rebuilt.snap		the same program from another build, sampled
 *	sampled-old.snap, sampled.snap	one process, samples of its blocks
 *	sampled-gaps.snap	the same as sampled.snap, with gaps
 *	pools-old.snap, pools.snap	samples are pools of CPython
 *	own-samples-old.snap, own-samples.snap	the process took them itself, in the second at changing intervals
 *	sampled-hostile.snap	samples of impossible weights, impossible costs
 *	gaps.snap		every block, except in gaps
 *	step-1.snap to step-5.snap, rebooted.snap	the wall clock goes back and forward
 *	fleet/			one program on five hosts at three times
 *	fleet-ended/		processes that had ended
 *	leaks/, leaks-gaps/, leaks-quiet/	a server that leaks (make_leaks.h)
 *	damaged.snap, short.snap, text.snap, later.snap	no snapshots
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "make.h"
#include "make_cxx.h"
#include "make_fleet.h"
#include "make_leaks.h"
#include "make_sampled.h"

#define SEC 1000000000ull

/* ---- a shop's server ---------------------------------------------------------------------- */

#define SHOP_BOOT "4be9d1a0-5cbb-4f0b-8a3e-0d1d7d4f2a11"

static void shop_metadata(struct make *m, const char *pid, const char *exe, const char *limit)
{
	metadata(m, "host", "shop-1");
	metadata(m, "boot_id", m->boot_id ?: SHOP_BOOT);
	metadata(m, "pid", pid);
	metadata(m, "start_time_ticks", "8800");
	metadata(m, "comm", "shopd");
	metadata(m, "exe", exe);
	metadata(m, "cmdline", "shopd --port 80");
	metadata(m, "allocsnap_version", "0.1.0");
	metadata(m, "traceback_limit", limit);
	metadata(m, "unwinder", "fp");
	metadata(m, "rss_bytes", "83990938");
	metadata(m, "rss_at_start_bytes", "10485760");
	metadata(m, "end", "running");
}

static void shop_time(struct make *m, const char *wall_ns, const char *monotonic_ns)
{
	metadata(m, "wall_ns", wall_ns);
	metadata(m, "monotonic_ns", monotonic_ns);
}

static void shop_counters(struct make *m, uint64_t allocations)
{
	count(m, SNAP_COUNTED, "allocations", allocations);
	count(m, SNAP_COUNTED, "frees", 1000);
	count(m, SNAP_COUNTED, "unknown_frees", 3);
	count(m, SNAP_COUNTED, "peak_bytes", 70000000);
}

static void shop_probes(struct make *m)
{
	struct snap_probe probes[] = {
		{ .object = object(m, "/usr/lib/libc.so.6", "abcdef"), .offset = 0x98100,
		  .function = string(m, "malloc"), .placement = 4,
		  .instruction = string(m, "push %r12") },
		{ .object = object(m, "/usr/lib/libc.so.6", "abcdef"), .offset = 0x98700,
		  .function = string(m, "free"), .placement = 0 },
	};

	for (size_t i = 0; i < 2; i++)
		must(snapshot_builder__probe(m->builder, &probes[i]), "probe");
}

/* Blocks born at 10 s and 55 s. */
static void shop_blocks(struct make *m, unsigned int carts)
{
	uint32_t root = line(m, "main", "src/main.c", 70);
	uint32_t loop = line(m, "serve", "src/serve.c", 210);
	uint32_t cart = line(m, "cart_new", "src/cart.c", 31);
	uint32_t wrapper = line(m, "xmalloc", "src/xmalloc.c", 9);
	uint32_t allocator = place(m, "malloc", "/usr/lib/libc.so.6", 0x98110);
	uint32_t stripped = place(m, NULL, "/usr/lib/libcrypto.so.3", 0x1a2b3c);
	uint32_t named = place(m, "deflateInit2_", "/usr/lib/libz.so.1", 0x8f0);
	uint32_t jit = place(m, NULL, NULL, 0x7f12345678);
	uint32_t walk = line(m, "walk", "src/tree.c", 12);

	blocks(m, TRACEBACK(m, 0, allocator, wrapper, cart, loop, root), 65536, carts, 10 * SEC);
	blocks(m, TRACEBACK(m, 0, stripped, loop, root), 512, 40, 10 * SEC);
	blocks(m, TRACEBACK(m, 0, named, loop, root), 7160, 2, 10 * SEC);
	blocks(m, TRACEBACK(m, SNAP_TRACEBACK_BROKEN, jit), 33, 2, 10 * SEC);
	blocks(m, TRACEBACK(m, SNAP_TRACEBACK_LIMITED, walk, walk, walk), 24, 100, 10 * SEC);
	blocks(m, 0, 11, 3, 10 * SEC);
}

static void make_shop(struct make *m)
{
	uint32_t gone;

	begin(m, SNAP_WITH_ALL);
	shop_metadata(m, "4711", "/opt/shop/bin/shopd", "64");
	shop_time(m, "1795237200123000000", "50000000000");
	shop_counters(m, 1200);
	count(m, SNAP_LOST, "blocks_dropped", 0);
	count(m, SNAP_LOST, "tracebacks_limited", 100);
	shop_blocks(m, 10);
	gone = TRACEBACK(m, 0, line(m, "warm_up", "src/main.c", 40),
			 line(m, "main", "src/main.c", 66));
	blocks(m, gone, 100, 7, 10 * SEC);
	end(m, "old");

	begin(m, SNAP_WITH_ALL);
	shop_metadata(m, "4711", "/opt/shop/bin/shopd", "64");
	shop_time(m, "1795237210123000000", "60000000000");
	shop_counters(m, 3000);
	count(m, SNAP_LOST, "blocks_dropped", 12);
	count(m, SNAP_LOST, "tracebacks_limited", 100);
	count(m, SNAP_LOST, "loss_of_a_later_version", 1);
	shop_probes(m);
	shop_blocks(m, 1000);
	blocks(m, TRACEBACK(m, 0, line(m, "session_new", "src/session.c", 5),
			    line(m, "main", "src/main.c", 70)), 1, 1, 55 * SEC);
	end(m, "new");

	begin(m, SNAP_WITH_ALL);
	shop_metadata(m, "4712", "/opt/shop/bin/shopd-2", "8");
	metadata(m, "rss_at_start_bytes", "99999999");
	shop_time(m, "1795237190123000000", "40000000000");
	shop_counters(m, 1200);
	shop_blocks(m, 11);
	end(m, "other");
}

/* ---- traces that filters and keys distinguish ------------------------------------------------ */

static void mixed_blocks(struct make *m)
{
	uint32_t root = line(m, "main", "src/main.c", 70);
	uint32_t worker = line(m, "work", "src/work.c", 90);
	uint32_t item = line(m, "item_new", "src/item.c", 12);
	uint32_t allocator = place(m, "malloc", "/usr/lib/libc.so.6", 0x98110);
	uint32_t table = place(m, "g_hash_table_new", "/usr/lib/libglib-2.0.so.0", 0x3a1f0);
	uint32_t pool = line(m, "pool_grow", "src/pool,arena.c", 44);
	uint32_t stripped = place(m, NULL, "/usr/lib/libcrypto.so.3", 0x1a2b3c);

	blocks(m, TRACEBACK(m, 0, allocator, item, root), 100, 3, 10 * SEC);
	m->thread = 4720;
	blocks(m, TRACEBACK(m, 0, allocator, item, worker), 4096, 5, 59 * SEC);
	blocks(m, TRACEBACK(m, 0, allocator, table, worker), 65536, 1, 30 * SEC);
	m->thread = 4721;
	m->domain = 1;
	blocks(m, TRACEBACK(m, 0, pool, worker), 1 << 20, 2, 50 * SEC);
	m->domain = 0;
	blocks(m, TRACEBACK(m, 0, stripped), 7, 2, 60 * SEC);
	blocks(m, 0, 11, 1, 1 * SEC);
	m->thread = 0;
}

static void make_mixed(struct make *m)
{
	begin(m, SNAP_WITH_ALL);
	shop_metadata(m, "4711", "/opt/shop/bin/shopd", "64");
	shop_time(m, "1795237210123000000", "60000000000");
	shop_counters(m, 3000);
	mixed_blocks(m);
	end(m, "mixed");
	pack(m, "mixed", "packed");
}

/* ---- an allocator of the program's own: with libc's, in the order that it was named ------------ */

static void make_pooled(struct make *m, const char *name, const char *domain_name)
{
	begin(m, SNAP_WITH_ALL | SNAP_WITH_PROBE_DOMAIN);
	shop_metadata(m, "4711", "/opt/shop/bin/shopd", "64");
	shop_probes(m);
	must(snapshot_builder__probe_domain(m->builder, 16), "probe domain");
	must(snapshot_builder__domain_name(m->builder, 0, "malloc"), "domain name");
	must(snapshot_builder__domain_name(m->builder, 16, domain_name), "domain name");
	mixed_blocks(m);
	m->domain = 16;
	blocks(m, TRACEBACK(m, 0, line(m, "cart_new", "src/cart.c", 31)), 48, 10, 10 * SEC);
	m->domain = 0;
	end(m, name);
}

/* ---- what a comparison warns of ----------------------------------------------------------- */

/* Taken that many seconds after 05:00 UTC and after the boot. */
struct clocks {
	int wall_s, monotonic_s;
};

static void make_buffer(struct make *m, const char *name, uint64_t size, struct clocks at, const char *sample_bytes)
{
	char wall_ns[32], monotonic_ns[32];

	snprintf(wall_ns, sizeof(wall_ns), "%llu", (1795237200 + at.wall_s) * SEC + 123000000);
	snprintf(monotonic_ns, sizeof(monotonic_ns), "%llu", at.monotonic_s * SEC);
	begin(m, SNAP_WITH_ALL);
	shop_metadata(m, "4711", "/opt/shop/bin/shopd", "64");
	shop_time(m, wall_ns, monotonic_ns);
	if (sample_bytes)
		metadata(m, "sample_bytes", sample_bytes);
	blocks(m, TRACEBACK(m, 0, line(m, "log_append", "src/log.c", 8),
			    line(m, "main", "src/main.c", 70)), size, 3, 10 * SEC);
	end(m, name);
}

static void make_buffers(struct make *m)
{
	make_buffer(m, "buffer", 65536, (struct clocks){ 0, 50 }, NULL);
	make_buffer(m, "enlarged", 4 << 20, (struct clocks){ 10, 60 }, NULL);
	m->build_id = "c0ffee02";
	make_buffer(m, "rebuilt", 4 << 20, (struct clocks){ 10, 60 }, "524288");
	m->build_id = NULL;
}

/* The wall clock goes back by two hours, and forward again. Then another boot, with a clock an hour ahead. */
static void make_steps(struct make *m)
{
	static const struct clocks at[] = { { 0, 100 }, { 60, 160 }, { -7080, 220 }, { -7020, 280 }, { 240, 340 } };
	char name[16];

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		snprintf(name, sizeof(name), "step-%zu", i + 1);
		make_buffer(m, name, (i + 1) << 10, at[i], NULL);
	}
	m->boot_id = "0123abcd-5cbb-4f0b-8a3e-0d1d7d4f2a11";
	make_buffer(m, "rebooted", 6 << 10, (struct clocks){ 3600, 10 }, NULL);
	m->boot_id = NULL;
}

/* ---- the others --------------------------------------------------------------------------- */

/* Python's tracemalloc knows neither functions nor objects. */
static uint32_t python_line(struct make *m, const char *filename, uint32_t lineno)
{
	struct snap_frame row = { .filename = string(m, filename), .lineno = lineno };
	uint32_t id;

	must(snapshot_builder__frame(m->builder, &row, &id), "frame");
	return id;
}

/* Lib/test/test_tracemalloc.py, create_snapshots(): the first of the two. */
static void make_python(struct make *m)
{
	uint32_t a2 = python_line(m, "a.py", 2), b4 = python_line(m, "b.py", 4);
	uint32_t ab = TRACEBACK(m, 0, a2, b4);

	blocks(m, ab, 10, 3, 0);
	blocks(m, TRACEBACK(m, 0, python_line(m, "a.py", 5), b4), 2, 1, 0);
	blocks(m, TRACEBACK(m, 0, python_line(m, "b.py", 1)), 66, 1, 0);
	blocks(m, TRACEBACK(m, 0, place(m, NULL, NULL, 0)), 7, 1, 0);
}

static void make_many(struct make *m)
{
	char function[32];

	for (unsigned int i = 1; i <= 12; i++) {
		snprintf(function, sizeof(function), "site_%u", i);
		blocks(m, TRACEBACK(m, 0, line(m, function, "many.c", i)), 1000 * i, 1, 0);
	}
}

static void make_hostile(struct make *m)
{
	static char long_name[10001], cmdline[600];
	uint32_t root = line(m, "main", "src/\xff\xfe.c", 1);

	memset(long_name, 'x', sizeof(long_name) - 1);
	metadata(m, "comm", "\033]0;owned\007");
	memcpy(cmdline, long_name, 499);
	strcpy(cmdline + 499, "ü and more");
	metadata(m, "cmdline", cmdline);
	metadata(m, "pid", "12; rm -rf /");
	metadata(m, "label.process.pid", "99");
	metadata(m, "rss_bytes", "99999999999999999999999");
	count(m, SNAP_LOST, "evil\033[31m", UINT64_MAX);
	count(m, SNAP_COUNTED, "peak_bytes", UINT64_MAX);
	blocks(m, TRACEBACK(m, 0, line(m, "\033[2J\033[Hrm;ls\n", "a\r\nb.c", 2), root), 300, 1, 0);
	blocks(m, TRACEBACK(m, 0, line(m, long_name, "long.c", 3), root), 200, 1, 0);
	blocks(m, TRACEBACK(m, 0, line(m, "größe<\"\\>::λ", "ü;.c", UINT32_MAX), root), 100, 1,
	       0);
	blocks(m, TRACEBACK(m, 0, place(m, "\xc2\x9b" "31m%s%n", "/tmp/\xe2\x82 (deleted)",
				      UINT64_MAX)), 50, 1, 0);
}

/* ---- what RSS is made of ------------------------------------------------------------------- */

static void resident(struct make *m, const char *heap, const char *files, uint32_t block_nr)
{
	metadata(m, "rss_at_start_bytes", "10485760");
	metadata(m, "rss_heap_bytes", heap);
	metadata(m, "rss_files_bytes", files);
	blocks(m, TRACEBACK(m, 0, line(m, "main", "main.c", 1)), 1 << 20, block_nr, 0);
}

/* 60 of 300 MiB are traced. */
static void make_rss(struct make *m)
{
	resident(m, "262144000", "41943040", 60);
	metadata(m, "rss_shared_bytes", "1048576");
	metadata(m, "rss_stacks_bytes", "524288");
	metadata(m, "rss_other_bytes", "8912896");
	metadata(m, "rss_huge_bytes", "209715200");
	metadata(m, "rss_swap_bytes", "4096");
	metadata(m, "rss_monotonic_ns", "1000000000");
	metadata(m, "monotonic_ns", "3500000000");
}

/* More memory is traced than is resident. */
static void make_sparse(struct make *m)
{
	resident(m, "1048576", "4096", 3);
}

static void make_afar(struct make *m)
{
	metadata(m, "rss_at_start_bytes", "10485760");
	metadata(m, "rss_files_bytes", "4096");
	metadata(m, "rss_shared_bytes", "0");
	metadata(m, "rss_anonymous_bytes", "2097152");
	blocks(m, TRACEBACK(m, 0, line(m, "main", "main.c", 1)), 1 << 20, 1, 0);
}

static void make_rss_hostile(struct make *m)
{
	resident(m, "18446744073709551615", "18446744073709551615", 1);
	metadata(m, "rss_shared_bytes", "-1");
	metadata(m, "rss_stacks_bytes", "\033[2J");
	metadata(m, "rss_monotonic_ns", "18446744073709551615");
}

static void page_blocks(struct make *m, const char *way)
{
	uint32_t root = line(m, "main", "src/main.c", 70), cart = line(m, "cart_new", "src/cart.c", 31);

	metadata(m, "pages_by", way);
	must(snapshot_builder__domain_name(m->builder, 9, "pages"), "domain name");
	m->domain = 9;
	blocks(m, TRACEBACK(m, 0, cart, root), 1 << 20, 40, 10 * SEC);
	blocks(m, TRACEBACK(m, 0, root), 4096, 300, 20 * SEC);
	m->domain = 0;
}

/* 41.2 of 50 MiB are traced. */
static void pages_of_scan(struct make *m, const char *scan, const char *way)
{
	static const char *const number[][2] = {
		{ "rss_anon", "46137344" }, { "traced", "43171840" }, { "older", "2097152" }, { "by_kernel", "4096" },
		{ "unattributed", "864256" }, { "spread", "2093056" }, { "huge", "4194304" }, { "swapped", "8192" },
		{ "zero", "1024000" }, { "rss_files", "5242880" }, { "rss_shared", "1048576" },
	};

	shop_metadata(m, "4711", "/opt/shop/bin/shopd", "64");
	metadata(m, "pages_scan", scan);
	for (size_t i = 0; i < sizeof(number) / sizeof(*number); i++) {
		char key[64];

		snprintf(key, sizeof(key), "pages_%s_bytes", number[i][0]);
		metadata(m, key, number[i][1]);
	}
	page_blocks(m, way);
}

static void make_pages(struct make *m)
{
	pages_of_scan(m, "exact", "faults");
}

static void make_pages_zeros(struct make *m)
{
	pages_of_scan(m, "with zeros", "rmap");
}

static void pages_without_scan(struct make *m, const char *scan)
{
	shop_metadata(m, "4711", "/opt/shop/bin/shopd", "64");
	metadata(m, "pages_scan", scan);
	page_blocks(m, "faults");
}

static void make_pages_ended(struct make *m)
{
	pages_without_scan(m, "none");
}

static void make_pages_unread(struct make *m)
{
	pages_without_scan(m, "unread");
}

static void make_plain(struct make *m)
{
	blocks(m, TRACEBACK(m, 0, line(m, "main", "plain.c", 1)), 0, 1, 0);
}

static void make_unseen(struct make *m)
{
	metadata(m, "host", "shop-1");
	metadata(m, "pid", "4713");
	metadata(m, "comm", "psql");
	metadata(m, "end", "exited 0");
	shop_time(m, "1795237200000000000", "110000000000");
	count(m, SNAP_COUNTED, "allocations", 0);
	count(m, SNAP_LOST, "functions_late", 12);
}

#include "make_names.h"

static void make_one(struct make *m, const char *name, void (*fill)(struct make *m))
{
	begin(m, 0);
	if (fill)
		fill(m);
	end(m, name);
}

/* Names that pprof takes for C++, a file without a line, and a line without a function. */
static void make_brackets(struct make *m)
{
	static const char *const name[] = {
		"<module>", "<lambda>", "Cart.add.<locals>.<listcomp>", "<shop::Cart as core::ops::drop::Drop>::drop",
		"<shop::Bill as core::ops::drop::Drop>::drop", "(anonymous namespace)::load(int)", "operator<",
	};
	struct snap_frame nameless = { .filename = string(m, "tpl/page.html"), .lineno = 12 };
	uint32_t lineless = python_line(m, "tpl/list.html", 0), id;

	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		blocks(m, TRACEBACK(m, 0, line(m, name[i], "src/app.py", 10)), 100 + i, 1, 0);
	must(snapshot_builder__frame(m->builder, &nameless, &id), "frame");
	blocks(m, TRACEBACK(m, 0, id, line(m, "render", "src/app.py", 20)), 200, 1, 0);
	blocks(m, TRACEBACK(m, 0, lineless, line(m, "render", "src/app.py", 20)), 201, 1, 0);
	blocks(m, traceback(m, 0, NULL, 0), 202, 1, 0);
}

/* Files that are refused: a changed byte, a file cut short, no magic, and a version of the future. */
static void make_damaged(struct make *m)
{
	unsigned char *bytes;
	uint32_t version = SNAP_VERSION + 1;
	size_t len;

	begin(m, 0);
	make_many(m);
	must(snapshot_builder__serialize(m->builder, (void **)&bytes, &len), "damaged");
	snapshot_builder__free(m->builder);
	write_file(m, "short", bytes, len - 100);
	bytes[len - 3] ^= 1;
	write_file(m, "damaged", bytes, len);
	memcpy(bytes + offsetof(struct snap_header, version), &version, sizeof(version));
	write_file(m, "later", bytes, len);
	free(bytes);
	write_file(m, "text", "hello\n", 6);
}

int main(int argc, char **argv)
{
	struct make make = { .dir = argv[1] };

	if (argc != 2) {
		fprintf(stderr, "usage: make_snapshots DIR\n");
		return 2;
	}
	make_shop(&make);
	make_mixed(&make);
	make_pooled(&make, "pooled", "pool");
	make_pooled(&make, "renamed", "carts");
	make_buffers(&make);
	make_steps(&make);
	make_one(&make, "python", make_python);
	make_one(&make, "many", make_many);
	make_one(&make, "cxx", make_cxx);
	make_one(&make, "brackets", make_brackets);
	make_one(&make, "hostile", make_hostile);
	make_one(&make, "plain", make_plain);
	make_one(&make, "unseen", make_unseen);
	make_one(&make, "empty", NULL);
	make_damaged(&make);
	make_one(&make, "rss", make_rss);
	make_one(&make, "sparse", make_sparse);
	make_one(&make, "pages", make_pages);
	make_one(&make, "pages-ended", make_pages_ended);
	make_one(&make, "pages-zeros", make_pages_zeros);
	make_one(&make, "pages-unread", make_pages_unread);
	make_one(&make, "afar", make_afar);
	make_one(&make, "rss-hostile", make_rss_hostile);
	make_sampled_old(&make);
	make_sampled(&make, false);
	make_sampled(&make, true);
	make_pools(&make, "50000000000", 4, "pools-old");
	make_pools(&make, "60000000000", 20, "pools");
	make_started(&make, "0", "0", "started");
	make_started(&make, "4751", "377856", "started-late");
	make_started(&make, NULL, NULL, "started-malloc");
	make_own_samples(&make, "50000000000", "65536", NULL, "own-samples-old");
	make_own_samples(&make, "60000000000", "131072", "262144", "own-samples");
	make_sampled_hostile(&make);
	make_gaps(&make);
	make_named(&make);
	make_nameless(&make);
	make_otherwise(&make);
	make_fleet(&make);
	make_fleet_ended(&make);
	make_leaks(&make);
	make_strangers(&make);
	return 0;
}
