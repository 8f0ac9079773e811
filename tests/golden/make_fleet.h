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

/*
 * fleet-ended/HOST-NUMBER.snap: five runs of a job on batch-1, one recorded after the other; workers of web-1, one of
 * which exited, one was replaced by exec, and one was not seen again; a host that was started again; one whose process
 * was killed.
 */
static const struct fleet_run {
	const char *host, *boot, *pid, *exec_count, *monotonic_s, *recording_s, *trigger, *end;
	unsigned int mib;
} fleet_run[] = {
	{ "batch-1", "b1", "21", "0", "103", "100", "duration", "running", 10 },
	{ "batch-1", "b1", "22", "0", "108", "105", "duration", "running", 10 },
	{ "batch-1", "b1", "23", "0", "113", "110", "duration", "running", 10 },
	{ "batch-1", "b1", "24", "0", "118", "115", "duration", "running", 10 },
	{ "batch-1", "b1", "25", "0", "123", "120", "duration", "running", 10 },
	{ "web-1", "b2", "31", "0", "160", "100", "interval", "running", 1 },
	{ "web-1", "b2", "31", "0", "220", "100", "interval", "running", 2 },
	{ "web-1", "b2", "32", "0", "170", "100", "end", "exited 0", 4 },
	{ "web-1", "b2", "33", "0", "160", "100", "interval", "running", 8 },
	{ "web-1", "b2", "33", "1", "220", "100", "interval", "running", 16 },
	{ "web-1", "b2", "34", "0", "199", "100", "interval", "running", 32 },
	{ "web-2", "b3", "41", "0", "199", "100", "interval", "running", 64 },
	{ "web-2", "b4", "42", "0", "60", "0", "interval", "running", 3 },
	{ "db-1", "b5", "51", "0", "60", "0", "end", "killed by signal 9", 128 },
};

static void make_run(struct make *m, const struct fleet_run *run, unsigned int nr)
{
	char text[64];

	begin(m, SNAP_WITH_DOMAIN);
	metadata(m, "host", run->host);
	metadata(m, "boot_id", run->boot);
	metadata(m, "pid", run->pid);
	metadata(m, "start_time_ticks", "8800");
	metadata(m, "exec_count", run->exec_count);
	metadata(m, "comm", "job");
	snprintf(text, sizeof(text), "%s000000000", run->monotonic_s);
	metadata(m, "monotonic_ns", text);
	snprintf(text, sizeof(text), "%s000000000", run->recording_s);
	metadata(m, "recording_start_monotonic_ns", text);
	metadata(m, "interval_ns", "10000000000");
	metadata(m, "trigger", run->trigger);
	metadata(m, "end", run->end);
	/* web-2 has been started again within an hour. */
	snprintf(text, sizeof(text), "%llu", (1795237200ull + atoi(run->monotonic_s) + (strcmp(run->boot, "b4") ? 0 : 3600)) *
		 FLEET_SECOND_NS);
	metadata(m, "wall_ns", text);
	fleet_blocks(m, 1, TRACEBACK(m, 0, line(m, "step", "/build/job/src/job.c", 4)), run->mib << 20, 0);
	snprintf(text, sizeof(text), "fleet-ended/%s-%u", run->host, nr);
	end(m, text);
}

static void make_fleet_ended(struct make *m)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/fleet-ended", m->dir);
	must(mkdir(path, 0777) ? -errno : 0, path);
	for (unsigned int i = 0; i < sizeof(fleet_run) / sizeof(*fleet_run); i++)
		make_run(m, &fleet_run[i], i);
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
