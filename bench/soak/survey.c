// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * survey <PATHS: opens every snapshot whose path is a line of stdin, which checks all of it, and prints one JSON
 * object a line: its contents, or the error. Texts that other programs chose are left out.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "snapshot.h"

static void must(bool is_done)
{
	if (is_done)
		return;
	fprintf(stderr, "survey: out of memory\n");
	exit(1);
}

/* Counters of 0 are left out. */
static json_t *counters(const struct snapshot *snapshot, enum snap_counter_kind kind)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	json_t *object = json_object();

	for (uint32_t i = 0; i < tables->counter_nr; i++) {
		const struct snap_counter *counter = &tables->counter[i];

		if (counter->kind == (uint32_t)kind && counter->value)
			must(!json_object_set_new(object, snapshot__string(snapshot, counter->name),
						  json_integer(counter->value)));
	}
	return object;
}

static uint64_t sum_of_sizes(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint64_t sum = 0;

	for (uint64_t i = 0; i < tables->trace_nr; i++)
		sum += tables->trace_size[i];
	return sum;
}

static json_t *describe(const char *path, const struct snapshot *snapshot)
{
	static const char *const numbers[] = { "pid", "start_time_ticks", "monotonic_ns" };
	static const char *const texts[] = { "end", "trigger", "domains" };
	json_t *object = json_pack("{s:s, s:I, s:I, s:o, s:o}", "path", path, "blocks",
				   (json_int_t)snapshot__tables(snapshot)->trace_nr, "bytes",
				   (json_int_t)sum_of_sizes(snapshot), "counted",
				   counters(snapshot, SNAP_COUNTED), "lost",
				   counters(snapshot, SNAP_LOST));

	must(object);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		must(!json_object_set_new(object, numbers[i],
			json_integer(snapshot__metadata_u64(snapshot, numbers[i], 0))));
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *value = snapshot__metadata(snapshot, texts[i]);

		must(!json_object_set_new(object, texts[i], json_string(value ? value : "")));
	}
	return object;
}

static void survey(const char *path)
{
	struct reason why = {};
	struct snapshot *snapshot = snapshot__open(path, &why);
	json_t *object = snapshot ? describe(path, snapshot) :
				    json_pack("{s:s, s:s}", "path", path, "error", why.text);

	must(object && !json_dumpf(object, stdout, JSON_COMPACT));
	putchar('\n');
	json_decref(object);
	snapshot__close(snapshot);
}

int main(void)
{
	char *line = NULL;
	size_t alloc = 0;
	ssize_t len;

	while ((len = getline(&line, &alloc, stdin)) > 0) {
		line[len - 1] = '\0'; /* its newline */
		survey(line);
	}
	free(line);
	return 0;
}
