// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/trace_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine.h"
#include "engine/pattern.h"
#include "snapshot.h"

enum match {
	EXACT,	  /* the whole name */
	PREFIXED, /* the whole name, alone or after one of prefixes[] */
	BEGINS,	  /* the start of the name */
};

static const char *const prefixes[] = {
	"__",  "__libc_", "__GI_", "__GI___", "__GI___libc_",
	"je_", "_rjem_",  "tc_",   "mi_",     "mi_heap_",
};

static const struct {
	const char *name;
	enum match match;
} wrappers[] = {
	{ "malloc", PREFIXED },
	{ "calloc", PREFIXED },
	{ "realloc", PREFIXED },
	{ "reallocarray", PREFIXED },
	{ "memalign", PREFIXED },
	{ "aligned_alloc", PREFIXED },
	{ "posix_memalign", PREFIXED },
	{ "valloc", PREFIXED },
	{ "pvalloc", PREFIXED },

	/* glibc's internal names */
	{ "_int_malloc", EXACT },
	{ "_int_realloc", EXACT },
	{ "_int_memalign", EXACT },
	{ "_mid_memalign", EXACT },

	/* jemalloc */
	{ "mallocx", PREFIXED },
	{ "rallocx", PREFIXED },

	/* tcmalloc */
	{ "tc_new", EXACT },
	{ "tc_new_nothrow", EXACT },
	{ "tc_new_aligned", EXACT },
	{ "tc_new_aligned_nothrow", EXACT },
	{ "tc_newarray", EXACT },
	{ "tc_newarray_nothrow", EXACT },
	{ "tc_newarray_aligned", EXACT },
	{ "tc_newarray_aligned_nothrow", EXACT },
	{ "tc_malloc_skip_new_handler", EXACT },

	/* mimalloc */
	{ "mi_zalloc", EXACT },
	{ "mi_mallocn", EXACT },
	{ "mi_malloc_small", EXACT },
	{ "mi_zalloc_small", EXACT },
	{ "mi_malloc_aligned", EXACT },
	{ "mi_zalloc_aligned", EXACT },
	{ "mi_calloc_aligned", EXACT },
	{ "mi_realloc_aligned", EXACT },
	{ "mi_heap_zalloc", EXACT },
	{ "mi_heap_malloc_aligned", EXACT },
	{ "mi_heap_zalloc_aligned", EXACT },
	{ "mi_new", EXACT },
	{ "mi_new_n", EXACT },
	{ "mi_new_nothrow", EXACT },
	{ "mi_new_aligned", EXACT },
	{ "mi_new_aligned_nothrow", EXACT },
	{ "_mi_malloc_generic", EXACT },
	{ "_mi_heap_malloc_zero", EXACT },

	/* C++ */
	{ "operator new", EXACT },
	{ "operator new(", BEGINS },
	{ "operator new[]", EXACT },
	{ "operator new[](", BEGINS },
	{ "_Znw", BEGINS },
	{ "_Zna", BEGINS },
};

/* A function's name as it may be in the table: the whole name, or the rest after one of prefixes[]. */
struct spelling {
	const char *text;
	size_t len;
};

static bool same(const char *name, const struct spelling *spelling)
{
	return name[0] == spelling->text[0] && !strncmp(name, spelling->text, spelling->len) &&
	       !name[spelling->len];
}

/* The first spelling is the whole name. */
static size_t spell(const char *function, struct spelling spelling[1 + ARRAY_SIZE(prefixes)])
{
	/* without the symbol's version and the compiler's ".part.0" */
	size_t len = strcspn(function, "@."), nr = 0;

	spelling[nr++] = (struct spelling){ function, len };
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		size_t skip = strlen(prefixes[i]);

		if (!strncmp(function, prefixes[i], skip))
			spelling[nr++] = (struct spelling){ function + skip, len - skip };
	}
	return nr;
}

static bool matches_spelling(const char *name, enum match match, const struct spelling *spelling, size_t nr)
{
	if (match == BEGINS)
		return name[0] == spelling->text[0] &&
		       !strncmp(spelling->text, name, strlen(name));
	if (match == EXACT)
		nr = 1;
	for (size_t i = 0; i < nr; i++)
		if (same(name, &spelling[i]))
			return true;
	return false;
}

static bool is_allocator(const char *function)
{
	struct spelling spelling[1 + ARRAY_SIZE(prefixes)];
	size_t nr = spell(function, spelling);

	for (size_t i = 0; i < ARRAY_SIZE(wrappers); i++)
		if (matches_spelling(wrappers[i].name, wrappers[i].match, spelling, nr))
			return true;
	return false;
}

bool function_is_wrapper(const char *function, const struct engine_options *options)
{
	if (!function || options->keep_wrappers)
		return false;
	for (size_t i = 0; i < options->skip_nr; i++)
		if (pattern_matches(options->skip[i], function))
			return true;
	return is_allocator(function);
}

enum wrapper_memo {
	WRAPPER_NOT_ASKED = 0,
	WRAPPER_NO,
	WRAPPER_YES,
};

int source_init(struct source *source, const struct snapshot *snapshot,
		const struct engine_options *options)
{
	*source = (struct source){
		.snapshot = snapshot,
		.tables = snapshot__tables(snapshot),
		.options = options,
	};
	if (source->tables->gap_nr)
		source->gap_ns = source->tables->gap[source->tables->gap_nr - 1].start_ns;
	source->wrapper = calloc(source->tables->string_nr ?: 1, sizeof(*source->wrapper));
	return source->wrapper ? 0 : -ENOMEM;
}

void source_release(struct source *source)
{
	free(source->wrapper);
	memset(source, 0, sizeof(*source));
}

static bool is_wrapper(struct source *source, uint32_t frame)
{
	uint32_t function = source->tables->frame[frame].function;
	uint8_t *memo = &source->wrapper[function];

	if (*memo == WRAPPER_NOT_ASKED) {
		const char *name = snapshot__string(source->snapshot, function);
		bool is = *name && function_is_wrapper(name, source->options);

		*memo = is ? WRAPPER_YES : WRAPPER_NO;
	}
	return *memo == WRAPPER_YES;
}

struct frame_span source_frames(struct source *source, uint32_t traceback)
{
	static const uint32_t none;
	const struct snapshot_tables *tables = source->tables;
	const struct snap_traceback *row = &tables->traceback[traceback];
	const uint32_t *frame;
	uint32_t skip = 0;

	if (!row->nframe)
		return (struct frame_span){ .frame = &none, .nframe = 1 };
	frame = &tables->traceback_frame[row->first];
	while (skip < row->nframe && is_wrapper(source, frame[skip]))
		skip++;
	if (skip == row->nframe)
		skip = 0;
	else if (skip && tables->frame[frame[skip]].flags & SNAP_FRAME_SKIPPED)
		skip--; /* the wrapper is the only known frame of the caller */
	return (struct frame_span){ .frame = frame + skip, .nframe = row->nframe - skip };
}

int age_now(const struct snapshot *snapshot, uint64_t *ret_now_ns, struct reason *why)
{
	uint64_t now_ns = snapshot__metadata_u64(snapshot, "monotonic_ns", UINT64_MAX);

	if (!snapshot__tables(snapshot)->trace_birth_ns)
		return reason_set(why, -ENODATA, "the snapshot has no birth times, hence no ages");
	if (now_ns == UINT64_MAX)
		return reason_set(why, -ENODATA, "the snapshot does not say when it was taken "
						 "(monotonic_ns), hence no ages");
	*ret_now_ns = now_ns;
	return 0;
}

uint64_t age_of(const struct snapshot_tables *tables, uint64_t at, uint64_t now_ns)
{
	uint64_t birth_ns = tables->trace_birth_ns[at];

	return birth_ns < now_ns ? now_ns - birth_ns : 0;
}
