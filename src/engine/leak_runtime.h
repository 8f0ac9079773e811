/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_LEAK_RUNTIME_H
#define ALLOCSNAP_ENGINE_LEAK_RUNTIME_H

/* Which runtimes interpret or compile the code that calls what leaks: such code has no names in a snapshot. */

#include "engine/leak_report.h"
#include "shared/call_types.h"

enum leak_runtime {
	LEAK_RUNTIME_PYTHON,
	LEAK_RUNTIME_JAVASCRIPT,
	LEAK_RUNTIME_JAVA,
	LEAK_RUNTIME_NR,
};

/* Hints about the lines of a recording, and about code that a runtime runs: 1 << enum leak_runtime. */
#define LEAK_HINT_KEPT_LINES LEAK_RUNTIME_NR
#define LEAK_HINT_POOLS (LEAK_HINT_KEPT_LINES + 1)
#define LEAK_HINT_PAGES (LEAK_HINT_POOLS + 1)
#define LEAK_HINT_NAMELESS (LEAK_HINT_PAGES + 1) /* a row is a place of a file without names */
#define LEAK_HINT_NR (LEAK_HINT_NAMELESS + 1)

/* Hints about each line of a recording, by any snapshot of it: bits 1 << LEAK_HINT_KEPT_LINES to 1 << LEAK_HINT_PAGES. */
unsigned int leak_recording_hints(const struct snapshot *snapshot);

/* Whether objects of Python in memory that a free list has kept have the line of the first object there. */
bool has_kept_lines(const struct snapshot *snapshot);

/*
 * Whether a traceback goes through code that was made at run time. A compiler may make such code anew, at another
 * address and with other calls inlined: then the same call has another traceback.
 */
bool leak_passes_made_code(const struct snapshot *snapshot, uint32_t traceback);

/* Whether the blocks are resident pages. */
bool leaks_are_of_pages(const struct snapshot *snapshot);

/* Whether Python's pools are recorded beside the heap, and not in its place. */
bool has_heap_beside(const struct snapshot *snapshot);

/* Whether the line is only a place of a file: it has neither a function nor a line of source. */
bool leak_line_is_nameless(const struct leaks *leaks, const struct leak_line *line);

/* The runtimes among the callers of a line: bits 1 << enum leak_runtime. */
unsigned int leak_line_runtimes(const struct leaks *leaks, const struct leak_line *line);

/*
 * How much growth of RSS blocks explain, and mappings, if these are recorded. Mappings that grew by more than twice as much
 * as RSS explain nothing: most of them is address space that was not touched.
 */
double leaks_traced_growth(const struct leaks *leaks);

/* Whether the growth of a line explains growth of RSS. */
bool leak_line_explains(const struct leaks *leaks, const struct leak_line *line);

/*
 * By how many bytes RSS grew that nothing traced explains, beside files and shared memory, if that is most of its growth,
 * and a MiB or more; otherwise 0.
 */
double leaks_untraced_growth(const struct leaks *leaks);

/* The same growth, if the recording has so few samples that blocks without one may explain it. */
double leaks_missed_growth(const struct leaks *leaks);

/* The likely kind of that memory. */
enum leak_untraced {
	LEAK_UNTRACED_UNKNOWN,
	LEAK_UNTRACED_NAMED,	     /* the metadata `unrecorded` names it */
	LEAK_UNTRACED_SMALL_OBJECTS, /* Python's, in its arenas, of which only the C heap is recorded */
	LEAK_UNTRACED_LARGE_OBJECTS, /* Python's, of which only pools of small objects are recorded */
	LEAK_UNTRACED_JAVA,	     /* all but Java's living objects */
	LEAK_UNTRACED_PYTHONS_HEAP,  /* what C code takes from the heap, in a Python of which only objects are recorded */
	LEAK_UNTRACED_NR,
};

struct untraced_growth {
	enum leak_untraced kind;
	const char *name; /* LEAK_UNTRACED_NAMED: what the recorder says of it; otherwise NULL */
	double bytes, anonymous_bytes; /* so many of those by which anonymous memory grew */
};

struct untraced_growth leaks_find_untraced(const struct leaks *leaks);

#endif
