/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_MAPPINGS_FIXTURE_H
#define ALLOCSNAP_TESTS_MAPPINGS_FIXTURE_H

/* The mappings of a process that does not exist, and their files. */

#include <stdint.h>

#include "process/mappings.h"

#define NO_PROCESS 0x3fffffff

struct fixture {
	struct objects objects;
	struct mappings mappings;
	uint64_t time_ns; /* of the latest event or reading */
};

struct objects fixture_objects(void);
void release_objects(struct objects *objects);

/* The fixture of this test. */
extern struct fixture *fixture;

void new_fixture(void);
void free_fixture(void);

/* The vDSO, reported by an event. */
void add_mapping(uint64_t start, uint64_t end, uint64_t offset);
void add_mapping_at(uint64_t time_ns, uint64_t start, uint64_t end, uint64_t offset);

/*
 * As /proc/PID/maps has it, of the vDSO, which is one file for all of these; "" ends them. It begins 10 ns after the
 * latest event, and events may still come for these 10 ns.
 */
void read_maps(const char *lines);

#endif
