/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef FLEET_DATA_MODEL_H
#define FLEET_DATA_MODEL_H

/*
 * A fleet that never was: what each process of each host has at each time, as a function of these numbers and a
 * seed. The snapshot files and the row tables are written from it, each by itself, so that they can be compared.
 *
 * Four programs run on the hosts, each in one of two builds, by host: A, and B, which has other build-ids and in
 * a quarter of its files other lines. Two things are planted:
 *	a leak	a line of the first program that grows on most hosts with build B
 *	a host	where a line of the second program has far more than anywhere else
 * On one host of 50 the second process has been started anew in between; on one it exits at the last time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRAMS 4
#define PASS_S 60 /* the most that a pass takes; the next one begins at the next hour */
#define INTERVAL_S (3600 - PASS_S)
#define RECORDING_S 200 /* when the recording began, before any block is born */
#define VERSIONS 2
#define BLOCKS_MAX 4
#define DEPTH_MAX 18

struct fleet_options {
	const char *dir, *rows;
	uint64_t hosts, processes, times, sites, tracebacks, frames, seed, threads;
};

/* A frame of one build. Unknown strings are "". */
struct frame_facts {
	char function[48], file[64], module[64];
	uint32_t line, first_line; /* its own, and its function's */
	uint64_t offset;
	bool is_shared; /* in the library, not in the program */
};

struct program {
	const char *comm, *exe, *cgroup, *source;
	const char *pool; /* what its own domain is called; NULL: it has none */
};

struct model {
	struct fleet_options options;
	uint32_t traceback_nr, frame_nr; /* of each build */
	struct frame_facts *frame[PROGRAMS][VERSIONS];
	char build_id[PROGRAMS][VERSIONS][41];
	uint32_t order_nr; /* the tracebacks that sites have */
	uint32_t planted; /* the traceback of each program that every process of it has */
	uint32_t outlier_host;
};

extern const struct program programs[PROGRAMS];
extern const char *const version_name[VERSIONS];

#define LIBRARY "/usr/lib/x86_64-linux-gnu/libshared.so.3"
#define LIBRARY_BUILD_ID "5e5e000000000000000000000000000000000abc"
#define LIBC "/usr/lib/x86_64-linux-gnu/libc.so.6"
#define LIBC_BUILD_ID "11bc000000000000000000000000000000000def"

/* One process at one time. */
struct moment {
	uint32_t host, process, time;
	uint32_t program, version;
	uint32_t pid;
	uint64_t start_ticks;
	uint64_t wall_s, monotonic_s;
	bool has_exited;
	char host_name[32], boot_id[40];
};

struct traceback_facts {
	uint32_t frame[DEPTH_MAX]; /* most recent call first */
	uint32_t nframe;
	uint32_t wrappers; /* frames of malloc and operator new before these: 0 to 2 */
};

enum model_domain {
	IN_HEAP = 0,
	IN_MMAP = 1,
	IN_POOL = 16, /* the program's own: another one for each program */
};

/* The blocks of one traceback in one domain of a process. */
struct site {
	uint32_t traceback, domain;
	int64_t size;
	uint32_t count;
	uint64_t block[BLOCKS_MAX], birth_s[BLOCKS_MAX];
};

/* Exits with an error if the options are impossible. */
void model_init(struct model *model, const struct fleet_options *options);
void model_release(struct model *model);

struct moment model_moment(const struct model *model, uint32_t host, uint32_t process, uint32_t time);
struct traceback_facts model_traceback(const struct model *model, uint32_t program, uint32_t number);
/* at: below options.sites. No two have the same traceback and domain. */
struct site model_site(const struct model *model, const struct moment *moment, uint32_t at);

bool model_is_outlier(const struct model *model, uint32_t host, uint32_t program);
/* Does the planted site grow there? */
bool model_grows(const struct model *model, uint32_t host, uint32_t program, uint32_t version);

uint64_t random_of(uint64_t seed, uint64_t a, uint64_t b);
void must(int err, const char *what);

#endif
