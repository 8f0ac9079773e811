// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES 24
#define LINES_OF_FUNCTION 3
#define LEAK_STEP (2 << 20)
#define OUTLIER_BYTES_MAX (96 << 20)
#define OUTLIER_BYTES_PER_HOST (2 << 20) /* of the fleet's */
#define FIRST_TIME 1790000000ull
#define UPTIME_S 1000 /* of every host, then: its clock was never set */

const struct program programs[PROGRAMS] = {
	{ "redis-server", "/usr/bin/redis-server", "/system.slice/redis.service", "src/redis", "pool" },
	{ "webd", "/srv/web/bin/webd", "/system.slice/web.service", "src/web", "arena" },
	{ "worker", "/srv/queue/worker", "/kubepods/burstable/pod7/worker", "src/queue", NULL },
	/* built in a folder of the version's, which stands in the debug information */
	{ "indexer", "/opt/index/indexer", "/system.slice/index.service", "/build/indexer-%s/src", NULL },
};

const char *const version_name[VERSIONS] = { "A", "B" };

/* The purpose of a random number: no two purposes draw the same numbers. */
enum use {
	FOR_FRAME = 1,
	FOR_FUNCTION_FRAME,
	FOR_BUILD_ID,
	FOR_DEPTH,
	FOR_STACK,
	FOR_WRAPPERS,
	FOR_DOMAIN,
	FOR_SIZE,
	FOR_BLOCKS,
	FOR_BLOCK,
	FOR_SITES,
	FOR_HOST,
	FOR_TIME,
	FOR_OUTLIER,
	FOR_LEAK,
};

uint64_t random_of(uint64_t seed, uint64_t a, uint64_t b)
{
	uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15 + a * 0xd1342543de82ef95 + b * 0xaf251af3b0f025b5;

	for (int i = 0; i < 2; i++) {
		x ^= x >> 32;
		x *= 0xd6e8feb86659fd93;
	}
	return x ^ x >> 32;
}

static uint64_t draw(const struct model *m, enum use use, uint64_t a, uint64_t b)
{
	return random_of(m->options.seed * 64 + use, a, b);
}

/* ---- frames and tracebacks --------------------------------------------------------------------- */

/* One in 16 has no name, two have a name and no line, as without debug information. */
static void make_frame(const struct model *m, uint32_t program, uint32_t version, uint32_t number,
		       struct frame_facts *frame)
{
	const struct program *p = &programs[program];
	uint32_t file = number % FILES, row = number / FILES, kind = draw(m, FOR_FRAME, program, number) % 16;
	char folder[40];

	*frame = (struct frame_facts){ .is_shared = kind == 1 || kind == 2 };
	frame->offset = 0x1000 + 64 * number + (frame->is_shared ? 0 : 16 * version);
	snprintf(frame->module, sizeof(frame->module), "%s", frame->is_shared ? LIBRARY : p->exe);
	if (kind == 0 && number != m->planted % m->frame_nr)
		return;
	snprintf(frame->function, sizeof(frame->function), "%s_%02u_%u",
		 frame->is_shared ? "shared" : p->comm, file, row / LINES_OF_FUNCTION);
	if (frame->is_shared)
		return;
	snprintf(folder, sizeof(folder), p->source, version ? "1.1" : "1.0");
	snprintf(frame->file, sizeof(frame->file), "%s/part_%02u.c", folder, file);
	frame->line = 20 + 9 * row + (version && file % 4 == 0 ? 12 : 0);
	frame->first_line = frame->line - 9 * (row % LINES_OF_FUNCTION) - 3;
}

/* The last two frames make each traceback unique; the older ones are like the branches of a tree. */
struct traceback_facts model_traceback(const struct model *m, uint32_t program, uint32_t number)
{
	uint32_t nr = m->frame_nr, leaf = number % nr;
	struct traceback_facts t = {
		.frame = { leaf, (number / nr + draw(m, FOR_STACK, program, leaf)) % nr },
		.nframe = 6 + draw(m, FOR_DEPTH, program, number >> 1) % (DEPTH_MAX - 6),
		.wrappers = draw(m, FOR_WRAPPERS, program, number) % 3,
	};

	for (uint32_t i = 2; i < t.nframe; i++)
		t.frame[i] = draw(m, FOR_STACK, program * 64 + i, number >> i) % nr;
	return t;
}

static void make_build(struct model *m, uint32_t program, uint32_t version)
{
	struct frame_facts *frame = calloc(m->frame_nr, sizeof(*frame));
	uint64_t id[3];

	must(frame ? 0 : -1, "memory");
	for (uint32_t i = 0; i < m->frame_nr; i++)
		make_frame(m, program, version, i, &frame[i]);
	m->frame[program][version] = frame;
	for (uint32_t i = 0; i < 3; i++)
		id[i] = draw(m, FOR_BUILD_ID, program * VERSIONS + version, i);
	snprintf(m->build_id[program][version], sizeof(m->build_id[0][0]), "%016lx%016lx%08x", id[0], id[1],
		 (uint32_t)id[2]);
}

/* A frame with a line, in a file whose lines do not change, so that both builds have it. */
static uint32_t choose_planted(const struct model *m)
{
	for (uint32_t i = m->frame_nr / 2; i < m->frame_nr; i++) {
		bool fits = i % FILES % 4;

		for (uint32_t program = 0; program < PROGRAMS; program++)
			fits = fits && draw(m, FOR_FRAME, program, i) % 16 > 2;
		if (fits)
			return i;
	}
	must(-1, "too few frames");
	return 0;
}

static bool is_prime(uint32_t number)
{
	for (uint32_t i = 2; i * i <= number; i++)
		if (number % i == 0)
			return false;
	return number > 1;
}

/* Modulo a prime number, any step goes through all numbers. */
static uint32_t prime_below(uint32_t number)
{
	while (number > 2 && !is_prime(--number))
		;
	return number;
}

void model_init(struct model *m, const struct fleet_options *options)
{
	const uint64_t builds = PROGRAMS * VERSIONS;
	uint64_t most = options->sites + options->times * (options->sites / 50 + 1) + 2;

	*m = (struct model){
		.options = *options,
		.traceback_nr = options->tracebacks / builds,
		.frame_nr = options->frames / builds,
	};
	m->order_nr = prime_below(m->traceback_nr);
	if (m->order_nr < most || m->frame_nr < 2 * FILES || !options->hosts || !options->sites) {
		fprintf(stderr, "fleet-data: %lu sites at %lu times take %lu tracebacks and a few and %lu frames\n",
			options->sites, options->times, most * builds, 2 * FILES * builds);
		exit(2);
	}
	m->planted = choose_planted(m);
	m->outlier_host = draw(m, FOR_OUTLIER, 0, 0) % options->hosts;
	if (m->outlier_host % 50 == 7) /* one that restarts */
		m->outlier_host--;
	for (uint32_t i = 0; i < builds; i++)
		make_build(m, i / VERSIONS, i % VERSIONS);
}

void model_release(struct model *m)
{
	for (uint32_t i = 0; i < PROGRAMS * VERSIONS; i++)
		free(m->frame[i / VERSIONS][i % VERSIONS]);
}

/* ---- processes --------------------------------------------------------------------------------- */

static void name_host(const struct model *m, struct moment *moment)
{
	static const char *const group[] = { "web", "db", "batch" };
	uint64_t a = draw(m, FOR_HOST, moment->host, 0), b = draw(m, FOR_HOST, moment->host, 1);

	snprintf(moment->host_name, sizeof(moment->host_name), "%s-%04u", group[moment->host % 3],
		 moment->host);
	snprintf(moment->boot_id, sizeof(moment->boot_id), "%08x-%04x-4%03x-8%03x-%012lx", (uint32_t)a,
		 (uint32_t)(a >> 32) & 0xffff, (uint32_t)(a >> 48) & 0xfff, (uint32_t)b & 0xfff, b >> 16);
}

/* A process that was started anew has its old PID. */
struct moment model_moment(const struct model *m, uint32_t host, uint32_t process, uint32_t time)
{
	bool is_restarted = host % 50 == 7 && process == 1 && time >= m->options.times / 2;
	uint64_t random = draw(m, FOR_TIME, host, process);
	struct moment moment = {
		.host = host,
		.process = process,
		.time = time,
		.program = process % PROGRAMS,
		.version = host % 5 < 3,
		.pid = 1000 + random % 500 * 32 + process,
		.start_ticks = 20000 + random % 1000 + (is_restarted ? 3600000 : 0),
	};

	moment.wall_s = FIRST_TIME + time * (INTERVAL_S + PASS_S) + draw(m, FOR_TIME, host * 64 + process, 1 + time) % PASS_S;
	moment.monotonic_s = moment.wall_s - FIRST_TIME + UPTIME_S;
	moment.has_exited = host % 50 == 8 && process == 1 && time + 1 == m->options.times;
	name_host(m, &moment);
	return moment;
}

bool model_is_outlier(const struct model *m, uint32_t host, uint32_t program)
{
	return program == 1 && host == m->outlier_host;
}

/* In a small fleet, too, the leak of many hosts is more than what the one host has. */
static uint64_t outlier_bytes(const struct model *m)
{
	uint64_t bytes = m->options.hosts * OUTLIER_BYTES_PER_HOST;

	return bytes < OUTLIER_BYTES_MAX ? bytes : OUTLIER_BYTES_MAX;
}

bool model_grows(const struct model *m, uint32_t host, uint32_t program, uint32_t version)
{
	return program == 0 && version == 1 && draw(m, FOR_LEAK, host, 0) % 10;
}

/* ---- sites ------------------------------------------------------------------------------------- */

/*
 * Each process has its own order of (nearly) all tracebacks but the planted one, and of these a window that moves a
 * little from one time to the next: sites come and go. One site in 64 is its neighbour in another domain.
 */
static uint32_t traceback_at(const struct model *m, const struct moment *moment, uint64_t number)
{
	uint64_t random = draw(m, FOR_SITES, moment->host, moment->process);
	uint64_t step = 1 + random % (m->order_nr - 1);
	uint32_t at = (number * step + (random >> 32)) % m->order_nr;

	return at + (at >= m->planted);
}

static uint32_t domain_of(const struct model *m, uint32_t program, uint32_t traceback)
{
	uint64_t random = draw(m, FOR_DOMAIN, program, traceback) % 16;

	if (traceback == m->planted || random > 1)
		return IN_HEAP;
	return random && programs[program].pool ? IN_POOL : IN_MMAP;
}

static void add_block(struct site *site, uint64_t size, uint64_t birth_s)
{
	site->block[site->count] = size;
	site->birth_s[site->count++] = birth_s;
	site->size += size;
}

/* The bytes of a block: usual for its site, and changed by the process, the time and chance. */
static void add_blocks(const struct model *m, const struct moment *moment, struct site *site)
{
	uint64_t usual = draw(m, FOR_SIZE, moment->program, site->traceback);
	uint64_t who = (uint64_t)moment->host << 32 | moment->process << 24 | moment->time << 16 | site->domain;
	uint64_t random = draw(m, FOR_BLOCKS, who, site->traceback);
	uint64_t nr = 1 + random % BLOCKS_MAX, planted = 0;

	usual = (16 + usual % 16) << (2 + (usual >> 32) % 8);
	if (site->traceback == m->planted && model_is_outlier(m, moment->host, moment->program))
		planted = outlier_bytes(m);
	if (site->traceback == m->planted && model_grows(m, moment->host, moment->program, moment->version))
		planted = moment->time * LEAK_STEP;
	for (uint64_t i = 0; i < nr; i++) {
		uint64_t block = draw(m, FOR_BLOCK, who * 4 + i, site->traceback);

		if (i > !!planted && block % 4 == 0) /* like the one before, also to a compact file */
			add_block(site, site->block[i - 1], site->birth_s[i - 1]);
		else
			add_block(site, usual / 2 + (block >> 8) % (usual + 1) + (i ? 0 : planted),
				  300 + (block >> 40) % 600);
	}
}

struct site model_site(const struct model *m, const struct moment *moment, uint32_t at)
{
	uint64_t number = at + moment->time * (m->options.sites / 50 + 1);
	bool is_twin = at && number % 64 == 63;
	struct site site = {
		.traceback = at ? traceback_at(m, moment, number - is_twin) : m->planted,
	};

	site.domain = domain_of(m, moment->program, site.traceback);
	if (is_twin)
		site.domain = site.domain == IN_MMAP ? IN_HEAP : IN_MMAP;
	add_blocks(m, moment, &site);
	return site;
}
