/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_UNIT_ARCHIVE_FIXTURE_H
#define TESTS_UNIT_ARCHIVE_FIXTURE_H

/* A directory "d" to keep snapshots in; what lies there is looked at by walking it, as du does. */

#include <stdbool.h>
#include <stdint.h>

#include "archive/archive.h"

#define KIB 1024ULL
#define FILE_BYTES (4 * KIB)
#define NOON_MS 1795000000000ULL /* in November 2026; what the tests count from */

/* Test suites begin and end with these. */
void archive_enter(void);
void archive_leave(void);

/* Now in milliseconds. */
uint64_t wall_ms(void);

/* d/host/COMM.PID/TIME.snap of that many bytes, folders and all; until the next call. */
const char *put_snapshot(const char *folder, uint64_t ms, uint64_t bytes);
void put_file(const char *path, uint64_t bytes);
void make_dirs_of(const char *path);

/* All that files and folders take from d on, as du counts. */
uint64_t disk_bytes(void);
/* The part of disk_bytes() that d and d/host take themselves. */
uint64_t frame_bytes(void);

/* The number of snapshots in d/host/FOLDER; 0 without such a folder. */
int snapshot_nr(const char *folder);
/* folder has exactly the snapshots whose minutes after NOON_MS are in the list, which ends with -1. */
void expect_minutes(const char *folder, const int *minutes);

struct archive *open_archive(uint64_t max_disk_bytes, uint64_t keep_ns);
void expect_bytes(const struct archive *archive);
/* The next line that was logged, without the program's name, or "". */
const char *next_log(void);
void expect_log(const char *line);
bool is_there(const char *path);

#endif
