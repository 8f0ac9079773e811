// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/preload_sampler.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "sampler/sampler_info.h"

#define LIBRARY "liballocsnap-sampler.so"
#define LIBRARY_NEW "liballocsnap-sampler-new.so" /* for allocators with C++ operators of their own */
#define LIBRARY_EXACT "liballocsnap-exact.so"
#define PRELOAD_VARIABLE "LD_PRELOAD"

/* Looks at other libraries that are preloaded. Those that the program is linked with are not known before it runs. */
static bool have_operators(const char *preloaded)
{
	static const char *const allocators[] = { "libjemalloc", "libtcmalloc", "libmimalloc" };

	for (size_t i = 0; i < ARRAY_SIZE(allocators) && preloaded; i++)
		if (strstr(preloaded, allocators[i]))
			return true;
	return false;
}

/* Beside a program that was built or installed there, and where `make install` puts it. */
static int find_library(const char *name, char ret_path[PATH_MAX], struct reason *why)
{
	static const char *const places[] = {
		"%s/.output/%s", "%s/%s", "%s/../lib/allocsnap/%s", "%.0s" ALLOCSNAP_LIBDIR "/allocsnap/%s",
	};
	char folder[PATH_MAX], path[PATH_MAX + 64];
	ssize_t len = readlink("/proc/self/exe", folder, sizeof(folder) - 1);
	char *slash;

	folder[len > 0 ? len : 0] = '\0';
	slash = strrchr(folder, '/');
	if (slash)
		*slash = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), places[i], folder, name);
		if (access(path, R_OK) || !realpath(path, ret_path))
			continue;
		if (strpbrk(ret_path, ": "))
			return reason_set(why, -EINVAL,
					  "cannot preload %s: LD_PRELOAD cannot hold a path with ':' or ' '",
					  ret_path);
		return 0;
	}
	return reason_set(why, -ENOENT, "cannot find %s, last at %s: 'make install' puts it there", name, path);
}

static int set_variables(const char *path, const char *others, uint64_t interval_bytes)
{
	char sample[32], *all = NULL;
	int err = 0;

	snprintf(sample, sizeof(sample), "%" PRIu64, interval_bytes);
	if (asprintf(&all, "%s%s%s", path, others && *others ? ":" : "", others ?: "") < 0)
		return -ENOMEM;
	if (setenv(PRELOAD_VARIABLE, all, 1) || (interval_bytes && setenv(SAMPLER_INTERVAL_VARIABLE, sample, 1)))
		err = -ENOMEM;
	free(all);
	return err;
}

static char *copy_variable(const char *name)
{
	const char *value = getenv(name);

	return value ? strdup(value) : NULL;
}

static int preload(const char *library, struct preload *ret_before, uint64_t interval_bytes, struct reason *why)
{
	struct preload before;
	char path[PATH_MAX];
	int err = find_library(library, path, why);

	if (err)
		return err;
	before = (struct preload){ copy_variable(PRELOAD_VARIABLE), copy_variable(SAMPLER_INTERVAL_VARIABLE) };
	err = set_variables(path, before.preloaded, interval_bytes);
	if (err) {
		preload_restore(&before);
		return reason_set(why, err, "%s", strerror(-err));
	}
	*ret_before = before;
	return 0;
}

int preload_sampler(struct preload *ret_before, uint64_t interval_bytes, struct reason *why)
{
	return preload(have_operators(getenv(PRELOAD_VARIABLE)) ? LIBRARY_NEW : LIBRARY, ret_before, interval_bytes, why);
}

int preload_exact(struct preload *ret_before, struct reason *why)
{
	return preload(LIBRARY_EXACT, ret_before, 0, why);
}

static void restore_variable(const char *name, char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
	free(value);
}

void preload_restore(struct preload *before)
{
	restore_variable(PRELOAD_VARIABLE, before->preloaded);
	restore_variable(SAMPLER_INTERVAL_VARIABLE, before->sample);
	*before = (struct preload){};
}
