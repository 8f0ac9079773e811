/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_FLEET_SMALL_H
#define TESTS_FLEET_SMALL_H

/* A small fleet on disk, indexed: host0 … host5; the odd hosts sample. */

#include "fleet/catalogue.h"
#include "fleet/selection.h"

struct snapshot;

#define HOSTS 6
#define PROCESSES 4 /* of each; pids from 100 */
#define TIMES 3	    /* of each, a minute apart */
#define SMALL_RATE 1000 /* of samples, times 1 + the number of the process; only hosts of odd numbers have samples */
#define SNAPSHOTS (HOSTS * PROCESSES * TIMES)
#define BLOCKS 40

/* A block at line site + 1 of one file. */
struct small_block {
	uint32_t site, domain;
	uint64_t size;
	double weight;
};

/* All blocks of one snapshot. */
struct small_contents {
	struct small_block block[BLOCKS];
	size_t nr;
	bool is_sampled;
};

extern struct small_contents small_contents[HOSTS][PROCESSES][TIMES];

/* The index, its contents, and the cohort of all of it. */
extern struct catalogue *small_catalogue;
extern struct fleet_facts small_facts;
extern struct cohort small_everything;

/* For a suite's init and fini. */
void small_make(void);
void small_remove(void);

/* Another snapshot, and then the index of all. */
void small_save(int host, int process, int time, const struct small_contents *from);
void small_index(uint64_t new_ones);

/* One snapshot of the blocks of several; metadata: pairs up to a NULL, or NULL. */
struct snapshot *small_build(const struct small_contents *from, size_t nr, bool is_sampled,
		       const char *const *metadata);

/* Changes the catalogue, and reads small_facts and the rest again. */
void small_sql(const char *sql);

struct cohort small_cohort(const char *selection, enum cohort_times times);

/* For the rest of the test. */
void small_use_one_processor(void);

#endif
