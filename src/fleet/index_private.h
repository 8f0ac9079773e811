/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_INDEX_PRIVATE_H
#define ALLOCSNAP_FLEET_INDEX_PRIVATE_H

/*
 *	index_files	the files there are, which of them are known, and in which order they are read
 *	index_threads	for each new one, on all processors: index_read makes a struct found of it
 *	index_write	one after another in that order, by one thread, into the catalogue
 *
 * What readers need to know of the catalogue is in memory (struct library), which only the writer changes.
 */

#include <pthread.h>
#include <sys/stat.h>

#include "fleet/catalogue_private.h"
#include "fleet/digest.h"
#include "fleet/index.h"
#include "fleet/rows.h"

/* ---- files ----------------------------------------------------------------------------------------- */

enum file_state {
	FILE_NEW, /* or changed: then it has a number */
	FILE_KNOWN,
	FILE_BAD, /* known, and what was wrong with it is told again */
	FILE_OUT_OF_REACH, /* a directory that cannot be read; size is the errno */
};

struct indexed_file {
	size_t path; /* in files->text */
	int64_t size, mtime_ns, inode;
	int64_t number; /* in the catalogue; 0: not in it */
	enum file_state state;
	bool was_duplicate; /* and has not changed: but that of which it is one may have gone */
};

struct indexed_files {
	struct indexed_file *file; /* each path once; in the order of their turns, see index.h */
	size_t file_nr, file_alloc;
	char *text;
	size_t text_nr, text_alloc;
	char **dir; /* without links; some are files */
	size_t dir_nr;
	uint64_t others, links, gone;
};

/* Only compared: a time after 2262 may be any number. */
static inline int64_t file_mtime_ns(const struct stat *st)
{
	return st->st_mtim.tv_sec * UINT64_C(1000000000) + st->st_mtim.tv_nsec;
}

static inline const char *file_path(const struct indexed_files *files, size_t at)
{
	return files->text + files->file[at].path;
}

int index_files_list(struct indexed_files *files, const char *const *dir, size_t dir_nr, struct reason *why);

/* What the catalogue says of each. */
int index_files_match(struct indexed_files *files, const struct catalogue *catalogue, struct reason *why);

/* This one is no longer in the catalogue, as it was when they were matched. */
void index_files_drop_gone(struct indexed_files *files, const char *path);
void index_files_release(struct indexed_files *files);

/* ---- what is in the catalogue ------------------------------------------------------------------------ */

#define DOMAIN_NONE UINT32_MAX

struct library {
	pthread_rwlock_t lock;
	struct known origins;	  /* by traceback and domain; number: the origin */
	struct known tracebacks, frames;
	struct known domains;	  /* those of programs, by name; number: the catalogue's */
	struct known domain_numbers; /* by number + 1: those that have a name */
	uint32_t origin_nr;
	uint32_t domain_next; /* none that is free is smaller, of those that programs may have */
};

/* Release it also where it fails. */
int library_load(struct library *library, const struct catalogue *catalogue, struct reason *why);
void library_release(struct library *library);

/* The first of those that programs have for their own allocators. */
#define DOMAIN_OWN 16

/* What a domain of a program is known by: its name, or "#NUMBER" where it has none. */
struct hash_id domain_id(const char *name);
#define DOMAIN_NAME_MAX 16

/* ---- what was found in a file ------------------------------------------------------------------------ */

struct found_pair {
	size_t name, text; /* in found->text */
	uint64_t value;
};

struct found_domain {
	uint32_t number; /* the catalogue's; DOMAIN_NONE: not known yet */
	uint32_t wanted; /* the snapshot's */
	size_t name;	 /* "": none */
	bool is_news;	 /* the catalogue has no name for it */
};

struct found_frame {
	struct hash_id hash;
	size_t filename, function, object, build_id;
	uint64_t offset;
	uint32_t lineno, first_line, flags;
};

struct found_traceback {
	struct hash_id hash;
	size_t first; /* in found->traceback_frame */
	uint32_t nframe;
};

/* A row whose origin was not in the catalogue when it was read. */
struct found_origin {
	uint32_t row;
	uint32_t traceback; /* in found->traceback */
	uint32_t domain;    /* in found->domain */
};

struct found {
	bool is_gone; /* the file is there no more, or no file */
	enum index_problem problem; /* 0: none; else a line in why */
	struct reason why;

	bool is_moved;	 /* its snapshot was in another file */
	size_t moved_from; /* in text: its path, where that is there no more, nor in the catalogue; 0: it is */

	struct hash_id snapshot;
	int64_t process_id, time_ns, monotonic_ns, recording_ns, pid, start_ticks, exec_count, traceback_limit;
	struct cost total, gap_blocks;
	bool is_sampled, is_part;
	size_t fact[FLEET_TEXT_NR]; /* in text */
	struct found_pair *label, *loss;
	size_t label_nr, label_alloc, loss_nr, loss_alloc;

	struct fleet_rows rows; /* as in the file */
	void *blob;		/* of them; NULL: there are new origins */
	size_t blob_len, row_nr;

	/* what is new, in the order of the rows */
	struct found_origin *origin;
	size_t origin_nr, origin_alloc;
	struct found_domain *domain;
	size_t domain_nr, domain_alloc;
	struct found_traceback *traceback;
	size_t traceback_nr, traceback_alloc;
	uint32_t *traceback_frame; /* in frame */
	size_t traceback_frame_nr, traceback_frame_alloc;
	struct found_frame *frame;
	size_t frame_nr, frame_alloc;

	char *text;
	size_t text_nr, text_alloc;
};

/* Memory that a thread keeps while it reads one file after another. */
struct index_reading {
	struct digest digest;
	uint32_t *frame_at; /* of each frame of the snapshot its number in found->frame + 1; 0: not there yet */
	size_t frame_at_alloc;
	struct fleet_rows room;
	struct library *library;
};

/* 0, or -ENOMEM; whatever is wrong with the file is in found. */
int index_read(struct index_reading *reading, const char *path, struct found *found);
void index_reading_release(struct index_reading *reading);

/*
 * The parts of it. All return 0, -ENOMEM, or -EBADMSG with a line in found->why: with the path and found->problem,
 * or without both.
 */
int found_facts(struct found *found, const struct snapshot *snapshot, const char *path);
int found_rows(struct found *found, struct index_reading *reading);

/* Orders the rows by origin, in room, makes one of those that have the same, and the blob of them. */
int found_encode(struct found *found, struct fleet_rows *room);

/*
 * What a file may have of text: one, those that say something of the snapshot, and all, those of the frames that
 * are new too. Ten kilobytes are a long name of C++; more than this only costs whoever indexes.
 */
#define FOUND_TEXT_MAX (64 << 10)
#define FOUND_FACTS_MAX (4 << 20)
#define FOUND_TEXTS_MAX (64 << 20)

/* found_keep(): without those bounds, 0 or -ENOMEM. */
int found_text(struct found *found, const char *text, size_t *ret);
int found_keep(struct found *found, const char *text, size_t *ret);

/* Of memory, but for the blob; and about what the catalogue gets. */
size_t found_bytes(const struct found *found);
size_t found_written(const struct found *found);

/* Some of the memory stays for the next one. */
void found_clear(struct found *found);
void found_release(struct found *found);

/* ---- threads ----------------------------------------------------------------------------------------- */

struct index_threads;

int index_threads__new(const struct indexed_files *files, struct library *library,
		       struct index_threads **ret, struct reason *why);

/* Of the next file that is new, in their order; valid until the next call. 0 or -ENOMEM. */
int index_threads__next(struct index_threads *threads, struct found **ret);
void index_threads__free(struct index_threads *threads);

/* ---- writing ----------------------------------------------------------------------------------------- */

struct index_writer;

int index_writer__new(const struct catalogue *catalogue, struct library *library, struct index_writer **ret,
		      struct reason *why);

/* Into an open transaction. What is wrong with the file, also what only the catalogue tells, is in found then. */
int index_writer__add(struct index_writer *writer, const struct indexed_file *file, const char *path,
		      struct found *found, struct reason *why);

/* What was wrong with a file, as it was told. */
int index_writer__line(struct index_writer *writer, int64_t file, enum index_problem *ret_problem,
		       struct reason *ret_line, struct reason *why);

/* What was added since the last time stays. */
int index_writer__commit(struct index_writer *writer, struct reason *why);
void index_writer__free(struct index_writer *writer);

#endif
