/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_WRAPPERS_H
#define ALLOCSNAP_ENGINE_WRAPPERS_H

#include <stdbool.h>

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
	ROLE_SAMPLER,	/* allocsnap's own code in the process: no answer starts there */
};

/* base: the function's NAME_BASE (engine/function_name.h). */
enum frame_role wrapper_role_by_name(const char *base);

/* The same for names that mean something in libjvm.so only. */
enum frame_role wrapper_role_in_jvm(const char *base);

/* path: the file that holds the code, whatever its function. */
enum frame_role wrapper_role_by_path(const char *path);
bool wrapper_path_is_jvm(const char *path);

#endif
