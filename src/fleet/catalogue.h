/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CATALOGUE_H
#define ALLOCSNAP_FLEET_CATALOGUE_H

/*
 * The catalogue: one SQLite file that has every snapshot of a fleet, and the bytes of each traceback in it. Once they
 * are indexed, the snapshot files are needed only by `fleet leaks`, which asks for births (process_lines.h).
 *
 *	file		a path that was read: size, mtime, inode, and what is wrong with it
 *	snapshot	one process at one time: its facts, and the file that it was read from
 *	snapshot_rows	the blob of its rows (row_codec.h)
 *	label, loss	of a snapshot, by name
 *	origin		number, traceback_id, domain: a row of a blob refers to it
 *	traceback	traceback_id, its frame ids, most recent call first
 *	frame		frame_id, names, build-id and offset
 *	domain		number and name; the catalogue numbers programs' own domains: if two programs use one
 *			number, the second gets another. A domain without a name is "#NUMBER"
 *
 * Ids are 63 bits of a 128-bit XXH3 hash of the content, so that they are the same in every catalogue. `verify` has
 * the other 64 bits, which reveal two things with one id. Times are integers. A cluster would have a row for each
 * (snapshot_id, traceback_id, domain), with the same ids.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine.h"
#include "reason.h"

struct catalogue;
struct cohort;
struct fleet_rows;
struct rows_reader;

enum catalogue_access {
	CATALOGUE_READ,
	CATALOGUE_WRITE, /* it is made if it does not exist; one process writes at a time, the others wait */
};

/*
 * Errors leave a line in *why. -ENOENT: there is no catalogue to read. -EBADMSG: the file is no catalogue, or is
 * damaged. -EROFS: the last writer was killed in a commit, which a process with write access must roll back (opening
 * the catalogue does that).
 *
 * A reader sees the whole catalogue as it was when it was opened. A commit waits for readers to close, for minutes.
 */
int catalogue__open(const char *path, enum catalogue_access access, struct catalogue **ret,
		    struct reason *why);

/* Opens the catalogue to write. If another process writes it, waits() is called once, before the wait begins. */
int catalogue__open_to_write(const char *path, void (*waits)(void *what, const char *path), void *what,
			    struct catalogue **ret, struct reason *why);

/*
 * Makes an empty catalogue in memory, which is gone when it is closed. name: what error messages call it. Its tables are
 * open for writing (catalogue_private.h) until catalogue__seal(), and for questions after it.
 */
int catalogue__make_in_memory(const char *name, struct catalogue **ret, struct reason *why);
int catalogue__seal(struct catalogue *catalogue, struct reason *why);

/* NULL is allowed. */
void catalogue__close(struct catalogue *catalogue);

const char *catalogue__path(const struct catalogue *catalogue);

#define ENDING_RUNNING "running"
#define REPLACED_BY_EXEC "replaced by exec"	 /* the same process has a later program */
#define GONE_WITH_BOOT "gone with an earlier boot" /* the host has started again since */
#define NOT_SEEN_AGAIN "not seen again" /* two snapshots were due since, or it was recorded before others were */

/* One process at one time. Strings are never NULL ("": not known); they live as long as the facts. */
struct fleet_snapshot {
	int64_t snapshot_id;
	/* host, boot, pid, start time and number of execs: one id for each program that a process runs */
	int64_t process_id;
	int64_t time_ns;    /* since 1970, by a clock that may have been set */
	int64_t monotonic_ns; /* since the host's start; a process lives in one boot only; 0: not known */
	/* the clock that orders and times a process's snapshots: monotonic_ns, or time_ns if one snapshot lacks that */
	int64_t clock_ns;
	/*
	 * When the snapshot's recording began, by the host's monotonic clock; 0: not known. If a process was recorded
	 * twice, the second recording lacks the blocks that were allocated before it began.
	 */
	int64_t recording_ns;
	int64_t interval_ns; /* the next snapshot of the process was due after it; 0: not known */
	uint32_t process, host_nr; /* the process and its host, as small numbers from 0 */
	uint32_t recording; /* the recording of the process, as a small number from 0 */
	const char *host, *comm, *exe, *exe_build_id, *cgroup, *container, *boot_id, *kernel, *trigger;
	const char *version; /* of the allocsnap that recorded it; the program's own version may be a label */
	const char *path; /* the file that it was read from */
	/*
	 * How the process ended, the same in all its snapshots: the text of the last snapshot ("running", "exited 0",
	 * "killed by signal 9"; "": not known), or one of the texts above if other snapshots of the host show that.
	 */
	const char *ending;
	int64_t behind_ns; /* by how much the newest of its host is later than the last of its process */
	const char *own_ending; /* what the snapshot itself says of it */
	int64_t pid;
	int64_t start_ticks, exec_count;
	int64_t size, count; /* of all blocks of the snapshot, unbiased */
	struct cost gap_blocks; /* the blocks of these that lived through a gap in the recording, and may be gone */
	uint32_t row_nr;
	uint32_t traceback_limit;
	bool is_sampled, is_open; /* is_open: samples are pools of CPython, so the errors of estimates are not known */
	int64_t sample_bytes_most; /* the coarsest rate that a budget used while it was recorded; 0: none */
	bool has_twin; /* its host has snapshots of another boot from the same time */
	bool is_part; /* `convert` left blocks out, and noted it in the metadata "filters" */
	uint32_t label, label_nr; /* the first label, and their number, in facts->label */
	uint32_t loss, loss_nr;	  /* the first loss, and their number, in facts->loss */
	int64_t upload_id; /* in a cluster */
	uint8_t chosen_by; /* of a cluster: a bit for each of the question's cohorts */
};

struct fleet_pair {
	const char *name, *value;
};

struct fleet_loss {
	const char *name;
	uint64_t value;
};

/*
 * All snapshots, ordered by host (by name, as host_nr is), process, recording and clock_ns. Of snapshots of one time
 * the parts come first.
 */
struct fleet_facts {
	struct fleet_snapshot *snapshot;
	size_t snapshot_nr;
	struct fleet_pair *label;
	size_t label_nr;
	struct fleet_loss *loss;
	size_t loss_nr;
	uint32_t process_nr, recording_nr, host_nr, origin_nr;
	void *memory; /* holds the strings */
};

int catalogue__facts(struct catalogue *catalogue, struct fleet_facts *ret, struct reason *why);
void fleet_facts_release(struct fleet_facts *facts);

/* Whether nothing shows that the process has ended. Inline: `render` has the struct of a snapshot, not the catalogue. */
static inline bool fleet_snapshot_is_live(const struct fleet_snapshot *snapshot)
{
	return !*snapshot->ending || !strcmp(snapshot->ending, ENDING_RUNNING);
}

/* Compares two snapshots of one process. A whole snapshot is later than a part of it. */
bool fleet_snapshot_is_later(const struct fleet_snapshot *one, const struct fleet_snapshot *other);

struct fleet_rows;

/* Reads the rows of a cohort's snapshots, one by one in its order. Errors leave a line in *why. */
struct rows_source {
	int (*read)(void *what, const struct fleet_snapshot *snapshot, struct fleet_rows *rows, struct reason *why);
	void *what;
};

/*
 * Reads the rows of snapshots, one snapshot at a time. Each thread needs a reader of its own. A reader opens the
 * catalogue's file again; another file in its place is -ESTALE. The catalogue must outlive its readers.
 */
int rows_reader__new(const struct catalogue *catalogue, struct rows_reader **ret, struct reason *why);
void rows_reader__free(struct rows_reader *reader);
int rows_reader__read(struct rows_reader *reader, int64_t snapshot_id, uint32_t origin_nr,
		      struct fleet_rows *rows, struct reason *why);

/*
 * Removes the cohort's snapshots from a catalogue that is open to write, all or none. Names stay, and so does what is
 * noted about files: a file that is still there is not indexed again. Returns 0, or a negative errno and a line in *why.
 */
int catalogue_forget(struct catalogue *catalogue, const struct cohort *cohort, struct reason *why);

#endif
