/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_TARGET_PYTHON_H
#define ALLOCSNAP_COLLECT_TARGET_PYTHON_H

/* The CPython of a recorded process. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "collect/python/live_pools.h"
#include "collect/python/python_codes.h"
#include "shared/bpf_types.h"

struct books;

/* Zeroed: none. */
/* Hooks see nothing until they are in. A program that was started has run so long by then, and has these blocks. */
struct python_unseen {
	uint64_t ns; /* 0: the hooks were not put in at its start */
	uint64_t nr, bytes; /* small ones; UINT64_MAX: not known */
};

struct target_python {
	bool is_used;	     /* its allocators are probed, for the program that runs now */
	bool has_heap;	     /* its heap is recorded, too */
	struct reason why_not; /* in the text: why it is not, though there is one; a note says so */
	bool is_on_request; /* if the domain python is asked for, it would be */
	struct python_version version; /* if it is used */
	uint32_t place_nr;   /* places that are probed */
	uint32_t object;     /* the file that it is in */
	uint64_t memory;     /* for the kernel side: struct process; 0: it knows of none */
	unsigned int lines;  /* enum python_lines */
	uint32_t unknown_nr; /* places that were not understood */
	uint32_t creation_unknown_nr; /* the same of those where objects begin */
	bool retags; /* those places are probed */
	uint32_t *asked;     /* objects that were looked at */
	size_t asked_nr, asked_alloc;
	struct python_codes codes;
	uint64_t codes_missing; /* frames of the latest snapshot whose code objects are not known */
	struct python_process where; /* what the kernel side knows */
	struct python_checked checked;
	struct python_unseen unseen;
	struct books *books; /* its blocks are in these, and only what libraries report is probed; NULL: none. They belong to the source */
};

/* After an exec: the process runs another program. Its code objects stay if they are of the same memory. */
void target_python_begin(struct target_python *python, uint64_t memory);

void target_python_release(struct target_python *python);

/*
 * Gives the kernel side the places of a process's CPython, before the first call of its allocators is seen. is_again:
 * the kernel side had the same memory before, and may know code objects there.
 */
void python_process_tell(struct process *account, const struct python_process *process, bool is_again);

/* The kernel side forgets it. Returns how many of its code objects stay there, for a sweep. */
uint64_t python_process_forget(struct process *account, uint64_t memory);

/* Removes the code objects of all processes that were forgotten. 0 or a negative errno. */
int python_codes_sweep(const struct allocsnap_bpf *bpf, const struct process processes[PROCESSES_MAX]);

#endif
