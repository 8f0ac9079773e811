// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/allocators.h"

#include <fnmatch.h>
#include <string.h>

#include "base/array.h"

const struct allocator_function allocator_functions[] = {
	{ "free", SHAPE_FREE },
	{ "cfree", SHAPE_FREE },
	{ "malloc", SHAPE_MALLOC },
	{ "calloc", SHAPE_CALLOC },
	{ "realloc", SHAPE_REALLOC },
	{ "reallocarray", SHAPE_REALLOCARRAY },
	{ "posix_memalign", SHAPE_POSIX_MEMALIGN },
	{ "aligned_alloc", SHAPE_MEMALIGN },
	{ "memalign", SHAPE_MEMALIGN },
	{ "valloc", SHAPE_MALLOC },
	{ "pvalloc", SHAPE_MALLOC },

	/* C23: the size and the alignment that come with the block are not needed */
	{ "free_sized", SHAPE_FREE },
	{ "free_aligned_sized", SHAPE_FREE },

	/* those of the C library, or in its place; what a heap takes goes through them, too */
	{ "munmap", SHAPE_MUNMAP },
	{ "mmap", SHAPE_MMAP },
	{ "mmap64", SHAPE_MMAP },
	{ "mremap", SHAPE_MREMAP },

	/* jemalloc: the last argument is a word of flags */
	{ "mallocx", SHAPE_MALLOC },
	{ "rallocx", SHAPE_REALLOC },
	{ "dallocx", SHAPE_FREE },
	{ "sdallocx", SHAPE_FREE },

	/* operator new and delete, as the Itanium C++ ABI calls them where size_t is long */
	{ "_Znwm", SHAPE_MALLOC, .own = true, .throws = true },
	{ "_Znam", SHAPE_MALLOC, .own = true, .throws = true },
	{ "_ZnwmRKSt9nothrow_t", SHAPE_MALLOC, .own = true },
	{ "_ZnamRKSt9nothrow_t", SHAPE_MALLOC, .own = true },
	{ "_ZnwmSt11align_val_t", SHAPE_MALLOC, .own = true, .throws = true },
	{ "_ZnamSt11align_val_t", SHAPE_MALLOC, .own = true, .throws = true },
	{ "_ZnwmSt11align_val_tRKSt9nothrow_t", SHAPE_MALLOC, .own = true },
	{ "_ZnamSt11align_val_tRKSt9nothrow_t", SHAPE_MALLOC, .own = true },
	{ "_ZdlPv", SHAPE_FREE, .own = true },
	{ "_ZdaPv", SHAPE_FREE, .own = true },
	{ "_ZdlPvm", SHAPE_FREE, .own = true },
	{ "_ZdaPvm", SHAPE_FREE, .own = true },
	{ "_ZdlPvRKSt9nothrow_t", SHAPE_FREE, .own = true },
	{ "_ZdaPvRKSt9nothrow_t", SHAPE_FREE, .own = true },
	{ "_ZdlPvSt11align_val_t", SHAPE_FREE, .own = true },
	{ "_ZdaPvSt11align_val_t", SHAPE_FREE, .own = true },
	{ "_ZdlPvmSt11align_val_t", SHAPE_FREE, .own = true },
	{ "_ZdaPvmSt11align_val_t", SHAPE_FREE, .own = true },
	{ "_ZdlPvSt11align_val_tRKSt9nothrow_t", SHAPE_FREE, .own = true },
	{ "_ZdaPvSt11align_val_tRKSt9nothrow_t", SHAPE_FREE, .own = true },
};
const size_t allocator_function_nr = ARRAY_SIZE(allocator_functions);

unsigned int shape_argument_nr(enum call_shape shape)
{
	static const unsigned int argument_nr[SHAPE_NR] = {
		[SHAPE_MALLOC] = 1,	  [SHAPE_CALLOC] = 2,	[SHAPE_REALLOC] = 2,
		[SHAPE_REALLOCARRAY] = 3, [SHAPE_MEMALIGN] = 2, [SHAPE_POSIX_MEMALIGN] = 3,
		[SHAPE_FREE] = 1,	  [SHAPE_MMAP] = 2,	[SHAPE_MUNMAP] = 2,
		[SHAPE_MREMAP] = 4,
	};

	return argument_nr[shape];
}

bool shape_takes(enum call_shape shape)
{
	switch (shape) {
	case SHAPE_FREE:
	case SHAPE_REALLOC:
	case SHAPE_REALLOCARRAY:
	case SHAPE_MUNMAP:
	case SHAPE_MREMAP:
	case SHAPE_CUSTOM_FREE:
	case SHAPE_CUSTOM_REALLOC:
		return true;
	default:
		return false;
	}
}

bool shape_gives(enum call_shape shape)
{
	return !shape_is_free(shape);
}

static const struct allocator allocators[] = {
	{ "glibc", "libc.so.6", 0, true },
	{ "glibc", "libc-2.*.so", 0, true },
	{ "musl", "ld-musl-*.so*", 0, true },
	{ "musl", "libc.musl-*.so*", 0, true },
	{ "jemalloc", "libjemalloc.so*", 2 },
	{ "tcmalloc", "libtcmalloc*.so*", 3 },
	{ "mimalloc", "libmimalloc*.so*", 4 },
	{ "program", "*", 0 }, /* linked statically, or the program's own malloc */
};

const struct allocator *allocator_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	const struct allocator *row = allocators;

	while (fnmatch(row->object, name, 0))
		row++;
	return row;
}

const char *domain_name(uint32_t domain)
{
	static const char *const names[] = { "malloc", [DOMAIN_MAPPING] = "mmap" };

	if (domain < ARRAY_SIZE(names))
		return names[domain];
	for (size_t i = 0; i < ARRAY_SIZE(allocators); i++)
		if (allocators[i].domain == domain)
			return allocators[i].name;
	return "unknown";
}

bool allocator_is_named(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(allocators); i++)
		if (!strcmp(allocators[i].name, name))
			return true;
	return !strcmp(name, "malloc") || !strcmp(name, "mmap");
}
