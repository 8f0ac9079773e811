/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_WRAPPERS_H
#define ALLOCSNAP_ENGINE_WRAPPERS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The role of a frame, by the name of its function or of its file. Statistics start at the first frame that is the
 * program's own. A larger number is further from the program's own code.
 */
enum frame_role {
	ROLE_NOT_ASKED = 0,
	ROLE_OWN,
	ROLE_START,	/* starts a thread or the program: nothing below it is the program's own */
	ROLE_PLUMBING,	/* a container, a string, a C library: works for its caller */
	ROLE_ALLOCATOR, /* hands out memory to its caller */
	ROLE_HEAP,	/* the same as the entry of its language's heap: all that it calls is its work, the program's code, too */
	ROLE_SAMPLER,	/* allocsnap's own code in the process: no answer starts there */
};

/* The groups of names that have this one, as bits. base: the function's NAME_BASE (engine/function_name.h). */
uint32_t wrapper_groups_named(const char *base);

/* The groups whose functions lie in this file, of code or of source. */
uint32_t wrapper_groups_in_file(const char *path);

/* Where a function is: names that mean something in one language or library mean nothing elsewhere. */
struct wrapper_place {
	uint32_t in_object;  /* wrapper_groups_in_file() of the code */
	const char *source;  /* the source file; NULL: not known */
	bool has_parameters; /* its name has; asked for if the source file is not known */
};

/* The role of a function in these groups. */
enum frame_role wrapper_role(uint32_t named, const struct wrapper_place *place);

/* Whether a function in these groups is C++'s operator new. */
bool wrapper_is_cxx_new(uint32_t named);

/*
 * Whether this is a source file of Python's standard library, or of an installed package. Its lines are rows as in
 * tracemalloc, but what calls them is the program. Python's sysconfig has the folders: stdlib, purelib, platlib.
 */
bool wrapper_is_python_library(const char *source);

/* path: the file that holds the code, whatever its function. */
enum frame_role wrapper_role_by_path(const char *path);

#endif
