/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_OBJECTS_H
#define ALLOCSNAP_PROCESS_OBJECTS_H

/*
 * The files that processes run code from; each is opened once for all processes. They stay open and known after a
 * process has unmapped them or has ended, so that its frames keep their names; unused_files.h releases them.
 *
 * A file is opened through /proc/PID/map_files, which leads to the mapped file itself: also if it was deleted or
 * replaced or is in a container, and never to a file that the process only names. The path is used only when the
 * process has ended, and then only for a file with the build-id that the kernel saw mapped. The opened file
 * itself says which object it is (mapped_file.h), each time anew. A file that is written to becomes another
 * object, because the facts read from it are no longer true.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "process/mapped_file.h"
#include "process/probe_info_store.h"
#include "shared/bpf_types.h"

struct user_allocators;
struct unwind_table;

/* A file (or the vdso) that is or was mapped executable. */
struct object {
	char *path; /* as the process sees it, without " (deleted)" */
	struct file_identity identity; /* all 0 for a file that could not be opened, and for the vdso */
	int fd;		     /* -1: could not be opened */
	const struct probe_info *probe_info; /* NULL: not an ELF file, or could not be read */
	struct stored_info *stored_info;	  /* the owner of facts */
	char *unreadable;	    /* why fd is -1 or facts NULL, else NULL */
	bool has_changed;	    /* the file has been written to since: facts are no longer true */
	bool has_wrong_names;	    /* some names may be of the changed file */
	bool is_program;	    /* a process runs it as its program, not as a library */
	bool is_copied;		    /* the program may copy its code while it runs: no probes (text_copies.h) */
	bool is_given_up;	    /* reading it failed, and is not tried again */
	bool was_needed;	    /* a process has needed it so far */
	bool is_kept;		    /* stays probed for later processes, even if no process maps it */
	bool is_put_off;	    /* open for writing: probed once it is closed (written_files.h) */
	bool is_put_off_told;
	bool is_sampler_told;	    /* a note says whether the samples that it takes are used */
	bool is_unseen_told;	    /* a note says what its sampler does not see */
	struct unwind_file kernel_file; /* of a copy: the original, as the kernel side knows it */
	struct unwind_file below;   /* the same for all overlays that have this file from one layer (open_file.h) */
	bool is_copy;		    /* fd is a copy: the kernel must not read the original (open_file.h) */
	struct unwind_table *table; /* for objects_keeps_frame_pointer() */
	bool has_no_table;
	char *told_build_id;	/* build-id by an event, in hexadecimal, if the file is unreadable; or NULL */
	uint32_t user;		/* the user whose share it counts for, if it is open */
	uint64_t names_id;	/* the same for all objects with the same path and bytes, in any container */
	int watch;		/* for writes (file_watch.h), if the recorder itself watches; 0: none */
	uint32_t idle_cnt;	/* passes since a process needed it (unused_files.h) */
	struct unwind_copies copies; /* of an injected sampler: the allocator's pages */
};

#define OBJECT_NONE UINT32_MAX
#define OBJECT_GONE (OBJECT_NONE - 1) /* one that is not known any more */

/* Zeroed: none. An object keeps its index until it is dropped. */
struct objects {
	struct sandbox *sandbox; /* reads the files */
	struct file_opener *opener; /* opens files on file systems that may hang; or NULL */
	unsigned int copied_nr, nameless_nr, more_heaps_nr, given_up_nr; /* notes so far about files of these kinds */
	uint32_t domains;      /* enum collector_domains: which functions are probed */
	const struct user_allocators *user_allocators; /* user allocators to look for; or NULL */
	struct probe_info_store probe_info; /* shared by all objects with the same bytes */
	char **note;	       /* messages for the user, mostly about objects that were given up */
	size_t note_nr, note_alloc;
	struct object **object; /* NULL: dropped, the index is free */
	size_t object_nr, object_alloc;
	/*
	 * Only if several processes are recorded: files_most files can be known at once, and a user may have
	 * SHARE_OF_FREE times as many as are free. 0: no shares.
	 */
	uint32_t files_most, files_nr;
	uint32_t user_files[USERS_MAX];
	uint64_t user_seed;
	const char *cgroups_root; /* where the root of our namespace of control groups is, or NULL */
	uint64_t names_nr;     /* number of names_id given out */
	uint64_t opened_nr;    /* objects so far */
	uint64_t changed_nr;   /* objects that have changed so far */
};

/*
 * Finds the object's index, and opens the file if it is new; OBJECT_NONE for memory without a file. 0 or -ENOMEM;
 * if file->root is NULL also -ENOENT: no longer mapped there, -ESRCH: the process has ended.
 */
int objects_get(struct objects *objects, const struct mapped_file *file, uint32_t *ret_object);

/*
 * The same for a file by its path in the recorder's own root; no process needs to map it. 0, or a negative errno
 * with a line in *why if it could not be read.
 */
int objects_get_path(struct objects *objects, const char *path, uint32_t *ret_object, struct reason *why);

/* The number that stands for a (real) user id in shares, also in struct process. */
uint32_t objects_user(const struct objects *objects, uint32_t uid);

/* Stores a message that the user who records gets once. 0 or -ENOMEM. */
__attribute__((format(printf, 2, 3)))
int objects_note(struct objects *objects, const char *fmt, ...);

/*
 * Whether the function that a call returns into, at this file offset, has set up a frame pointer by then,
 * according to the call frame information. True if that does not say.
 */
bool objects_keeps_frame_pointer(struct objects *objects, uint32_t object, uint64_t return_offset);

/* Reads up to `bytes` of the file from an offset on. Returns the number of bytes read. */
size_t object_read(const struct object *object, uint64_t offset, void *to, size_t bytes);

void objects_release(struct objects *objects);

/*
 * Whether the file still has the content that was read. Asks the file system; an object that has changed stays
 * changed. If only the change time differs, the bytes or the build-id decide.
 */
bool objects_check(struct objects *objects, uint32_t object);

/* Frees an object and its index. No other index to it may be left. */
void objects_drop(struct objects *objects, uint32_t object);

/* Writes names_id as text: it tells apart the objects with different names. */
const char *object_names_key(const struct object *object, char text[24]);

#endif
