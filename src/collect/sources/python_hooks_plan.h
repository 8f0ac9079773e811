/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_PYTHON_HOOKS_PLAN_H
#define ALLOCSNAP_COLLECT_SOURCES_PYTHON_HOOKS_PLAN_H

/* The memory of a process says where its CPython is: where hooks go in the tables of its allocators, and what is in the way. */

#include "collect/sources/python_source.h"

struct python_asked;
struct python_info;

/* A CPython that can be recorded by hooks, and where its file is mapped. */
struct found_python {
	const struct python_info *info;
	const char *path;
	uint64_t bias, dev, inode;
};

/*
 * Looks for it in the files that a process maps. 0; -ENOENT: it has no CPython; -ENOTSUP, -ENOMEM. With an error
 * *why has a line. Asks the sandbox.
 */
int python_hooks_find(struct collector *collector, struct target *target, struct found_python *ret, struct reason *why);

/*
 * Finds where hooks go in its tables, and what they need to know, in the memory of the process. 0; -EINPROGRESS: its Python
 * has not begun, or is ending; -ENOTSUP, -EAGAIN… with a line in *why.
 */
int python_hooks_plan(struct target *target, const struct found_python *place, struct inject_python *ret, struct reason *why);

/* The same for a program that is being started: until a thread has its state, Python may replace its allocators (PYTHONMALLOC). */
int python_hooks_plan_first(struct target *target, const struct found_python *place, struct inject_python *ret,
			    struct reason *why);

/* Bytes of the arenas of its allocator. 0 or a negative errno. */
int python_hooks_arenas(struct target *target, const struct found_python *place, uint64_t *ret_bytes);

/* NULL, or why no objects of a CPython can be recorded, as its memory is now. Fills in the functions of debug hooks. */
const char *python_memory_fault(struct target *target, const struct python_info *info, uint64_t bias, struct python_asked *ret,
				bool *ret_has_begun);

/* As python_hooks_arenas(). */
int python_arenas(struct target *target, const struct python_info *info, uint64_t bias, uint64_t *ret_bytes);

#endif
