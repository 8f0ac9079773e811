/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_FLEET_FIXTURE_H
#define TESTS_FLEET_FIXTURE_H

/*
 * A fleet that a test describes in a table instead of files: snapshots of hosts and processes with the bytes of each
 * group. Tests of the folds over fleet_walk() are built with fleet_walk_told() instead of it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fleet/per_host.h"
#include "fleet/parallel_scan.h"

#define TOLD_GROUPS 12
#define TOLD_SNAPSHOTS 2048

/* One snapshot; bytes by group, -1: it does not have the group. A host of 0 ends a table, so the first host is 1. */
struct told {
	uint32_t host, process;
	int64_t time_ns;
	int64_t bytes[TOLD_GROUPS];
	int64_t recording_ns; /* of one process in their order */
	bool has_gap_blocks;
};

struct told_fleet {
	struct told told[TOLD_SNAPSHOTS]; /* by process, and then by time */
	struct fleet_snapshot snapshot[TOLD_SNAPSHOTS];
	const struct fleet_snapshot *chosen[TOLD_SNAPSHOTS];
	char host[TOLD_SNAPSHOTS][16];
	struct fleet_facts facts;
	struct cohort cohort;
	struct fleet_question question;
};

/* All of it, of a table: groups are called "a", "b"… The same memory again and again. */
struct told_fleet *tell(const struct told *told, size_t nr);

/* The same numbers for the same seed: hosts with processes that come and go, and groups that few have. */
struct told_fleet *tell_random(unsigned int seed, unsigned int host_nr, int64_t most);

/* Bytes of a group at a snapshot of the last fleet; 0 if the group is not there. */
int64_t told_bytes(size_t snapshot, uint32_t group);

int fleet_walk_told(const struct walk *walk, struct reason *why);

/* A whole number below `end`, the next of the seed's. */
uint64_t next_random(uint64_t *state, uint64_t end);

#endif
