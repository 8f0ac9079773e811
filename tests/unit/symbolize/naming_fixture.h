/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_NAMING_FIXTURE_H
#define ALLOCSNAP_TESTS_NAMING_FIXTURE_H

/* A library (full.so, stripped.so, full.debug in the workshop), and snapshots with frames of it that have no names. */

#include <stdint.h>

#include "snapshot.h"
#include "symbolize/naming.h"

extern char library_id[64]; /* the library's build-id */
extern uint64_t library_outer, library_hidden; /* the return offsets of the calls in outer() and hidden() */
extern struct naming_options naming_with;
extern struct nameless naming_said;

/* The build-id of an ELF file. */
void read_build_id(const char *file, char *ret);

uint32_t add_string(struct snapshot_builder *builder, const char *text);
uint32_t add_frame(struct snapshot_builder *builder, struct snap_frame frame);
uint32_t add_object(struct snapshot_builder *builder, const char *path, const char *id);

/* outer ← hidden ← last ← code of no file; the frames of one object. */
struct snapshot *nameless_snapshot(const char *path, const char *id);

/* NULL: nothing was named. naming_said has the report about an object, if there was one. */
struct snapshot *name_snapshot(struct snapshot *snapshot, struct naming_counts *ret_counts);

/* The same for a snapshot with many objects: their reports are not read. */
struct snapshot *name_large_snapshot(struct snapshot *snapshot, struct naming_counts *ret_counts);

#endif
