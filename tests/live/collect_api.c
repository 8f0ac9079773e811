// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * collect_api [LIMIT [follow]]: obeys orders on stdin, one call of the installed library a line, and
 * answers each with one line of JSON: {"err": 0 or a negative errno, "why": the reason}, and the
 * results.
 *
 *	start PID              stop PID                 is_tracing PID     memory PID
 *	clear PID              reset_peak PID           limit              overhead
 *	snapshot PID FILE      object PID ADDRESS FILE  drain              save PID FOLDER
 *	processes              refresh                  notes
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocsnap.h"
#include "collect.h"

/* One call: its order, and its answer. */
struct call {
	struct collector *collector;
	pid_t pid;
	uint64_t address;
	char path[4096];
	struct reason why;
	json_t *answer;
};

static void tell(struct call *call, const char *name, json_t *value)
{
	json_object_set_new(call->answer, name, value);
}

static int call_start(struct call *call)
{
	return collector__start(call->collector, call->pid, &call->why);
}

static int call_stop(struct call *call)
{
	collector__stop(call->collector, call->pid);
	return 0;
}

static int call_is_tracing(struct call *call)
{
	tell(call, "is", json_boolean(collector__is_tracing(call->collector, call->pid)));
	return 0;
}

static json_t *memory_json(const struct traced_memory *memory)
{
	return json_pack("[IIII]", (json_int_t)memory->current_bytes,
			 (json_int_t)memory->peak_bytes, (json_int_t)memory->current_blocks,
			 (json_int_t)memory->peak_blocks);
}

static int call_memory(struct call *call)
{
	struct traced_memory memory = { 1, 1, 1, 1 };

	collector__get_traced_memory(call->collector, call->pid, &memory);
	tell(call, "memory", memory_json(&memory));
	return 0;
}

static int call_clear(struct call *call)
{
	return collector__clear_traces(call->collector, call->pid);
}

static int call_reset_peak(struct call *call)
{
	return collector__reset_peak(call->collector, call->pid);
}

static int call_limit(struct call *call)
{
	tell(call, "limit", json_integer(collector__get_traceback_limit(call->collector)));
	return 0;
}

static int call_overhead(struct call *call)
{
	tell(call, "bytes",
	     json_integer(collector__get_tracemalloc_memory(call->collector)));
	return 0;
}

static int save_as(struct call *call, struct snapshot *snapshot)
{
	int err = snapshot__save(snapshot, call->path, NULL, &call->why);

	snapshot__close(snapshot);
	return err;
}

static int call_snapshot(struct call *call)
{
	struct snapshot *snapshot = NULL;
	int err = collector__take_snapshot(call->collector, call->pid, &snapshot, &call->why);

	tell(call, "untouched", json_boolean(!snapshot));
	return err ?: save_as(call, snapshot);
}

static int call_object(struct call *call)
{
	struct snapshot *snapshot = NULL;
	int err = collector__get_object_traceback(call->collector, call->pid, call->address,
						  &snapshot, &call->why);

	tell(call, "untouched", json_boolean(!snapshot));
	return err ?: save_as(call, snapshot);
}

static int call_drain(struct call *call)
{
	return collector__drain(call->collector, &call->why);
}

static int call_save(struct call *call)
{
	const struct save_options options = { .dir = call->path };
	char *path;
	int err = collector__save(call->collector, call->pid, &options, &path, &call->why);

	if (err)
		return err;
	tell(call, "path", json_string(path));
	free(path);
	return 0;
}

static int call_processes(struct call *call)
{
	json_t *all = json_array();
	struct process_view view;

	for (size_t i = 0; i < collector__process_nr(call->collector); i++) {
		collector__view(call->collector, i, &view);
		json_array_append_new(all, json_pack("{si si ss sb sb so}", "pid", view.pid, "parent",
						     view.parent, "comm", view.comm, "has_ended",
						     view.has_ended, "is_vforked", view.is_vforked,
						     "memory", memory_json(&view.memory)));
	}
	tell(call, "processes", all);
	return 0;
}

static int call_refresh(struct call *call)
{
	collector__refresh(call->collector);
	return 0;
}

static int call_notes(struct call *call)
{
	json_t *all = json_array();
	char *note;

	while ((note = collector__next_note(call->collector))) {
		json_array_append_new(all, json_string(note));
		free(note);
	}
	tell(call, "notes", all);
	return 0;
}

static const struct verb {
	const char *name;
	int (*run)(struct call *call);
	bool has_address; /* behind the PID */
} verbs[] = {
	{ "start", call_start },
	{ "stop", call_stop },
	{ "is_tracing", call_is_tracing },
	{ "memory", call_memory },
	{ "clear", call_clear },
	{ "reset_peak", call_reset_peak },
	{ "limit", call_limit },
	{ "overhead", call_overhead },
	{ "snapshot", call_snapshot },
	{ "object", call_object, true },
	{ "drain", call_drain },
	{ "save", call_save },
	{ "processes", call_processes },
	{ "refresh", call_refresh },
	{ "notes", call_notes },
};

static void log_info(int err, struct call *call)
{
	tell(call, "err", json_integer(err));
	tell(call, "why", json_string(call->why.text));
	json_dumpf(call->answer, stdout, JSON_COMPACT);
	printf("\n");
	fflush(stdout);
	json_decref(call->answer);
}

static int obey(struct call *call, const char *line)
{
	char name[32] = "";
	int pid = 0;

	sscanf(line, "%31s %d", name, &pid);
	call->pid = pid;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
		if (strcmp(name, verbs[i].name))
			continue;
		if (verbs[i].has_address)
			sscanf(line, "%*s %*d %" SCNx64 " %4095s", &call->address, call->path);
		else
			sscanf(line, "%*s %*d %4095s", call->path);
		return verbs[i].run(call);
	}
	return -ENOSYS;
}

int main(int argc, char **argv)
{
	const struct collector_options options = {
		.traceback_limit = argc > 1 ? atoi(argv[1]) : 0,
		.follow_forks = argc > 2 && !strcmp(argv[2], "follow"),
	};
	struct call call = { .answer = json_object() };
	char line[8192];

	call.collector = collector__open(argc > 1 ? &options : NULL, &call.why);
	log_info(call.collector ? 0 : -errno, &call);
	while (call.collector && fgets(line, sizeof(line), stdin)) {
		call = (struct call){ .collector = call.collector, .answer = json_object() };
		log_info(obey(&call, line), &call);
	}
	collector__close(call.collector);
	return call.collector ? 0 : 1;
}
