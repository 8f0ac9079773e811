/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The functions of a Python that is in a library. */
#include <dlfcn.h>
#include <stdlib.h>

static void *library;

static void *api(const char *name)
{
	void *function = dlsym(library, name);

	if (!function)
		exit(1);
	return function;
}
