/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_INDEX_PRIVATE_H
#define ALLOCSNAP_FLEET_INDEX_PRIVATE_H

#include <pthread.h>
#include <sys/stat.h>

#include "fleet/catalogue_private.h"
#include "fleet/content_id.h"
#include "fleet/index.h"
#include "fleet/row_codec.h"

/*
 *	index.c		lists the files, marks the known ones, and orders them; its threads read the new ones
 *	index_found.c	makes a struct found of each new file, on all processors
 *	index_write.c	writes these to the catalogue in that order, in one thread
 *
 * The parts of the catalogue that readers need are in memory (struct library). Only the writer changes them.
 */

/* ---- files ----------------------------------------------------------------------------------------- */

enum file_state {
	FILE_NEW, /* new, or changed: a changed file has a number */
	FILE_KNOWN,
	FILE_BAD, /* known; its problem is reported again */
	FILE_OUT_OF_REACH, /* a directory or file that cannot be read; size is the errno */
};

struct indexed_file {
	size_t path; /* in files->text */
	int64_t size, mtime_ns, inode;
	int64_t number; /* in the catalogue; 0: not in it */
	enum file_state state;
	bool was_duplicate; /* a duplicate that has not changed; the file that it duplicates may have gone */
};

struct indexed_files {
	struct indexed_file *file; /* each path once, in the order of reading (index.h) */
	size_t file_nr, file_alloc;
	char *text;
	size_t text_nr, text_alloc;
	char **dir; /* paths without symbolic links; some are files */
	size_t dir_nr;
	uint64_t others, links, gone;
};

/* Times are only compared: a time after 2262 overflows and may be any number. */
static inline int64_t file_mtime_ns(const struct stat *st)
{
	return st->st_mtim.tv_sec * UINT64_C(1000000000) + st->st_mtim.tv_nsec;
}

static inline const char *file_path(const struct indexed_files *files, size_t at)
{
	return files->text + files->file[at].path;
}

int index_files_list(struct indexed_files *files, const char *const *dir, size_t dir_nr, struct reason *why);

/* Corrects the count of gone files: the path was in the catalogue when the files were matched, and no longer is. */
void index_files_release(struct indexed_files *files);

/* ---- what is in the catalogue ------------------------------------------------------------------------ */

#define DOMAIN_NONE UINT32_MAX

struct library {
	pthread_rwlock_t lock;
	struct known origins;	  /* by traceback and domain; number: the origin */
	struct known tracebacks, frames;
	struct known domains;	  /* domains of programs, by name; number: the catalogue's */
	struct known domain_numbers; /* by number + 1: the domains that have a name */
	uint32_t origin_nr;
	uint32_t domain_next; /* the smallest number that may be free for a program's domain */
};

/* The caller releases the library even if loading fails. */
int library_load(struct library *library, const struct catalogue *catalogue, struct reason *why);
void library_release(struct library *library);

/* The first domain number of programs' own allocators. */
#define DOMAIN_OWN 16

/* Returns the id of a program's domain. name: its name, or "#NUMBER" if it has none. */
struct hash_id domain_name_id(const char *name);
#define DOMAIN_NAME_MAX 16

/* ---- what was found in a file ------------------------------------------------------------------------ */

struct found_pair {
	size_t name, text; /* in found->text */
	uint64_t value;
};

struct found_domain {
	uint32_t number; /* the catalogue's; DOMAIN_NONE: not known yet */
	uint32_t wanted; /* the snapshot's */
	size_t name;	 /* "": it has none */
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

/* A row whose origin was not in the catalogue when the row was read. */
struct found_origin {
	uint32_t row;
	uint32_t traceback; /* in found->traceback */
	uint32_t domain;    /* in found->domain */
};

struct found {
	bool is_gone; /* the file no longer exists, or is no regular file */
	enum index_problem problem; /* 0: none; otherwise why has a line */
	struct reason why;

	bool is_moved;	 /* its snapshot was in another file */
	size_t moved_from; /* in text: the former path, if it has left both the disk and the catalogue; otherwise 0 */

	struct hash_id snapshot;
	int64_t process_id, time_ns, monotonic_ns, recording_ns, interval_ns, pid, start_ticks, exec_count;
	int64_t traceback_limit, sample_bytes_most;
	struct cost total, gap_blocks;
	bool is_sampled, is_open, is_part;
	size_t fact[FLEET_TEXT_NR]; /* in text */
	struct found_pair *label, *loss;
	size_t label_nr, label_alloc, loss_nr, loss_alloc;

	struct fleet_rows rows; /* in the order of the file */
	void *blob;		/* the encoded rows; NULL: there are new origins */
	size_t blob_len, row_nr;

	/* new things, in the order of the rows */
	struct found_origin *origin;
	size_t origin_nr, origin_alloc;
	struct found_domain *domain;
	size_t domain_nr, domain_alloc;
	struct found_traceback *traceback;
	size_t traceback_nr, traceback_alloc;
	uint32_t *traceback_frame; /* indexes of frame */
	size_t traceback_frame_nr, traceback_frame_alloc;
	struct found_frame *frame;
	size_t frame_nr, frame_alloc;

	char *text;
	size_t text_nr, text_alloc;
};

/* Memory that a thread keeps while it reads one file after another. */
struct index_reading {
	struct digest digest;
	uint32_t *frame_at; /* by frame of the snapshot: its index in found->frame + 1; 0: not added yet */
	size_t frame_at_alloc;
	struct fleet_rows room;
	struct library *library;
};

/* Returns 0 or -ENOMEM. A problem of the file is in found. */
int index_read(struct index_reading *reading, const char *path, struct found *found);
void index_reading_release(struct index_reading *reading);

/* Sorts the rows by origin, and merges rows of one origin. Returns 0 or -ENOMEM. */
int rows_by_origin(struct fleet_rows *to, const struct fleet_rows *from);

/* Does so with the rows into room, and encodes them as found->blob. */
int found_encode_rows(struct found *found, struct fleet_rows *room);

/*
 * Limits of a file's texts: one text; all texts that describe the snapshot; these and the texts of new frames
 * together. A long C++ name has ten kilobytes. Longer texts would only cost the indexer memory.
 */
#define FOUND_TEXT_MAX (64 << 10)
#define FOUND_FACTS_MAX (4 << 20)
#define FOUND_TEXTS_MAX (64 << 20)

/* found_copy_any_text() has no such limits; it returns 0 or -ENOMEM. */
int found_copy_any_text(struct found *found, const char *text, size_t *ret);

/* found_memory_bytes(): memory in use, without the blob. found_catalogue_bytes(): about how many bytes the catalogue gets. */
size_t found_memory_bytes(const struct found *found);
size_t found_catalogue_bytes(const struct found *found);

/* Keeps some of the memory for the next file. */
void found_clear(struct found *found);
void found_release(struct found *found);

/* ---- threads ----------------------------------------------------------------------------------------- */

struct index_threads;

int index_threads__new(const struct indexed_files *files, struct library *library,
		       struct index_threads **ret, struct reason *why);

/* Gives the result of the next new file, in their order; valid until the next call. Returns 0 or -ENOMEM. */
int index_threads__next(struct index_threads *threads, struct found **ret);
void index_threads__free(struct index_threads *threads);

/* ---- writing ----------------------------------------------------------------------------------------- */

struct index_writer;

int index_writer__new(const struct catalogue *catalogue, struct library *library, struct index_writer **ret,
		      struct reason *why);

/*
 * Adds a file in the open transaction, or opens one. Afterwards found has any problem, also one that only the
 * catalogue shows.
 */
int index_writer__add(struct index_writer *writer, const struct indexed_file *file, const char *path,
		      struct found *found, struct reason *why);

/* Reads a file's problem and line as they were reported when the file was read. */
int index_writer__read_problem(struct index_writer *writer, int64_t file, enum index_problem *ret_problem,
		       struct reason *ret_line, struct reason *why);

/*
 * Find a domain or an origin in the library, or add it to the library and the catalogue, and set its number. The domain gets
 * the wanted number if it is free. 1: a domain with another name has the same id.
 */
int index_writer__put_domain(struct index_writer *writer, uint32_t wanted, const char *name, uint32_t *ret_number,
			     struct reason *why);
int index_writer__put_origin(struct index_writer *writer, struct known_row *origin, struct reason *why);

/* Commits what was added since the last commit. */
int index_writer__commit(struct index_writer *writer, struct reason *why);
void index_writer__free(struct index_writer *writer);

enum statement {
	INSERT_FILE, UPDATE_FILE, DELETE_FILE, SELECT_LINE,
	SELECT_SNAPSHOT, DELETE_SNAPSHOT, DELETE_ROWS, DELETE_LABELS, DELETE_LOSSES,
	INSERT_SNAPSHOT, INSERT_ROWS, INSERT_LABEL, INSERT_LOSS,
	INSERT_ORIGIN, INSERT_TRACEBACK, INSERT_FRAME, INSERT_DOMAIN,
	STATEMENT_NR,
};

struct index_writer {
	const struct catalogue *catalogue;
	struct library *library;
	sqlite3_stmt *statement[STATEMENT_NR];
	bool is_open; /* a transaction is open */
	struct fleet_rows room;
	int64_t *frame_ids; /* of one traceback */
	size_t frame_ids_alloc;
};

#endif
