// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Preloaded behind the library: a dlsym() that allocates, resizes and frees while it looks, and keeps a block that it
 * resizes and frees later, as old versions of glibc do.
 */
#define dlsym real_dlsym
#include <dlfcn.h>
#undef dlsym
#include <stdlib.h>

static void *kept;

__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name)
{
	void *found;

	free(malloc(40));
	free(realloc(calloc(3, 7), 0));
	kept = kept ?: malloc(24);
	if (kept)
		((char *)kept)[23] = 'k';
	/* The caller's next file is the one behind this. */
	found = dlvsym(handle, name, "GLIBC_2.2.5");
	return found ?: dlvsym(handle, name, "GLIBC_2.16") ?: dlvsym(handle, name, "GLIBC_2.26");
}

static __attribute__((destructor)) void free_kept(void)
{
	kept = realloc(kept, 100000);
	if (!kept || ((char *)kept)[23] != 'k')
		abort();
	free(kept);
}
