// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Hints how to get the lines of code that a runtime interprets or compiles (engine/leak_runtime.h). */
#include "render/leak_answer.h"

#include <errno.h>

#include "render/caveats.h"
#include "render/clean.h"
#include "render/json_parts.h"

static const char *const leak_hint[LEAK_HINT_NR] = {
	[LEAK_HINT_KEPT_LINES] = KEPT_LINES_TEXT,
	[LEAK_HINT_POOLS] = "a pool of Python's small objects counts for the line that took it, also if another line keeps what is "
			    "in it: 'leaks PID' judges each object",
	[LEAK_RUNTIME_PYTHON] = "Python code calls what leaks: '--domain python' names its lines; where that is refused, run "
				"it with 'python3 -X tracemalloc': tracemalloc-to-json reads its snapshots",
	[LEAK_RUNTIME_JAVASCRIPT] = "JavaScript calls what leaks. It is native memory, as of Buffers, which 'node --heap-prof' does "
				    "not show: 'node --perf-basic-prof' writes /tmp/perf-PID.map with the lines of its "
				    "addresses in tracebacks (-v). V8's own heap: 'node --inspect', '--heapsnapshot-signal'",
	[LEAK_RUNTIME_JAVA] = "Java code calls what leaks: 'jcmd PID GC.class_histogram' counts its objects; a profiler of "
			      "the Java virtual machine shows its lines",
};

unsigned int leak_answer_hints(const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;
	size_t shown = leaks_shown(answer);
	unsigned int recording = leak_recording_hints(leaks->last), runtimes = 0;

	for (size_t i = 0; i < shown; i++)
		for (size_t k = 0; k < leaks->bundle[i].nr; k++) {
			const struct leak_line *line = &leaks->line[leaks->bundle[i].first + k];

			if (line->verdict.kind <= LEAK_GROWS)
				runtimes |= leak_line_runtimes(leaks, line);
		}
	return runtimes | (shown ? recording : recording & ~(1u << LEAK_HINT_POOLS));
}

int leak_put_hints(FILE *out, unsigned int hints)
{
	int err = 0;

	for (int i = 0; i < LEAK_HINT_NR && !err; i++)
		if (hints & 1u << i)
			err = put_line(out, "hint: %s", leak_hint[i]);
	return err;
}

int leak_set_hints(json_t *head, unsigned int hints)
{
	json_t *array = hints ? json_array() : NULL;
	int err = 0;

	if (!hints)
		return 0;
	for (int i = 0; i < LEAK_HINT_NR; i++)
		if (hints & 1u << i && json_array_append_new(array, json_string(leak_hint[i])))
			err = -ENOMEM;
	return json_set(head, "hints", json_unless(err, array));
}
