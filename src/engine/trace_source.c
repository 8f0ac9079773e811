// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/frame.h"
#include "engine/trace_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "engine.h"
#include "engine/function_name.h"
#include "engine/pattern.h"
#include "engine/wrappers.h"
#include "snapshot.h"

/* ---- what a frame is ------------------------------------------------------------------------------- */

#define IS_ASKED (1u << 31) /* of a set of groups in a memo */

/* Each name is taken apart once. */
static uint32_t groups_of_name(struct source *source, uint32_t function)
{
	uint32_t *memo = &source->name_groups[function];

	if (!*memo) {
		function_name_copy(source->scratch, snapshot__string(source->snapshot, function), NAME_BASE);
		*memo = wrapper_groups_named(source->scratch) | IS_ASKED;
	}
	return *memo & ~IS_ASKED;
}

static const char *object_path_of(const struct source *source, uint32_t object)
{
	return snapshot__string(source->snapshot, source->tables->object[object].path);
}

static uint32_t groups_of_object(struct source *source, uint32_t object)
{
	uint32_t *memo = &source->object_groups[object];

	if (!*memo)
		*memo = wrapper_groups_in_file(object_path_of(source, object)) | IS_ASKED;
	return *memo & ~IS_ASKED;
}

static enum frame_role role_by_object(struct source *source, uint32_t object)
{
	uint8_t *memo = &source->object_role[object];

	if (!*memo)
		*memo = wrapper_role_by_path(object_path_of(source, object));
	return *memo;
}

static enum frame_role role_by_name(struct source *source, const struct snap_frame *row)
{
	uint32_t named = groups_of_name(source, row->function);
	struct wrapper_place place = {};

	if (!named)
		return ROLE_OWN;
	place.in_object = groups_of_object(source, row->object);
	if (row->lineno)
		place.source = snapshot__string(source->snapshot, row->filename);
	else
		place.has_parameters = function_name_has_parameters(
			snapshot__string(source->snapshot, row->function), source->scratch);
	return wrapper_role(named, &place);
}

/* A pattern with '/' is compared with paths, one with '.' also with their last parts. */
static bool is_place_matched(const char *pattern, const char *path)
{
	if (!*path)
		return false;
	if (strchr(pattern, '/'))
		return pattern_matches_filename(pattern, path) || pattern_matches_folder(pattern, path);
	return strchr(pattern, '.') && pattern_matches_filename(pattern, path_name(path));
}

static bool is_skipped_frame(struct source *source, uint32_t frame)
{
	const struct snap_frame *row = &source->tables->frame[frame];
	const char *function = snapshot__string(source->snapshot, row->function);
	const char *filename = snapshot__string(source->snapshot, row->filename);
	const char *path = object_path_of(source, row->object);

	for (size_t i = 0; i < source->options->skip_nr; i++) {
		const char *pattern = source->options->skip[i];

		if (*function && function_name_matches(pattern, function, source->scratch))
			return true;
		if (is_place_matched(pattern, filename) || is_place_matched(pattern, path))
			return true;
	}
	return false;
}

/* A named frame of code that was made at run time: it has an address and lies in no file. */
static bool is_made_frame(const struct snap_frame *row)
{
	return !row->object && row->offset && row->function && !row->lineno && !(row->flags & SNAP_FRAME_SKIPPED);
}

/* node's own JavaScript: "JS:*alloc node:buffer:380:30". */
static bool is_library_of_runtime(const struct source *source, const struct snap_frame *row)
{
	return is_made_frame(row) && strstr(snapshot__string(source->snapshot, row->function), " node:");
}

static bool is_java_class(const struct source *source, const struct snap_frame *row)
{
	return !row->object && !strcmp(snapshot__string(source->snapshot, row->filename), JAVA_CLASS_FILE);
}

/*
 * In a Java virtual machine (java/samples_reader.h) the class of the object stands for its allocator, and Java's own classes work
 * for the program's.
 */
static enum frame_role role_in_java(const struct source *source, const struct snap_frame *row)
{
	const char *filename = row->object ? "" : snapshot__string(source->snapshot, row->filename);

	if (is_java_class(source, row))
		return ROLE_ALLOCATOR;
	return !strncmp(filename, "<java>/", strlen("<java>/")) ? ROLE_PLUMBING : ROLE_OWN;
}

enum frame_role source_role(struct source *source, uint32_t frame)
{
	const struct snap_frame *row = &source->tables->frame[frame];
	uint8_t *memo = &source->frame_role[frame];

	if (*memo != ROLE_NOT_ASKED)
		return *memo;
	*memo = role_by_name(source, row);
	if (*memo == ROLE_OWN)
		*memo = role_by_object(source, row->object);
	if (*memo == ROLE_OWN)
		*memo = role_in_java(source, row);
	if (*memo < ROLE_PLUMBING && (is_skipped_frame(source, frame) || is_library_of_runtime(source, row)))
		*memo = ROLE_PLUMBING;
	return *memo;
}

/* Whether the frame's source file or object is one of the project, or lies in a folder of it. */
static bool is_project_frame(const struct source *source, uint32_t frame)
{
	const struct snap_frame *row = &source->tables->frame[frame];
	const char *filename = snapshot__string(source->snapshot, row->filename);
	const char *path = object_path_of(source, row->object);

	for (size_t i = 0; i < source->options->project_nr; i++) {
		const char *pattern = source->options->project[i];

		if (pattern_matches_filename(pattern, filename) || pattern_matches_folder(pattern, filename) ||
		    pattern_matches(pattern, path) || pattern_matches_folder(pattern, path))
			return true;
	}
	return false;
}

/* ---- where a traceback starts ---------------------------------------------------------------------- */

/* A dictionary has two rows for one file: frames with names refer to a row without a build-id (fleet/dictionary.c). */
static bool is_in_file_of(const struct source *source, const struct snap_frame *frame, uint32_t object)
{
	const struct snap_object *a = &source->tables->object[frame->object], *b = &source->tables->object[object];

	return frame->object == object || (a->path == b->path && (!a->build_id || !b->build_id));
}

/*
 * The number of leading frames without names that an allocator of the same file called. Stripped files have such: the
 * static functions behind palloc.
 */
static uint32_t count_nameless(struct source *source, const uint32_t *frame, uint32_t nframe)
{
	const struct snap_frame *table = source->tables->frame;
	uint32_t object = table[frame[0]].object, nr = 0;

	while (nr < nframe && object && table[frame[nr]].object == object && !table[frame[nr]].function &&
	       !table[frame[nr]].lineno)
		nr++;
	if (nr == nframe || !is_in_file_of(source, &table[frame[nr]], object) ||
	    source_role(source, frame[nr]) < ROLE_ALLOCATOR)
		return 0;
	return nr;
}

/* The number of leading frames with at least the role. */
static uint32_t count_leading(struct source *source, const uint32_t *frame, uint32_t nframe, enum frame_role least)
{
	uint32_t nr = 0, more = 1;

	while (nr < nframe && more) {
		more = source_role(source, frame[nr]) >= least ? 1 : count_nameless(source, frame + nr, nframe - nr);
		nr += more;
	}
	return nr;
}

/* Farther out nothing belongs to the sampler. */
#define SAMPLER_FRAMES_MAX 8

/*
 * The number of leading frames of the process's own sampler: the function with the probe, which every sample's traceback
 * begins with, and calls inlined there. An allocator that called it owns what lies between the two. Allocsnap's samplers
 * have files of their own (ROLE_SAMPLER).
 */
static uint32_t count_sampler(struct source *source, const uint32_t *frame, uint32_t nframe)
{
	const struct snap_frame *table = source->tables->frame, *first = &table[frame[0]];
	uint32_t nr = 0;

	if (!source->sampler_object || first->object != source->sampler_object)
		return 0;
	while (nr < nframe && table[frame[nr]].object == first->object && table[frame[nr]].offset == first->offset)
		nr++;
	for (uint32_t i = nr; i < nframe && i < nr + SAMPLER_FRAMES_MAX; i++) {
		if (table[frame[i]].flags & SNAP_FRAME_SKIPPED)
			break;
		if (source_role(source, frame[i]) >= ROLE_ALLOCATOR)
			return i;
	}
	return nr;
}

/* C++'s library calls nothing of the program inside operator new but a new_handler, which allocates for itself. */
static bool is_new_handler(struct source *source, uint32_t frame, uint32_t called)
{
	const struct snap_frame *row = &source->tables->frame[frame];

	return wrapper_is_cxx_new(groups_of_name(source, row->function)) &&
	       role_by_object(source, row->object) >= ROLE_PLUMBING && source_role(source, called) == ROLE_OWN;
}

/* Whether a signal's handler ran at one of the frames first … last. */
static bool is_interrupted(const struct source *source, const uint32_t *frame, uint32_t first, uint32_t last)
{
	for (uint32_t i = first; i <= last; i++)
		if (source->tables->frame[frame[i]].flags & SNAP_FRAME_EXACT)
			return true;
	return false;
}

/*
 * The number of leading frames up to the outermost entry of a heap: operator new, malloc and the like. All calls inside
 * such a function are its work, also if the program defines it. A signal's handler does not work for the function that
 * it interrupted.
 */
static uint32_t count_heap(struct source *source, const uint32_t *frame, uint32_t nframe)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < nframe; i++) {
		if ((source->frame_role[frame[i]] ?: source_role(source, frame[i])) != ROLE_HEAP)
			continue;
		if (is_interrupted(source, frame, nr ?: 1, i) || (i && is_new_handler(source, frame[i], frame[i - 1])))
			break;
		nr = i + 1;
	}
	return nr;
}

/* The first frame of the project from `begin` on, before any frames are missing; nframe: no such frame. */
static uint32_t find_project_frame(struct source *source, const uint32_t *frame, uint32_t nframe, uint32_t begin)
{
	for (uint32_t i = begin; i < nframe && source->options->project_nr; i++) {
		if (source->tables->frame[frame[i]].flags & SNAP_FRAME_SKIPPED)
			break;
		if (is_project_frame(source, frame[i]) && source_role(source, frame[i]) < ROLE_PLUMBING)
			return i;
	}
	return nframe;
}

/*
 * The first frame from `begin` on of named code made at run time, if all frames before it work for it: the file that called
 * that code is its runtime, and so are all functions of this file that it calls. nframe: no such frame.
 */
static uint32_t find_made_frame(struct source *source, const uint32_t *frame, uint32_t nframe, uint32_t begin)
{
	const struct snap_frame *table = source->tables->frame;
	uint32_t made = begin, caller;

	while (made < nframe && (!is_made_frame(&table[frame[made]]) || source_role(source, frame[made]) >= ROLE_PLUMBING))
		made++;
	for (caller = made; caller < nframe && !table[frame[caller]].object && !(table[frame[caller]].flags & SNAP_FRAME_SKIPPED);)
		caller++;
	if (caller == nframe || !table[frame[caller]].object)
		return nframe;
	for (uint32_t i = begin; i < made; i++)
		if (source_role(source, frame[i]) < ROLE_PLUMBING && table[frame[i]].object != table[frame[caller]].object)
			return nframe;
	return made;
}

/*
 * The first own frame from `begin` on. Code that only the start of a thread called is as near to an own frame as the
 * traceback gets: a compiler may have inlined the thread's function into std::thread. nframe: no such frame.
 */
static uint32_t find_own_frame_from(struct source *source, const uint32_t *frame, uint32_t nframe, uint32_t begin)
{
	uint32_t first = find_project_frame(source, frame, nframe, begin), sampler = count_sampler(source, frame, nframe);

	if (first < nframe)
		return first;
	if (begin < sampler)
		begin = sampler;
	if (source->has_made_code) {
		first = find_made_frame(source, frame, nframe, begin);
		if (first < nframe)
			return first;
	}
	first = begin + count_leading(source, frame + begin, nframe - begin, ROLE_PLUMBING);
	if (first == nframe || source_role(source, frame[first]) == ROLE_START)
		first = begin + count_leading(source, frame + begin, nframe - begin, ROLE_ALLOCATOR);
	return first;
}

/* If the callers of the heap are not known, its own frames have to do. nframe: all frames are the sampler's. */
static uint32_t find_own_frame(struct source *source, const uint32_t *frame, uint32_t nframe)
{
	uint32_t heap = count_heap(source, frame, nframe);
	uint32_t first = find_own_frame_from(source, frame, nframe, heap);

	if (first == nframe && heap)
		first = find_own_frame_from(source, frame, nframe, 0);
	return first < nframe ? first : count_leading(source, frame, nframe, ROLE_SAMPLER);
}

struct frame_span source_frames(struct source *source, uint32_t traceback)
{
	static const uint32_t none;
	const struct snapshot_tables *tables = source->tables;
	const struct snap_traceback *row = &tables->traceback[traceback];
	const uint32_t *frame;
	uint32_t first = 0;

	if (!row->nframe)
		return (struct frame_span){ .frame = &none, .nframe = 1 };
	frame = &tables->traceback_frame[row->first];
	if (!source->options->keep_wrappers && !source->options->tracemalloc)
		first = find_own_frame(source, frame, row->nframe);
	if (first == row->nframe)
		return (struct frame_span){ .frame = &none, .nframe = 1 };
	if (first && tables->frame[frame[first]].flags & SNAP_FRAME_SKIPPED &&
	    source_role(source, frame[first - 1]) != ROLE_SAMPLER)
		first--; /* the wrapper is the only known frame of the caller */
	return (struct frame_span){ .frame = frame + first, .nframe = row->nframe - first };
}

struct frame_span source_object_frames(struct source *source, uint32_t traceback)
{
	const struct snap_traceback *row = &source->tables->traceback[traceback];
	const uint32_t *frame = row->nframe ? &source->tables->traceback_frame[row->first] : NULL;

	if (frame && is_java_class(source, &source->tables->frame[*frame]))
		return (struct frame_span){ .frame = frame, .nframe = 1 };
	return source_frames(source, traceback);
}

/* ---- life --------------------------------------------------------------------------------------------- */

static size_t longest_string(const struct snapshot *snapshot)
{
	uint32_t nr = snapshot__tables(snapshot)->string_nr;
	size_t longest = 0;

	for (uint32_t i = 0; i < nr; i++) {
		size_t len = strlen(snapshot__string(snapshot, i));

		longest = len > longest ? len : longest;
	}
	return longest;
}

/* The file that the metadata names. 0: they do not, or no frame is in it. */
static uint32_t find_named_object(const struct snapshot *snapshot, const struct snapshot_tables *tables, const char *key)
{
	const char *path = snapshot__metadata(snapshot, key);

	for (uint32_t i = 1; path && i < tables->object_nr; i++)
		if (!strcmp(snapshot__string(snapshot, tables->object[i].path), path))
			return i;
	return 0;
}

/* With frames of C code and of Python code, CPython's own C code works for the Python code that it runs. */
static void skip_interpreter(struct source *source)
{
	const char *frames = snapshot__metadata(source->snapshot, "python_frames");
	uint32_t object = find_named_object(source->snapshot, source->tables, "python_file");

	if (object && frames && !strcmp(frames, "mixed"))
		source->object_role[object] = ROLE_PLUMBING;
}

int source_init(struct source *source, const struct snapshot *snapshot,
		const struct engine_options *options)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	*source = (struct source){ .snapshot = snapshot, .tables = tables, .options = options };
	if (tables->gap_nr)
		source->gap_ns = tables->gap[tables->gap_nr - 1].start_ns;
	source->sampler_object = find_named_object(snapshot, tables, "sampler");
	source->name_groups = calloc(tables->string_nr ?: 1, sizeof(*source->name_groups));
	source->frame_role = calloc(tables->frame_nr ?: 1, sizeof(*source->frame_role));
	source->object_role = calloc(tables->object_nr ?: 1, sizeof(*source->object_role));
	source->object_groups = calloc(tables->object_nr ?: 1, sizeof(*source->object_groups));
	source->scratch = malloc(longest_string(snapshot) + 1);
	if (!source->name_groups || !source->frame_role || !source->object_role || !source->object_groups ||
	    !source->scratch)
		return -ENOMEM;
	skip_interpreter(source);
	source->has_made_code = array_any(tables->frame_nr, i, is_made_frame(&tables->frame[i]));
	return 0;
}

void source_release(struct source *source)
{
	free(source->name_groups);
	free(source->frame_role);
	free(source->object_role);
	free(source->object_groups);
	free(source->scratch);
	memset(source, 0, sizeof(*source));
}

/* ---- ages ----------------------------------------------------------------------------------------------- */

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
