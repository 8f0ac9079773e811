/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_OBJECTS_H
#define ALLOCSNAP_COLLECT_OBJECTS_H

/*
 * The files that processes run code from, each opened once for all of them. They stay open and known after
 * a process has unmapped them or has ended, so that there are names then; unused.h lets them go.
 *
 * A file is found through /proc/PID/map_files, which leads to the mapped file itself: a deleted,
 * replaced or containerised one too, and never to one that the process only names. Only when the
 * process is gone does its path have to do, and then only for a file with the build-id that the
 * kernel has seen mapped. Which object it is, the opened file says itself (file_identity.h), each time anew. A
 * file that is written to becomes another object: what was read of it is true no longer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/bpf_types.h"
#include "collect/process/facts_store.h"
#include "collect/process/mapped_file.h"

struct custom_allocators;
struct file_opener;
struct parser;
struct unwind_table;

/* A file (or the vdso) that is or was mapped executable. */
struct object {
	char *path; /* as the process sees it, without " (deleted)" */
	struct file_identity identity; /* all 0 where it could not be opened, and of the vdso */
	int fd;		     /* -1: could not be opened */
	const struct object_facts *facts; /* NULL: is no ELF file, or could not be read */
	struct file_facts *file_facts;	  /* where they are */
	char *unreadable;	    /* why fd is -1 or facts NULL, else NULL */
	bool has_changed;	    /* the file has been written to since: facts hold no longer */
	bool has_wrong_names;	    /* some may be of what the file has become */
	bool is_program;	    /* that a process runs, not a library of it */
	bool is_copied;		    /* its code may be copied while it runs: no probes (text_copies.h) */
	bool is_given_up;	    /* reading it has failed, and is not tried again */
	bool was_needed;	    /* by a process, so far */
	bool is_kept;		    /* probed for processes to come, though none maps it */
	bool is_put_off;	    /* open for writing: it is probed when that is over (written.h) */
	bool is_put_off_told;
	struct unwind_file kernel_file; /* of a copy */
	bool is_copy;		    /* fd is what the file had: the kernel is not to read it (open_file.h) */
	struct unwind_table *table; /* for objects_keeps_frame_pointer() */
	bool has_no_table;
	char *told_build_id;	/* in hexadecimal, of one that is unreadable; or NULL */
	uint32_t user;		/* whose share it is of, where it is open */
	uint64_t names_id;	/* the same for objects of one path and the same bytes, in however many containers */
	int watch;		/* for writes (file_watch.h), where the recorder watches itself; 0: none */
	uint32_t idle_cnt;	/* passes since a process needed it (unused.h) */
};

#define OBJECT_NONE UINT32_MAX

/* Zeroed: none. An object's index is its own until it is let go. */
struct objects {
	struct parser *parser; /* reads them */
	struct file_opener *opener; /* opens those of file systems that may hang; or NULL */
	unsigned int copied_nr; /* of which it was said that they are not probed */
	uint32_t domains;      /* enum collector_domains: which functions are probed */
	const struct custom_allocators *custom; /* to look for; or NULL */
	struct facts_store facts; /* one for all objects with the same bytes */
	char **note;	       /* what there is to say of those that were given up */
	size_t note_nr, note_alloc;
	struct object **object; /* NULL: let go, the index is free */
	size_t object_nr, object_alloc;
	/*
	 * Where several processes are recorded: of so many files that can be known at once a user may have SHARE_OF_FREE
	 * times as many as are free. 0: no shares.
	 */
	uint32_t files_most, files_nr;
	uint32_t user_files[USERS_MAX];
	uint64_t user_seed;
	uint64_t names_nr;     /* names_id given out */
	uint64_t opened_nr;    /* objects so far */
	uint64_t changed_nr;   /* objects that have changed, so far */
};

/*
 * The object's index, opened if it is new; OBJECT_NONE for memory without a file. 0 or -ENOMEM;
 * without a root also -ENOENT: it is not mapped there any more, -ESRCH: the process has ended.
 */
int objects_get(struct objects *objects, const struct mapped_file *file, uint32_t *ret_object);

/*
 * Likewise of a file that no process need map, by its path in our own root. 0, or a negative errno, with a
 * line in *why where it could not be read.
 */
int objects_get_path(struct objects *objects, const char *path, uint32_t *ret_object, struct reason *why);

/* The number of a (real) user id in shares: of struct process, too. */
uint32_t objects_user(const struct objects *objects, uint32_t uid);

/* Notes something that is to be said to who records, once. 0 or -ENOMEM. */
__attribute__((format(printf, 2, 3)))
int objects_note(struct objects *objects, const char *fmt, ...);

/*
 * Whether the function that a call returns into, at this file offset, has set up a frame pointer
 * by then, as the call frame information tells it. True where that does not tell.
 */
bool objects_keeps_frame_pointer(struct objects *objects, uint32_t object, uint64_t return_offset);

/* Up to `bytes` of the file from an offset on; how many there are. */
size_t object_read(const struct object *object, uint64_t offset, void *to, size_t bytes);

void objects_release(struct objects *objects);

/*
 * Whether the file still is what was read of it. Asks the file system; once it has changed it stays so. Where only the
 * change time is another one, bytes or build-id decide.
 */
bool objects_check(struct objects *objects, uint32_t object);

/* Lets an object go: no index to it may be left. Its own index is free then. */
void objects_drop(struct objects *objects, uint32_t object);

/* What tells objects with other names apart: names_id in text. */
const char *object_names_key(const struct object *object, char text[24]);

#endif
