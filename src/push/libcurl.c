// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "push/libcurl.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include "base/reason.h"

struct libcurl libcurl;

int libcurl_load(struct reason *why)
{
	static bool is_loaded;
	void *library;

	if (is_loaded)
		return 0;
	library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return reason_set(why, -ENOENT, "libcurl is needed: %s", dlerror());
#define X(name)                                                                                                        \
	libcurl.name = dlsym(library, #name);                                                                          \
	if (!libcurl.name)                                                                                             \
		return reason_set(why, -ENOENT, "a newer libcurl is needed: %s", dlerror());
	LIBCURL_FUNCTIONS(X)
#undef X
	is_loaded = true;
	return 0;
}
