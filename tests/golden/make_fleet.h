/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_GOLDEN_MAKE_FLEET_H
#define ALLOCSNAP_GOLDEN_MAKE_FLEET_H

/*
 * fleet/HOST-TIME.snap: shopd on five hosts at three times. Version 1.4, which is on the last three, leaks carts; the
 * second host has a large cache; the last one records samples. And three files that are not indexed.
 */

#include <sys/stat.h>

#include "make.h"

#define FLEET_SECOND_NS 1000000000ull

static void fleet_metadata(struct make *m, unsigned int host, unsigned int at)
{
	char text[64];

	snprintf(text, sizeof(text), "web-%u", host);
	metadata(m, "host", text);
	snprintf(text, sizeof(text), "4be9d1a0-5cbb-4f0b-8a3e-0d1d7d4f2a%02u", host);
	metadata(m, "boot_id", text);
	metadata(m, "pid", "4711");
	metadata(m, "start_time_ticks", "8800");
	metadata(m, "comm", "shopd");
	metadata(m, "exe", "/opt/shop/bin/shopd");
	metadata(m, "traceback_limit", host == 1 ? "8" : "64");
	snprintf(text, sizeof(text), "%llu", (1795237200ull + 3600 * at + host) * FLEET_SECOND_NS);
	metadata(m, "wall_ns", text);
	metadata(m, "label.version", host <= 2 ? "1.3" : "1.4");
}

static void fleet_blocks(struct make *m, unsigned int nr, uint32_t traceback, uint64_t size, double weight)
{
	for (unsigned int i = 0; i < nr; i++) {
		struct snap_trace row = { .size = size, .traceback = traceback, .weight = weight };

		must(snapshot_builder__trace(m->builder, &row), "trace");
	}
}

static void make_web(struct make *m, unsigned int host, unsigned int at)
{
	bool is_sampled = host == 5, is_new = host > 2;
	uint32_t root, cart, cache;
	char name[64];

	begin(m, is_sampled ? SNAP_WITH_WEIGHT | SNAP_WITH_DOMAIN : SNAP_WITH_DOMAIN);
	m->build_id = is_new ? "c0ffee14" : "c0ffee13";
	fleet_metadata(m, host, at);
	if (is_sampled)
		metadata(m, "sample_bytes", "524288");
	count(m, SNAP_LOST, "blocks_dropped", host == 3 ? 5 : 0);
	root = line(m, "main", "/build/shop/src/main.c", 70);
	cart = TRACEBACK(m, 0, place(m, "malloc", "/usr/lib/libc.so.6", 0x98110),
			 line(m, "cart_new", "/build/shop/src/cart.c", is_new ? 33 : 31), root);
	cache = TRACEBACK(m, 0, line(m, "cache_page", "/build/shop/src/cache.c", 9), root);
	fleet_blocks(m, is_new ? 20 + 30 * at + host : 20 + host, cart, 65536, is_sampled ? 8.5 : 0);
	fleet_blocks(m, host == 2 ? 400 : 10 + host % 2, cache, 4096, is_sampled ? 2 : 0);
	snprintf(name, sizeof(name), "fleet/web-%u-%u", host, at);
	end(m, name);
	m->build_id = NULL;
}

/* Again, under another name; changed; and no snapshot. */
static void make_not_indexed(struct make *m)
{
	char path[4096], bytes[65536];
	size_t len;
	FILE *in;

	snprintf(path, sizeof(path), "%s/fleet/web-1-0.snap", m->dir);
	in = fopen(path, "rb");
	must(in ? 0 : -errno, path);
	len = fread(bytes, 1, sizeof(bytes), in);
	fclose(in);
	write_file(m, "fleet/z-again", bytes, len);
	bytes[len - 3] ^= 1;
	write_file(m, "fleet/z-damaged", bytes, len);
	write_file(m, "fleet/z-text", "hello\n", 6);
}

static void make_fleet(struct make *m)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/fleet", m->dir);
	must(mkdir(path, 0777) ? -errno : 0, path);
	for (unsigned int host = 1; host <= 5; host++)
		for (unsigned int at = 0; at < 3; at++)
			make_web(m, host, at);
	make_not_indexed(m);
}

/* strangers/PROCESS-TIME.snap: processes of a later version, whose losses have unknown names. */
static void make_stranger(struct make *m, unsigned int process, unsigned int at)
{
	char text[64];

	begin(m, SNAP_WITH_DOMAIN);
	metadata(m, "host", "web-1");
	snprintf(text, sizeof(text), "%u", process);
	metadata(m, "pid", text);
	snprintf(text, sizeof(text), "%llu", (1795237200ull + at) * FLEET_SECOND_NS);
	metadata(m, "wall_ns", text);
	for (unsigned int i = 0; i < 30; i++) {
		snprintf(text, sizeof(text), "strange_%u_%u", process, i);
		count(m, SNAP_LOST, text, 1 + at);
	}
	if (process == 4)
		count(m, SNAP_LOST, "blocks_dropped", 5);
	fleet_blocks(m, 1, TRACEBACK(m, 0, line(m, "main", "/build/shop/src/main.c", 70)), 100, 0);
	snprintf(text, sizeof(text), "strangers/%u-%u", process, at);
	end(m, text);
}

static void make_strangers(struct make *m)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/strangers", m->dir);
	must(mkdir(path, 0777) ? -errno : 0, path);
	for (unsigned int process = 1; process <= 4; process++)
		for (unsigned int at = 0; at < 2; at++)
			make_stranger(m, process, at);
}

#endif
