/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_PYTHON_CHOICE_H
#define ALLOCSNAP_COLLECT_SOURCES_PYTHON_CHOICE_H

/*
 * The choice of a domain if none was named: Python's objects of a program that is Python, otherwise the heap.
 * A program is Python if it is called python…, or if the file with CPython in it is. So an editor or a debugger that has
 * CPython in a library is recorded by its heap.
 */

#include <stdbool.h>

struct collector_options;
struct reason;

struct python_choice {
	bool is_default;	/* no domain was named */
	const char *obstacle;	/* why no Python's objects are recorded, for a note; "": without a note; NULL: they are */
	bool is_obstacle_told;
	bool beside_heap;	/* of many processes: Python's pools are recorded beside the heap, and not in its place */
};

/* An option that is about Python's objects only, so that it stands for that domain; or NULL. */
const char *python_option_given(const struct collector_options *options);

/* Names the domains in *options if none is named there. */
void python_choice_make(struct python_choice *choice, struct collector_options *options);

/* 0, or -EINVAL with a line in *why: options that exclude each other. */
int python_options_check(const struct collector_options *options, struct reason *why);

/* The machine or the kernel has an obstacle. 0: the heap is recorded; or -ENOTSUP with a line in *why: the user wants the objects. */
int python_choice_give_up(struct python_choice *choice, struct collector_options *options, const char *obstacle, struct reason *why);

/* Whether a path names a program that is Python. */
bool is_python_path(const char *path);

/*
 * Only the name of a file shows a CPython before 3.7: python2.7, libpython3.6m.so.1.0. Whether this path has such a
 * name, with a line in *why; false: the file is no such CPython, or its name does not show it.
 */
bool is_old_python_name(const char *path, struct reason *why);

/* Whether a path names a library that programs with CPython in them have. */
bool is_python_library(const char *path);

#endif
