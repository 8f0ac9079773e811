/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CATALOGUE_H
#define ALLOCSNAP_FLEET_CATALOGUE_H

/*
 * The catalogue: one SQLite file that knows every snapshot of a fleet, and what it had of each traceback.
 * It needs the snapshot files no more once they are in it.
 *
 *	file		a path that was looked at: size, mtime, inode, and what is wrong with it
 *	snapshot	one process at one time: its facts, and the file that it was read from
 *	snapshot_rows	the blob of its rows (rows.h)
 *	label, loss	of a snapshot, by name
 *	origin		number, traceback_id, domain: what a row of a blob refers to
 *	traceback	traceback_id, its frame ids, most recent call first
 *	frame		frame_id, names, build-id and offset
 *	domain		number and name; those of the program's own have numbers of the catalogue: where two
 *			programs number theirs alike, the second gets another. One without a name is "#NUMBER"
 *
 * Ids are 63 bits of an XXH3 hash of 128 (of what makes two equal; so the same in every catalogue), and
 * `verify` has 64 others of it: two things with one id are found out. Times are integers. A cluster would have a row for each
 * (snapshot_id, traceback_id, domain), with the same ids.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "reason.h"

struct catalogue;

enum catalogue_access {
	CATALOGUE_READ,
	CATALOGUE_WRITE, /* is made where there is none; one writer at a time, others wait */
};

/*
 * Errors: a line in *why. -ENOENT: there is none to read; -EBADMSG: it is no catalogue, or damaged; -EROFS: its
 * writer was killed in a commit, which somebody who may write must take back (any who opens it then).
 *
 * Who reads has all of it as it was when it was opened: a commit waits for that to end, for minutes.
 */
int catalogue__open(const char *path, enum catalogue_access access, struct catalogue **ret,
		    struct reason *why);

/* The same to write; waits() is called where another one writes, once, before it is waited for. */
int catalogue__open_telling(const char *path, void (*waits)(void *what, const char *path), void *what,
			    struct catalogue **ret, struct reason *why);

/* NULL is allowed. */
void catalogue__close(struct catalogue *catalogue);

const char *catalogue__path(const struct catalogue *catalogue);

#define ENDING_RUNNING "running"
#define REPLACED_BY_EXEC "replaced by exec"	 /* there is a later program of the same process */
#define GONE_WITH_BOOT "gone with an earlier boot" /* the host was started again since */

/* One process at one time. Strings are never NULL ("" where not known), and live as long as the facts. */
struct fleet_snapshot {
	int64_t snapshot_id;
	int64_t process_id; /* host, boot, pid, start time and number of its execs: the books of one program */
	int64_t time_ns;    /* since 1970, by a clock that may have been set */
	int64_t monotonic_ns; /* since the host's start, of which a process sees one only; 0: not known */
	int64_t clock_ns; /* what a process's snapshots are ordered and timed by: monotonic_ns, or time_ns if one lacks it */
	/*
	 * When the recording began that this is of, by the host's monotonic clock; 0: not known. Where a process was
	 * recorded twice, the second has nothing of what was allocated before it began.
	 */
	int64_t recording_ns;
	uint32_t process, host_nr; /* the same and the host, as small numbers from 0 */
	uint32_t recording; /* and one recording of one process */
	const char *host, *comm, *exe, *exe_build_id, *cgroup, *container, *boot_id, *kernel, *trigger;
	const char *version; /* of the allocsnap that recorded it; the program's own may be a label */
	const char *path; /* where it was read */
	/*
	 * What became of the process, in all its snapshots: what the last one says ("running", "exited 0", "killed by
	 * signal 9"; "" where it does not), or REPLACED_BY_EXEC or GONE_WITH_BOOT, where others show it.
	 */
	const char *ending;
	int64_t pid;
	int64_t start_ticks, exec_count;
	int64_t size, count; /* of all its blocks, unbiased */
	struct cost gap_blocks; /* of these, what lived through a gap in the recording, and may be gone */
	uint32_t row_nr;
	uint32_t traceback_limit;
	bool is_sampled;
	bool has_twin; /* its host has snapshots of another boot at the same time */
	bool is_part; /* `convert` left blocks out, and says so in its metadata "filters" */
	uint32_t label, label_nr; /* in facts->label */
	uint32_t loss, loss_nr;	  /* in facts->loss */
};

struct fleet_pair {
	const char *name, *value;
};

struct fleet_loss {
	const char *name;
	uint64_t value;
};

/*
 * All snapshots, by host (in the order of their names, as host_nr is), by process, by recording and then by clock_ns; of
 * one time those come first that are parts.
 */
struct fleet_facts {
	struct fleet_snapshot *snapshot;
	size_t snapshot_nr;
	struct fleet_pair *label;
	size_t label_nr;
	struct fleet_loss *loss;
	size_t loss_nr;
	uint32_t process_nr, recording_nr, host_nr, origin_nr;
	void *memory; /* what the strings lie in */
};

int catalogue__facts(struct catalogue *catalogue, struct fleet_facts *ret, struct reason *why);
void fleet_facts_release(struct fleet_facts *facts);

/* Of two of one process: the whole is later than a part of it. */
bool fleet_snapshot_is_later(const struct fleet_snapshot *one, const struct fleet_snapshot *other);

struct fleet_rows;

/*
 * The rows of snapshots, one after another: a reader of its own for each thread. The catalogue's file is opened
 * again, and must be what it was (-ESTALE). The catalogue must outlive it.
 */
struct rows_reader;

int rows_reader__new(const struct catalogue *catalogue, struct rows_reader **ret, struct reason *why);
void rows_reader__free(struct rows_reader *reader);
int rows_reader__read(struct rows_reader *reader, int64_t snapshot_id, uint32_t origin_nr,
		      struct fleet_rows *rows, struct reason *why);

#endif
