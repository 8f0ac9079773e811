// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* From a diagnosis to findings. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "collect/diagnosis/diagnosis.h"
#include "doctor/doctor.h"
#include "doctor/finding.h"
#include "elf/runtime_detect.h"
#include "elf/placement.h"
#include "render/json_parts.h"

#define BUILD_ID_SHOWN 12

/* Appends a word, after a comma if it is not the first one. */
static void add_word(char *text, size_t room, const char *word)
{
	size_t len = strlen(text);

	snprintf(text + len, room - len, "%s%s", len ? ", " : "", word);
}

static const char *plural(uint64_t nr)
{
	return nr == 1 ? "" : "s";
}

static json_t *traits_json(uint64_t traits, int first, int last)
{
	json_t *list = json_array();
	int err = 0;

	for (int trait = first; trait <= last && !err; trait++)
		if (traits >> trait & 1)
			err = json_array_append_new(list, json_clean_string(object_trait_text(trait)));
	return json_unless(err, list);
}

/* ---- the machine ---- */

static void add_trap_costs(struct doctor_report *report, const struct trap_costs *costs)
{
	json_t *object = json_object();
	int err = json_set_uint(object, "entry_ns", costs->entry_ns);

	err = err ?: json_set_uint(object, "stepped_ns", costs->stepped_ns);
	err = err ?: json_set_uint(object, "return_ns", costs->return_ns);
	add_json_fact(report, "trap_costs", json_unless(err, object));
}

static void add_machine(struct doctor_report *report, const struct diagnosed_machine *machine)
{
	if (machine->records)
		add_finding(report, AREA_MACHINE, machine->kernel, VERDICT_GOOD,
			    "this machine can record: kernel %s", machine->kernel);
	else
		add_finding(report, AREA_MACHINE, machine->kernel, VERDICT_BAD,
			    "this machine cannot record: %s", machine->why.text);
	add_text_fact(report, "why", machine->why.text);
	add_text_fact(report, "kernel", machine->kernel);
	if (machine->costs.entry_ns)
		add_trap_costs(report, &machine->costs);
}

static void add_checks(struct doctor_report *report, const struct diagnosed_machine *machine)
{
	static const enum verdict verdict[] = {
		[CHECK_GOOD] = VERDICT_GOOD, [CHECK_COSTS] = VERDICT_COSTS, [CHECK_UNKNOWN] = VERDICT_UNKNOWN,
		[CHECK_BAD] = VERDICT_BAD,
	};

	for (size_t i = 0; i < machine->check_nr; i++) {
		const struct check *check = &machine->check[i];

		add_finding(report, AREA_CHECKS, check->name, verdict[check->state], "%s", check->found.text);
	}
}

/* ---- the process ---- */

static size_t count_placed_probes(const struct diagnosed_process *process)
{
	size_t nr = 0;

	for (size_t i = 0; i < process->probe_nr; i++)
		nr += process->probe[i].is_placed && !process->probe[i].is_python;
	return nr + process->python.place_nr;
}

static void add_process_verdict(struct doctor_report *report, const struct diagnosed_process *process)
{
	size_t placed = count_placed_probes(process);
	char but[256] = "";

	for (size_t i = 0; i < process->unseen_nr; i++)
		if (process->unseen[i].is_grave)
			add_word(but, sizeof(but), process->unseen[i].what);
	if (process->records)
		add_finding(report, AREA_PROCESS, process->comm, VERDICT_GOOD,
			    "process %d (%s) can be recorded%s%s: %zu probe%s would be placed", process->pid,
			    process->comm, *but ? ", but not " : "", but, placed, plural(placed));
	else if (*process->why.text)
		add_finding(report, AREA_PROCESS, process->comm, VERDICT_BAD, "cannot be recorded: %s",
			    process->why.text);
	else
		add_finding(report, AREA_PROCESS, process->comm, VERDICT_BAD,
			    "process %d (%s) cannot be recorded on this machine", process->pid, process->comm);
	add_uint_fact(report, "pid", process->pid);
	add_text_fact(report, "why", process->why.text);
	add_uint_fact(report, "functions_unprobed", process->failed_nr);
}

static void add_program(struct doctor_report *report, const struct diagnosed_process *process)
{
	char size[UNIT_TEXT_MAX], state[2] = { process->state };

	add_finding(report, AREA_IDENTITY, "program", VERDICT_GOOD, "%s%s%s, %" PRIu64 " thread%s, RSS %s",
		    *process->exe ? process->exe : "(not known)", process->linking ? ", " : "",
		    process->linking ?: "", process->thread_nr, plural(process->thread_nr),
		    format_size(size, process->rss_bytes, false));
	add_text_fact(report, "comm", process->comm);
	add_text_fact(report, "exe", process->exe);
	add_text_fact(report, "state", state);
	add_text_fact(report, "linking", process->linking);
	add_bool_fact(report, "kernel_thread", process->is_kernel_thread);
	add_uint_fact(report, "threads", process->thread_nr);
	add_uint_fact(report, "children", process->child_nr);
	add_uint_fact(report, "rss_bytes", process->rss_bytes);
	add_uint_fact(report, "code_without_file_bytes", process->code_bytes);
}

static void add_runtimes(struct doctor_report *report, const struct diagnosed_process *process)
{
	char text[512] = "";

	for (int trait = TRAIT_GO; trait <= TRAIT_RUST; trait++)
		if (process->traits >> trait & 1)
			add_word(text, sizeof(text), object_trait_text(trait));
	add_finding(report, AREA_IDENTITY, "runtimes", VERDICT_GOOD, "%s", text);
	add_json_fact(report, "runtimes", traits_json(process->traits, TRAIT_GO, TRAIT_RUST));
}

static json_t *python_view_json(const struct diagnosed_python *python)
{
	json_t *object = json_object();
	int err = json_set(object, "records", json_boolean(python->is_used));

	if (*python->version)
		err = err ?: json_set_text(object, "version", python->version);
	if (python->is_used)
		err = err ?: json_set_uint(object, "places", python->place_nr) ?:
				     json_set_uint(object, "places_unknown", python->unknown_nr);
	if (python->why_not)
		err = err ?: json_set_text(object, "why", python->why_not);
	return json_unless(err, object);
}

/* Which of two views of it attach would record. */
static void add_python_view(struct doctor_report *report, const struct diagnosed_python *python)
{
	if (!python->is_there)
		return;
	if (python->is_used)
		add_finding(report, AREA_IDENTITY, "python", VERDICT_GOOD,
			    "%s: its objects would be recorded, by probes at %" PRIu32 " places; places that were not understood: %" PRIu32,
			    python->version, python->place_nr, python->unknown_nr);
	else
		add_finding(report, AREA_IDENTITY, "python", VERDICT_COSTS, "the heap would be recorded, not Python's objects: %s",
			    python->why_not);
	add_json_fact(report, "python", python_view_json(python));
}

static void add_places(struct doctor_report *report, const struct diagnosed_process *process)
{
	char text[256] = "";

	if (process->in_pid_namespace)
		add_word(text, sizeof(text), "another pid namespace");
	if (process->in_mount_namespace)
		add_word(text, sizeof(text), "another mount namespace");
	if (process->in_root)
		add_word(text, sizeof(text), "another root directory");
	if (*text)
		add_word(text, sizeof(text), "which is no obstacle");
	add_finding(report, AREA_IDENTITY, "is in", VERDICT_GOOD, "%s", text);
	add_bool_fact(report, "other_pid_namespace", process->in_pid_namespace);
	add_bool_fact(report, "other_mount_namespace", process->in_mount_namespace);
	add_bool_fact(report, "other_root", process->in_root);
}

static const char *probe_kind_text(const char *kind)
{
	static const struct {
		const char *kind, *text;
	} rows[] = {
		{ "uprobe_session", "seen by sessions of both ends of a call (uprobe_session)" },
		{ "uprobe_multi", "seen by return probes (uprobe_multi)" },
		{ "uprobe", "seen by return probes, one by one: they take long to remove (uprobe)" },
		{ "uprobe_ret", "seen by probes on `ret` instructions, which is slower (uprobe_ret)" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (kind && !strcmp(rows[i].kind, kind))
			return rows[i].text;
	return "";
}

static void add_returns(struct doctor_report *report, const struct diagnosed_process *process)
{
	if (!process->probe_nr)
		return;
	add_finding(report, AREA_IDENTITY, "returns", VERDICT_GOOD, "%s", probe_kind_text(process->probe_kind));
	add_text_fact(report, "probe_kind", process->probe_kind);
}

static void add_notes(struct doctor_report *report, const struct diagnosed_process *process)
{
	for (size_t i = 0; i < process->note_nr; i++)
		add_finding(report, AREA_NOTES, "note", VERDICT_COSTS, "%s", process->note[i]);
}

/* ---- what would be seen, and what not ---- */

static void add_unseen(struct doctor_report *report, const struct diagnosed_process *process)
{
	for (size_t i = 0; i < process->unseen_nr; i++) {
		const struct unseen *unseen = &process->unseen[i];

		add_finding(report, AREA_UNSEEN, unseen->name, unseen->is_grave ? VERDICT_BAD : VERDICT_COSTS,
			    "%s: %s", unseen->what, unseen->why.text);
		add_todo(report, unseen->todo);
		if (unseen->is_common)
			add_detail_mark(report);
		add_text_fact(report, "what", unseen->what);
		add_text_fact(report, "why", unseen->why.text);
	}
}

static void add_allocators(struct doctor_report *report, const struct diagnosed_process *process)
{
	for (size_t i = 0; i < process->file_nr; i++) {
		const struct diagnosed_file *file = &process->file[i];

		if (!file->allocator)
			continue;
		add_finding(report, AREA_ALLOCATORS, file->allocator, VERDICT_GOOD,
			    "%s (domain %" PRIu32 "): %zu probe%s in %s", file->allocator, file->domain,
			    file->probe_nr, plural(file->probe_nr), file->path);
		add_uint_fact(report, "domain", file->domain);
		add_text_fact(report, "object", file->path);
		add_text_fact(report, "build_id", file->build_id);
		add_uint_fact(report, "probes", file->probe_nr);
	}
}

/* ---- probes ---- */

static const struct {
	const char *word, *text;
} placements[] = {
	[PLACEMENT_EMULATED] = { "emulated", "emulated" },
	[PLACEMENT_NONE_IN_REACH] = { "none-in-reach", "single-stepped: no emulated instruction in reach" },
	[PLACEMENT_BRANCH_INTO] = { "branch-into", "single-stepped: the function branches back to its start" },
	[PLACEMENT_NOT_DECODED] = { "not-decoded", "at the entry: its code cannot be decoded" },
	[PLACEMENT_BEHIND_NOP] = { "behind-nop", "single-stepped: behind a nop of five bytes" },
};

static const struct {
	const char *word, *text;
} returns[] = {
	[RETURN_NONE] = { NULL, "" },
	[RETURN_SESSION] = { "session", "; return by session" },
	[RETURN_PROBE] = { "return probe", "; return by return probe" },
	[RETURN_RET] = { "ret", "; return by probes on `ret`" },
};

/* Words as in `show`: "malloc+3 (/usr/lib/libc.so.6+0x98103): je 0x9810a". */
static void add_placed_probe(struct doctor_report *report, const char *path, const struct diagnosed_probe *probe)
{
	const struct placement *placement = probe->placement;
	char at[16] = "";

	if (probe->is_python) {
		add_finding(report, AREA_PROBES, probe->function, VERDICT_GOOD, "%s (%s): where it is called, or begins",
			    probe->function, path);
		return;
	}
	if (placement->offset)
		snprintf(at, sizeof(at), "+%" PRIu32, placement->offset);
	add_finding(report, AREA_PROBES, probe->function, VERDICT_GOOD, "%s%s (%s+0x%" PRIx64 "): %s, %s%s",
		    probe->function, at, path, probe->offset + placement->offset, placement->instruction,
		    placements[placement->why].text, returns[probe->returns].text);
}

static void add_probe_finding(struct doctor_report *report, const struct diagnosed_process *process,
			      const struct diagnosed_probe *probe)
{
	const struct placement *placement = probe->placement;
	const char *path = process->file[probe->file].path;

	if (probe->is_placed)
		add_placed_probe(report, path, probe);
	else
		add_finding(report, AREA_PROBES, probe->function, VERDICT_BAD,
			    "%s (%s+0x%" PRIx64 "): not placed, %s", probe->function, path, probe->offset,
			    probe->is_another ? "all its calls go on in another function" : "it cannot be probed");
	add_text_fact(report, "object", path);
	add_uint_fact(report, "offset", probe->offset);
	add_uint_fact(report, "placement", placement->offset);
	add_text_fact(report, "instruction", placement->instruction);
	add_bool_fact(report, "emulated", placement->why == PLACEMENT_EMULATED);
	add_text_fact(report, "why", placements[placement->why].word);
	add_text_fact(report, "returns", returns[probe->returns].word);
}

/* ---- files ---- */

static const struct {
	const char *word, *text;
} unwindings[] = {
	[UNWINDING_UNKNOWN] = { NULL, "callers not looked at" },
	[UNWINDING_TABLE] = { "table", "callers by unwind table" },
	[UNWINDING_NONE] = { "frame pointers", "callers by frame pointers: no call frame information" },
	[UNWINDING_MISSING] = { "missing", "no callers: its call frame information cannot be used" },
};

static const char *names_text(const struct diagnosed_file *file)
{
	if (file->has_debug_file)
		return "names and lines by its debug file";
	if (!file->has_traits)
		return "names not looked at";
	if (file->traits & TRAIT_BIT(DEBUG_INFO))
		return "names and lines";
	return file->traits & TRAIT_BIT(SYMTAB) ? "names" : "stripped: exported names only";
}

static void add_file_line(struct doctor_report *report, const struct diagnosed_file *file)
{
	const char *unwinding = unwindings[file->unwinding].text;

	if (*file->path == '[')
		add_finding(report, AREA_FILES, file->path, VERDICT_GOOD, "%s: %s", file->path, unwinding);
	else if (file->unreadable)
		add_finding(report, AREA_FILES, file->path, VERDICT_BAD, "%s: cannot be read: %s", file->path,
			    file->unreadable);
	else
		add_finding(report, AREA_FILES, file->path, VERDICT_GOOD, "%s%s%.*s%s: %s; %s%s%s", file->path,
			    *file->build_id ? " [" : "", BUILD_ID_SHOWN, file->build_id,
			    *file->build_id ? "]" : "", unwinding, names_text(file),
			    file->same_as ? "; the same bytes as " : "", file->same_as ?: "");
}

static void add_file_finding(struct doctor_report *report, const struct diagnosed_file *file)
{
	add_file_line(report, file);
	add_text_fact(report, "build_id", file->build_id);
	add_text_fact(report, "unreadable", file->unreadable);
	add_text_fact(report, "same_as", file->same_as);
	add_text_fact(report, "unwinding", unwindings[file->unwinding].word);
	add_bool_fact(report, "debug_file", file->has_debug_file);
	if (!file->has_traits)
		return;
	add_bool_fact(report, "stripped", !(file->traits & TRAIT_BIT(SYMTAB)));
	add_json_fact(report, "has", traits_json(file->traits, 0, TRAIT_NR - 1));
}

/* ---- all ---- */

static void add_process(struct doctor_report *report, const struct diagnosed_process *process)
{
	add_process_verdict(report, process);
	if (process->state) {
		add_program(report, process);
		add_runtimes(report, process);
		add_python_view(report, &process->python);
		add_places(report, process);
		add_returns(report, process);
	}
	add_notes(report, process);
	add_unseen(report, process);
	add_allocators(report, process);
	for (size_t i = 0; i < process->probe_nr; i++)
		add_probe_finding(report, process, &process->probe[i]);
	add_injection(report, process);
	for (size_t i = 0; i < process->file_nr; i++)
		add_file_finding(report, &process->file[i]);
}

struct doctor_report *doctor_report__new(const struct diagnosis *diagnosis)
{
	struct doctor_report *report = calloc(1, sizeof(*report));

	if (!report)
		return NULL;
	if (diagnosis->process.pid)
		add_process(report, &diagnosis->process);
	add_machine(report, &diagnosis->machine);
	add_checks(report, &diagnosis->machine);
	if (!report->err)
		return report;
	doctor_report__free(report);
	return NULL;
}
