// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/allocators.h"

#include <fnmatch.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "elf/elf_object.h"
#include "elf/probe_info.h"

/* The C library's functions, under names that only one allocator defines. */
#define C_FUNCTIONS(start, of) \
	{ start "free", SHAPE_FREE, .prefix = start, .domain = of }, \
	{ start "malloc", SHAPE_MALLOC, .prefix = start, .domain = of }, \
	{ start "calloc", SHAPE_CALLOC, .prefix = start, .domain = of }, \
	{ start "realloc", SHAPE_REALLOC, .prefix = start, .domain = of }, \
	{ start "posix_memalign", SHAPE_POSIX_MEMALIGN, .prefix = start, .domain = of }, \
	{ start "aligned_alloc", SHAPE_MEMALIGN, .prefix = start, .domain = of }, \
	{ start "memalign", SHAPE_MEMALIGN, .prefix = start, .domain = of }, \
	{ start "valloc", SHAPE_MALLOC, .prefix = start, .domain = of }, \
	{ start "pvalloc", SHAPE_MALLOC, .prefix = start, .domain = of }, \
	{ start "cfree", SHAPE_FREE, .prefix = start, .domain = of }

/* jemalloc's own functions: the last argument is a word of flags. */
#define X_FUNCTIONS(start) \
	{ start "mallocx", SHAPE_MALLOC, .prefix = start, .domain = DOMAIN_JEMALLOC }, \
	{ start "rallocx", SHAPE_REALLOC, .prefix = start, .domain = DOMAIN_JEMALLOC }, \
	{ start "xallocx", SHAPE_XALLOCX, .prefix = start, .domain = DOMAIN_JEMALLOC }, \
	{ start "dallocx", SHAPE_FREE, .prefix = start, .domain = DOMAIN_JEMALLOC }, \
	{ start "sdallocx", SHAPE_FREE, .prefix = start, .domain = DOMAIN_JEMALLOC }

#define TC(name, shape, ...) \
	{ "tc_" name, shape, .prefix = "tc_", .domain = DOMAIN_TCMALLOC, .own = true, ##__VA_ARGS__ }
#define MI(name, shape, ...) \
	{ "mi_" name, shape, .prefix = "mi_", .domain = DOMAIN_MIMALLOC, .own = true, ##__VA_ARGS__ }
#define MI_HEAP(name, shape, ...) MI("heap_" name, shape, .of_heap = true, ##__VA_ARGS__)

const struct allocator_function allocator_functions[] = {
	{ "free", SHAPE_FREE, .restarts = true },
	{ "cfree", SHAPE_FREE },
	{ "vfree", SHAPE_FREE, .own = true },
	{ "malloc", SHAPE_MALLOC },
	{ "calloc", SHAPE_CALLOC },
	{ "realloc", SHAPE_REALLOC },
	{ "reallocarray", SHAPE_REALLOCARRAY },
	{ "reallocf", SHAPE_REALLOCF },
	{ "posix_memalign", SHAPE_POSIX_MEMALIGN },
	{ "aligned_alloc", SHAPE_MEMALIGN },
	{ "memalign", SHAPE_MEMALIGN },
	{ "valloc", SHAPE_MALLOC },
	{ "pvalloc", SHAPE_MALLOC },

	/*
	 * C23: the probe ignores the size and the alignment that the caller passes along with the
	 * block
	 */
	{ "free_sized", SHAPE_FREE },
	{ "free_aligned_sized", SHAPE_FREE },

	/*
	 * functions of the C library, or their replacements; memory that a heap maps passes through
	 * them, too
	 */
	{ "munmap", SHAPE_MUNMAP },
	{ "mmap", SHAPE_MMAP },
	{ "mmap64", SHAPE_MMAP },
	{ "mremap", SHAPE_MREMAP },

	X_FUNCTIONS(""),

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

	/* jemalloc as programs bundle it: redis, and Rust's tikv-jemallocator */
	C_FUNCTIONS("je_", DOMAIN_JEMALLOC),
	X_FUNCTIONS("je_"),
	C_FUNCTIONS("_rjem_", DOMAIN_JEMALLOC),
	X_FUNCTIONS("_rjem_"),

	/*
	 * gperftools: aliases of the functions above, and the names of malloc's functions in
	 * Google's newer tcmalloc
	 */
	C_FUNCTIONS("tc_", DOMAIN_TCMALLOC),
	TC("malloc_skip_new_handler", SHAPE_MALLOC),
	TC("free_sized", SHAPE_FREE),
	TC("new", SHAPE_MALLOC, .throws = true),
	TC("newarray", SHAPE_MALLOC, .throws = true),
	TC("new_nothrow", SHAPE_MALLOC),
	TC("newarray_nothrow", SHAPE_MALLOC),
	TC("new_aligned", SHAPE_MALLOC, .throws = true),
	TC("newarray_aligned", SHAPE_MALLOC, .throws = true),
	TC("new_aligned_nothrow", SHAPE_MALLOC),
	TC("newarray_aligned_nothrow", SHAPE_MALLOC),
	TC("delete", SHAPE_FREE),
	TC("deletearray", SHAPE_FREE),
	TC("delete_nothrow", SHAPE_FREE),
	TC("deletearray_nothrow", SHAPE_FREE),
	TC("delete_sized", SHAPE_FREE),
	TC("deletearray_sized", SHAPE_FREE),
	TC("delete_aligned", SHAPE_FREE),
	TC("deletearray_aligned", SHAPE_FREE),
	TC("delete_aligned_nothrow", SHAPE_FREE),
	TC("deletearray_aligned_nothrow", SHAPE_FREE),
	TC("delete_sized_aligned", SHAPE_FREE),
	TC("deletearray_sized_aligned", SHAPE_FREE),
	{ "TCMallocInternalMalloc", SHAPE_MALLOC, .prefix = "TCMallocInternal", .domain = DOMAIN_TCMALLOC },

	/* mimalloc's own: the size comes before the alignment */
	C_FUNCTIONS("mi_", DOMAIN_MIMALLOC),
	MI("free_size", SHAPE_FREE),
	MI("free_aligned", SHAPE_FREE),
	MI("free_size_aligned", SHAPE_FREE),
	MI("zalloc", SHAPE_MALLOC),
	MI("malloc_small", SHAPE_MALLOC),
	MI("zalloc_small", SHAPE_MALLOC),
	MI("malloc_aligned", SHAPE_MALLOC),
	MI("malloc_aligned_at", SHAPE_MALLOC),
	MI("zalloc_aligned", SHAPE_MALLOC),
	MI("zalloc_aligned_at", SHAPE_MALLOC),
	MI("new", SHAPE_MALLOC, .throws = true),
	MI("new_nothrow", SHAPE_MALLOC),
	MI("new_aligned", SHAPE_MALLOC, .throws = true),
	MI("new_aligned_nothrow", SHAPE_MALLOC),
	MI("new_n", SHAPE_CALLOC, .throws = true),
	MI("mallocn", SHAPE_CALLOC),
	MI("calloc_aligned", SHAPE_CALLOC),
	MI("calloc_aligned_at", SHAPE_CALLOC),
	MI("rezalloc", SHAPE_REALLOC),
	MI("reallocf", SHAPE_REALLOCF),
	MI("expand", SHAPE_REALLOC),
	MI("new_realloc", SHAPE_REALLOC, .throws = true),
	MI("realloc_aligned", SHAPE_REALLOC),
	MI("realloc_aligned_at", SHAPE_REALLOC),
	MI("rezalloc_aligned", SHAPE_REALLOC),
	MI("rezalloc_aligned_at", SHAPE_REALLOC),
	MI("reallocn", SHAPE_REALLOCARRAY),
	MI("reallocarray", SHAPE_REALLOCARRAY),
	MI("recalloc", SHAPE_REALLOCARRAY),
	MI("recalloc_aligned", SHAPE_REALLOCARRAY),
	MI("recalloc_aligned_at", SHAPE_REALLOCARRAY),
	MI("aligned_recalloc", SHAPE_REALLOCARRAY),
	MI("aligned_offset_recalloc", SHAPE_REALLOCARRAY),
	MI("new_reallocn", SHAPE_REALLOCARRAY, .throws = true),

	/* ... in a heap that the first argument names */
	MI_HEAP("malloc", SHAPE_MALLOC),
	MI_HEAP("zalloc", SHAPE_MALLOC),
	MI_HEAP("malloc_small", SHAPE_MALLOC),
	MI_HEAP("malloc_aligned", SHAPE_MALLOC),
	MI_HEAP("malloc_aligned_at", SHAPE_MALLOC),
	MI_HEAP("zalloc_aligned", SHAPE_MALLOC),
	MI_HEAP("zalloc_aligned_at", SHAPE_MALLOC),
	MI_HEAP("alloc_new", SHAPE_MALLOC, .throws = true),
	MI_HEAP("alloc_new_n", SHAPE_CALLOC, .throws = true),
	MI_HEAP("calloc", SHAPE_CALLOC),
	MI_HEAP("calloc_aligned", SHAPE_CALLOC),
	MI_HEAP("calloc_aligned_at", SHAPE_CALLOC),
	MI_HEAP("mallocn", SHAPE_CALLOC),
	MI_HEAP("realloc", SHAPE_REALLOC),
	MI_HEAP("realloc_aligned", SHAPE_REALLOC),
	MI_HEAP("realloc_aligned_at", SHAPE_REALLOC),
	MI_HEAP("reallocf", SHAPE_REALLOCF),
	MI_HEAP("rezalloc", SHAPE_REALLOC),
	MI_HEAP("rezalloc_aligned", SHAPE_REALLOC),
	MI_HEAP("rezalloc_aligned_at", SHAPE_REALLOC),
	MI_HEAP("reallocn", SHAPE_REALLOCARRAY),
	MI_HEAP("recalloc", SHAPE_REALLOCARRAY),
	MI_HEAP("recalloc_aligned", SHAPE_REALLOCARRAY),
	MI_HEAP("recalloc_aligned_at", SHAPE_REALLOCARRAY),
};
const size_t allocator_function_nr = ARRAY_SIZE(allocator_functions);

unsigned int shape_argument_nr(enum call_shape shape)
{
	static const unsigned int argument_nr[SHAPE_NR] = {
		[SHAPE_MALLOC] = 1,	  [SHAPE_CALLOC] = 2,	[SHAPE_REALLOC] = 2,
		[SHAPE_REALLOCARRAY] = 3, [SHAPE_MEMALIGN] = 2, [SHAPE_POSIX_MEMALIGN] = 3,
		[SHAPE_FREE] = 1,	  [SHAPE_MMAP] = 2,	[SHAPE_MUNMAP] = 2,
		[SHAPE_MREMAP] = 4,	  [SHAPE_REALLOCF] = 2,	[SHAPE_XALLOCX] = 2,
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
	case SHAPE_USER_FREE:
	case SHAPE_REPORTED_FREE:
	case SHAPE_USER_REALLOC:
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
	{ "musl", "libc.so", 0, true }, /* Debian's; a libc.so of glibc is a linker script */
	{ "jemalloc", "libjemalloc.so*", DOMAIN_JEMALLOC },
	{ "tcmalloc", "libtcmalloc*.so*", DOMAIN_TCMALLOC },
	{ "mimalloc", "libmimalloc*.so*", DOMAIN_MIMALLOC },
	{ "program", "*", 0 }, /* linked statically, or the program's own malloc */
};

const struct allocator *allocator_of(const char *path)
{
	const struct allocator *row = allocators;

	while (fnmatch(row->object, path_name(path), 0))
		row++;
	return row;
}

const char *domain_name(uint32_t domain)
{
	static const char *const names[] = { "malloc", [DOMAIN_MAPPING] = "mmap", [DOMAIN_PYTHON] = "python",
					       [DOMAIN_GO] = "go", [DOMAIN_JAVA] = "java", [DOMAIN_PAGES] = "pages" };

	if (domain < ARRAY_SIZE(names) && names[domain])
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

/* NULL: the name is not in the table, for example one from the command line. */
static const struct allocator_function *row_of(size_t name)
{
	return name < allocator_function_nr ? &allocator_functions[name] : NULL;
}

static const char *prefix_of(const struct allocator_function *row)
{
	return row->prefix ?: "";
}

static bool is_called(const struct allocator_function *row, const char *prefix, const char *name)
{
	return row && !strcmp(prefix_of(row), prefix) && !strcmp(row->name + strlen(prefix), name);
}

/* ---- whether functions are an allocator's ---- */

/* The array is sorted by name, so functions of the same name are neighbours. */
static bool is_only_one(const struct elf_function *function, size_t nr, size_t i)
{
	return (!i || function[i - 1].name != function[i].name) &&
	       (i + 1 == nr || function[i + 1].name != function[i].name);
}

static const struct elf_function *find_only_one(const struct elf_function *function, size_t nr,
						const char *prefix, const char *name)
{
	for (size_t i = 0; i < nr; i++)
		if (is_called(row_of(function[i].name), prefix, name))
			return is_only_one(function, nr, i) ? &function[i] : NULL;
	return NULL;
}

bool heap_functions_are_whole(const struct elf_function *function, size_t nr, const char *prefix)
{
	static const char *const part[] = { "malloc", "free", "calloc", "realloc" };
	uint64_t vaddr[ARRAY_SIZE(part)];

	for (size_t i = 0; i < ARRAY_SIZE(part); i++) {
		const struct elf_function *found = find_only_one(function, nr, prefix, part[i]);

		if (!found)
			return false;
		vaddr[i] = found->vaddr;
		for (size_t k = 0; k < i; k++)
			if (vaddr[k] == vaddr[i])
				return false;
	}
	return true;
}

static bool has_prefixed_function(const struct elf_function *function, size_t nr, const char *prefix,
				  const char *name)
{
	for (size_t i = 0; i < nr; i++)
		if (is_called(row_of(function[i].name), prefix, name))
			return true;
	return false;
}

static bool is_heap_function(const struct elf_function *function, size_t nr, size_t i)
{
	const struct allocator_function *row = row_of(function[i].name);
	const char *prefix = row ? prefix_of(row) : NULL;

	if (!row)
		return true;
	if (row->own && !has_prefixed_function(function, nr, prefix, "malloc") &&
	    !has_prefixed_function(function, nr, prefix, "free"))
		return false;
	return !function[i].is_local || (is_only_one(function, nr, i) && heap_functions_are_whole(function, nr, prefix));
}

void heap_functions(const struct elf_function *function, size_t nr, bool *ret_taken)
{
	for (size_t i = 0; i < nr; i++)
		ret_taken[i] = is_heap_function(function, nr, i);
}

/* ---- which allocator's functions they are ---- */

static const struct object_function *common_malloc(const struct probe_info *probe_info)
{
	for (uint32_t i = 0; i < probe_info->function_nr; i++)
		if (is_called(row_of(probe_info->function[i].name), "", "malloc"))
			return &probe_info->function[i];
	return NULL;
}

/*
 * The domain of the file's malloc according to this function: the function is another name of
 * malloc, or it has no prefix and belongs to one allocator only. Else 0.
 */
static uint32_t domain_for(const struct object_function *malloc, const struct object_function *function)
{
	const struct allocator_function *row = row_of(function->name);

	return row && (function->vaddr == malloc->vaddr || !*prefix_of(row)) ? row->domain : 0;
}

static uint32_t common_domain(const struct probe_info *probe_info, const char *path)
{
	const struct object_function *malloc = common_malloc(probe_info);
	uint32_t domain = 0;

	for (uint32_t i = 0; i < probe_info->function_nr && malloc && !domain; i++)
		domain = domain_for(malloc, &probe_info->function[i]);
	return domain ?: allocator_of(path)->domain;
}

uint32_t heap_domain(const struct probe_info *probe_info, uint32_t i, const char *path)
{
	return row_of(probe_info->function[i].name)->domain ?: common_domain(probe_info, path);
}

static bool has_common_name(const struct probe_info *probe_info, uint64_t vaddr)
{
	for (uint32_t i = 0; i < probe_info->function_nr; i++) {
		const struct allocator_function *row = row_of(probe_info->function[i].name);

		if (row && !*prefix_of(row) && probe_info->function[i].vaddr == vaddr)
			return true;
	}
	return false;
}

bool heap_is_seldom_called(const struct probe_info *probe_info, uint32_t i)
{
	return !probe_info->entry && common_malloc(probe_info) && !has_common_name(probe_info, probe_info->function[i].vaddr);
}
