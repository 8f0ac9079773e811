/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_LEAK_RUNTIME_H
#define ALLOCSNAP_ENGINE_LEAK_RUNTIME_H

/* Which runtimes interpret or compile the code that calls what leaks: such code has no names in a snapshot. */

#include "engine/leak_report.h"

enum leak_runtime {
	LEAK_RUNTIME_PYTHON,
	LEAK_RUNTIME_JAVASCRIPT,
	LEAK_RUNTIME_JAVA,
	LEAK_RUNTIME_NR,
};

/*
 * Whether a traceback goes through code that was made at run time. A compiler may make such code anew, at another
 * address and with other calls inlined: then the same call has another traceback.
 */
bool leak_passes_made_code(const struct snapshot *snapshot, uint32_t traceback);

/* The runtimes among the callers of a line: bits 1 << enum leak_runtime. */
unsigned int leak_line_runtimes(const struct leaks *leaks, const struct leak_line *line);

/*
 * Whether RSS grows by more than twice what is traced, in a Python whose small objects are not recorded: it takes them
 * from arenas, which are mappings.
 */
bool leaks_miss_small_objects(const struct leaks *leaks, unsigned int runtimes);

/* The same, where only pools of Python's small objects are recorded. */
bool leaks_miss_large_objects(const struct leaks *leaks);

/* The same in a Python of which only the objects are recorded: C code may have taken the rest from the heap. */
bool leaks_miss_heap(const struct leaks *leaks);

#endif
