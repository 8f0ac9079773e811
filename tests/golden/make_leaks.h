/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_GOLDEN_MAKE_LEAKS_H
#define ALLOCSNAP_GOLDEN_MAKE_LEAKS_H

/*
 * leaks/TIME.snap: a server for 60 s, with a snapshot every 5 s, that has one line of each verdict. leaks-gaps/: the
 * same with gaps. leaks-quiet/: without what leaks. leaks-one.snap: the last one of leaks/. leaks-full.snap: the same,
 * but many blocks were dropped. leaks-fleet/HOST/: the same server on five hosts; it leaks on two of them, has gaps on
 * the third and too few snapshots on the fourth, and does not leak on the last. leaks-python/ and leaks-java/: code of
 * a runtime calls what leaks.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "make.h"

#define LEAKS_SECOND_NS UINT64_C(1000000000)
#define LEAKS_BEGIN_NS (100 * LEAKS_SECOND_NS)

struct leaks_moment {
	struct make *m;
	double now;	/* seconds after the beginning */
	uint32_t root;
};

/* A block of the site that is live now. */
static void leaks_block(const struct leaks_moment *moment, uint32_t site, uint64_t size, double born, double dies)
{
	if (born <= moment->now && moment->now < dies)
		blocks(moment->m, site, size, 1, LEAKS_BEGIN_NS + (uint64_t)(born * 1e9));
}

/* One block every `every` seconds from `from` to `to`, each freed after `life`. */
static void leaks_flow(const struct leaks_moment *moment, uint32_t site, uint64_t size, double from, double to,
		       double every, double life)
{
	for (unsigned int i = 0; from + i * every < to; i++)
		leaks_block(moment, site, size, from + i * every, from + i * every + life);
}

static void leaks_churn(const struct leaks_moment *moment, uint32_t site, double a_second)
{
	const struct snap_churn churn = { .allocations = a_second * moment->now };

	must(snapshot_builder__churn(moment->m->builder, site, &churn), "churn");
}

static uint32_t leaks_site(const struct leaks_moment *moment, const char *function, uint32_t lineno)
{
	return TRACEBACK(moment->m, 0, place(moment->m, "malloc", "/usr/lib/libc.so.6", 0x98110),
			 line(moment->m, function, "src/server.c", lineno), moment->root);
}

#define FOR_EVER 1e9

static void leaks_innocent(const struct leaks_moment *moment)
{
	uint32_t table = leaks_site(moment, "grow_table", 90);
	double born = 0;

	leaks_flow(moment, leaks_site(moment, "warm_up", 10), 1500, 0, 12, 0.05, FOR_EVER);
	leaks_flow(moment, leaks_site(moment, "new_session", 20), 2048, 0.01, 60, 0.1, 12);
	leaks_flow(moment, leaks_site(moment, "read_settings", 30), 100, 0.5, 1, 0.3, FOR_EVER);
	leaks_flow(moment, leaks_site(moment, "plugin_begins", 40), 64, 53, 60, 0.1, FOR_EVER);
	for (uint64_t size = 4096; born < 60; born += 9, size *= 2)
		leaks_block(moment, table, size, born, born + 9 < 60 ? born + 9 : FOR_EVER);
}

static void leaks_guilty(const struct leaks_moment *moment)
{
	struct make *m = moment->m;
	uint32_t name = line(m, "copy_name", "src/name.c", 31), parse = line(m, "parse_order", "src/order.c", 70);
	uint32_t by_order = TRACEBACK(m, 0, name, parse, moment->root);
	uint32_t by_user = TRACEBACK(m, 0, name, line(m, "log_in", "src/user.c", 12), moment->root);
	uint32_t order = TRACEBACK(m, 0, line(m, "order_new", "src/order.c", 20), parse, moment->root);
	uint32_t item = TRACEBACK(m, 0, line(m, "item_new", "src/order.c", 30), parse, moment->root);
	uint32_t request = leaks_site(moment, "new_request", 50), few[3];

	leaks_flow(moment, by_order, 200, 0.3, 60, 0.25, FOR_EVER);
	leaks_flow(moment, by_user, 100, 33, 60, 0.5, FOR_EVER);
	leaks_flow(moment, order, 320, 0.12, 60, 0.7, FOR_EVER);
	leaks_flow(moment, item, 64, 0.13, 60, 0.7, FOR_EVER);
	leaks_flow(moment, request, 4096, 0.01, 60, 1, FOR_EVER); /* one in 80 */
	leaks_churn(moment, request, 80);
	leaks_flow(moment, leaks_site(moment, "new_segment", 60), 262144, 2, 60, 7, FOR_EVER);
	for (int i = 0; i < 3; i++) {
		few[i] = TRACEBACK(m, 0, line(m, "remember", "src/server.c", 80),
				   line(m, "handler", "src/server.c", 100 + i), moment->root);
		for (int k = 0; k < 2; k++)
			leaks_block(moment, few[i], 48, 3 + 28 * k + 4 * i, FOR_EVER);
	}
}

/* One recording of the server. */
struct leaks_recording {
	const char *host;
	bool has_leaks;
	bool has_gaps; /* nothing was recorded from 10 to 11 s, and from 30 to 31 s */
	uint64_t dropped;
	bool by_pools, by_pages;
	const char *python_frames; /* of Python, without the lines of free lists */
	double rss_until; /* RSS is not read any more then; 0: it is */
	double rough_from; /* from then on, changed pages of files do not count as pages of files; 0: never */
	const char *unrecorded; /* RSS grows fast without leaks; what the recorder says of the rest, or "" */
};

static void leaks_metadata(struct make *m, const char *host, double now, double rss_per_s)
{
	char text[32];

	metadata(m, "host", host);
	metadata(m, "pid", "4712");
	metadata(m, "comm", "server");
	metadata(m, "start_time_ticks", "8801");
	metadata(m, "recording_start_monotonic_ns", "100000000000");
	snprintf(text, sizeof(text), "%" PRIu64, LEAKS_BEGIN_NS + (uint64_t)(now * 1e9));
	metadata(m, "monotonic_ns", text);
	snprintf(text, sizeof(text), "%" PRIu64, 1795237200 * LEAKS_SECOND_NS + (uint64_t)(now * 1e9));
	metadata(m, "wall_ns", text);
	snprintf(text, sizeof(text), "%" PRIu64, (uint64_t)(20000000 + rss_per_s * now));
	metadata(m, "rss_bytes", text);
}

static void leaks_metadata_rss_time(struct make *m, double at)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, LEAKS_BEGIN_NS + (uint64_t)(at * 1e9));
	metadata(m, "rss_monotonic_ns", text);
}

static void make_leaks_moment(struct make *m, double now, const struct leaks_recording *recording, const char *name)
{
	struct leaks_moment moment = { .m = m, .now = now };

	begin(m, SNAP_WITH_ALL | SNAP_WITH_CHURN);
	leaks_metadata(m, recording->host, now, recording->has_leaks || recording->unrecorded ? 70000 : 15000);
	if (recording->unrecorded && *recording->unrecorded)
		metadata(m, "unrecorded", recording->unrecorded);
	if (recording->by_pages)
		metadata(m, "pages_by", "faults");
	if (recording->by_pools)
		metadata(m, "sampler_kind", "pools");
	if (recording->python_frames)
		metadata(m, "python_frames", recording->python_frames);
	if (recording->rss_until)
		leaks_metadata_rss_time(m, now < recording->rss_until ? now : recording->rss_until);
	if (recording->rough_from)
		metadata(m, "rss_files_bytes", now < recording->rough_from ? "14000000" : "4000000");
	if (recording->rough_from && now >= recording->rough_from)
		metadata(m, "rss_anonymous_bytes", "10000000");
	count(m, SNAP_COUNTED, "allocations", 100 * now);
	count(m, SNAP_LOST, "blocks_dropped", recording->dropped);
	for (int at = 10; at <= 30 && recording->has_gaps; at += 20)
		if (now > at + 1)
			must(snapshot_builder__gap(m->builder, LEAKS_BEGIN_NS + at * LEAKS_SECOND_NS,
						   LEAKS_BEGIN_NS + (at + 1) * LEAKS_SECOND_NS), "gap");
	moment.root = line(m, "main", "src/main.c", 70);
	leaks_innocent(&moment);
	if (recording->has_leaks)
		leaks_guilty(&moment);
	end(m, name);
}

static void make_leaks_folder(struct make *m, const char *folder, const struct leaks_recording *recording, int nr)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", m->dir, folder);
	must(mkdir(path, 0700) && errno != EEXIST ? -errno : 0, path);
	for (int k = 1; k <= nr; k++) {
		snprintf(path, sizeof(path), "%s/%02d", folder, k);
		make_leaks_moment(m, 5 * k, recording, path);
	}
}

static void make_leaks_fleet(struct make *m)
{
	static const struct leaks_recording recording[] = {
		{ "shop-1", .has_leaks = true }, { "shop-2", .has_leaks = true },
		{ "shop-3", .has_leaks = true, .has_gaps = true }, { "shop-4", .has_leaks = true }, { "shop-5" },
	};
	char path[4096];

	snprintf(path, sizeof(path), "%s/leaks-fleet", m->dir);
	must(mkdir(path, 0700) && errno != EEXIST ? -errno : 0, path);
	for (int i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "leaks-fleet/%s", recording[i].host);
		make_leaks_folder(m, path, &recording[i], i == 3 ? 2 : i == 1 ? 10 : 12);
	}
}

/* leaks-kinds/HOST/: growth out of sight on four hosts, on two of them of one kind; a leak on the fifth. */
static void make_leaks_kinds(struct make *m)
{
	static const struct leaks_recording recording[] = {
		{ "shop-1", .unrecorded = "Go's heap (net/http/pprof)" }, { "shop-2", .unrecorded = "" },
		{ "shop-3", .unrecorded = "Go's heap (net/http/pprof)" }, { "shop-4", .unrecorded = "JavaScript's heap" },
		{ "shop-5", .has_leaks = true },
	};
	char path[4096];

	snprintf(path, sizeof(path), "%s/leaks-kinds", m->dir);
	must(mkdir(path, 0700) && errno != EEXIST ? -errno : 0, path);
	for (int i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "leaks-kinds/%s", recording[i].host);
		make_leaks_folder(m, path, &recording[i], 12);
	}
}

/* A function of a file leaks, called by another one. */
struct leaks_runtime {
	const char *folder, *function, *object, *caller, *caller_object;
};

static void make_leaks_runtime(struct make *m, const struct leaks_runtime *runtime)
{
	struct leaks_moment moment = { .m = m };
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", m->dir, runtime->folder);
	must(mkdir(path, 0700) && errno != EEXIST ? -errno : 0, path);
	for (int k = 1; k <= 12; k++) {
		uint32_t site;

		begin(m, SNAP_WITH_ALL | SNAP_WITH_CHURN);
		moment.now = 5 * k;
		leaks_metadata(m, "shop-1", moment.now, 70000);
		count(m, SNAP_COUNTED, "allocations", 100 * moment.now);
		site = TRACEBACK(m, 0, place(m, "malloc", "/usr/lib/libc.so.6", 0x98110),
				 place(m, runtime->function, runtime->object, 0x4100),
				 place(m, runtime->caller, runtime->caller_object, 0x5200));
		leaks_flow(&moment, site, 4096, 0.01, 60, 1, FOR_EVER);
		leaks_churn(&moment, site, 1);
		snprintf(path, sizeof(path), "%s/%02d", runtime->folder, k);
		end(m, path);
	}
}

static void make_leaks_runtimes(struct make *m)
{
	static const struct leaks_runtime runtime[] = {
		{ "leaks-python", "_PyBytes_FromSize", "/usr/bin/python3.11", "_PyEval_EvalFrameDefault", "/usr/bin/python3.11" },
		{ "leaks-java", "deflateInit2_", "/usr/lib/libz.so.1", "Java_java_util_zip_Deflater_init",
		  "/usr/lib/jvm/java-17-openjdk-amd64/lib/libzip.so" },
		{ "leaks-stripped", NULL, "/opt/shop/bin/stripped", NULL, "/opt/shop/bin/stripped" },
	};

	make_leaks_runtime(m, &runtime[0]);
	make_leaks_runtime(m, &runtime[1]);
	make_leaks_runtime(m, &runtime[2]);
}

static void make_leaks(struct make *m)
{
	const struct leaks_recording leaks = { "shop-1", .has_leaks = true }, quiet = { "shop-1" };
	const struct leaks_recording gaps = { "shop-1", .has_leaks = true, .has_gaps = true };
	const struct leaks_recording full = { "shop-1", .has_leaks = true, .dropped = 400 };
	const struct leaks_recording pools = { "shop-1", .has_leaks = true, .by_pools = true };
	const struct leaks_recording pages = { "shop-1", .has_leaks = true, .by_pages = true };
	const struct leaks_recording first_lines = { "shop-1", .has_leaks = true, .python_frames = "python" };
	const struct leaks_recording untraced = { "shop-1", .unrecorded = "" };
	const struct leaks_recording go = { "shop-1", .unrecorded = "Go's heap (net/http/pprof)" };
	const struct leaks_recording ended = { "shop-1", .has_leaks = true, .rss_until = 40 };
	const struct leaks_recording rough = { "shop-1", .has_leaks = true, .rough_from = 30 };
	const struct leaks_recording go_ended = { "shop-1", .unrecorded = "Go's heap (net/http/pprof)", .rss_until = 40 };

	make_leaks_folder(m, "leaks", &leaks, 12);
	make_leaks_folder(m, "leaks-pools", &pools, 12);
	make_leaks_folder(m, "leaks-pages", &pages, 12);
	make_leaks_folder(m, "leaks-free-lists", &first_lines, 12);
	make_leaks_folder(m, "leaks-ended", &ended, 12);
	make_leaks_folder(m, "leaks-go-ended", &go_ended, 12);
	make_leaks_folder(m, "leaks-rough", &rough, 12);
	make_leaks_folder(m, "leaks-gaps", &gaps, 12);
	make_leaks_folder(m, "leaks-quiet", &quiet, 12);
	make_leaks_folder(m, "leaks-untraced", &untraced, 12);
	make_leaks_folder(m, "leaks-go", &go, 12);
	make_leaks_moment(m, 60, &leaks, "leaks-one");
	make_leaks_moment(m, 60, &full, "leaks-full");
	make_leaks_fleet(m);
	make_leaks_kinds(m);
	make_leaks_runtimes(m);
}

#endif
