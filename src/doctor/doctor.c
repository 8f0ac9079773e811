// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "doctor/doctor.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "collect/diagnosis/diagnosis.h"
#include "inject/inject.h"
#include "elf/allocators.h"
#include "elf/placement.h"
#include "elf/runtime_detect.h"
#include "render/emitter.h"

#define BUILD_ID_SHOWN 12
#define NAME_WIDTH 12
#define CHECK_WIDTH 26

struct doctor {
	struct emitter *out;
	bool is_verbose, records_pages;
	const char *heading; /* of the list; NULL: it has none, or text has it already */
};

/* An empty text is unknown, too. */
static void emit_known(struct emitter *out, const char *key, const char *text)
{
	emit_text(out, key, text && *text ? text : NULL);
}

/* "  program      /srv/shop, …" */
static void put_named(struct emitter *out, const char *name, const char *text)
{
	if (*text)
		emit_line(out, "  %-*s %s", NAME_WIDTH, name, text);
}

static void begin_findings(struct doctor *doctor, const char *key, const char *heading)
{
	doctor->heading = heading;
	emit_list(doctor->out, key);
}

/* Whether text has a finding, which may be a detail. Its heading is there then. */
static bool begin_text(struct doctor *doctor, bool is_detail)
{
	if (doctor->out->is_json || (is_detail && !doctor->is_verbose))
		return false;
	if (doctor->heading)
		emit_toned_line(doctor->out, TONE_HEAD, "%s", doctor->heading);
	doctor->heading = NULL;
	return true;
}

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

static void emit_traits(struct emitter *out, const char *key, uint64_t traits, int first, int last)
{
	emit_list(out, key);
	for (int trait = first; trait <= last; trait++)
		if (traits >> trait & 1)
			emit_text(out, NULL, object_trait_text(trait));
	emit_end(out);
}

/* ---- the machine ---- */

static void emit_check(struct doctor *doctor, const struct check *check)
{
	static const struct {
		const char *word, *mark;
	} states[] = {
		[CHECK_GOOD] = { "ok", "ok" }, [CHECK_COSTS] = { "costs", "costs" },
		[CHECK_UNKNOWN] = { "unknown", "unknown" }, [CHECK_BAD] = { "no", "NO" },
	};
	struct emitter *out = doctor->out;

	emit_object(out, NULL);
	emit_text(out, "name", check->name);
	emit_text(out, "state", states[check->state].word);
	emit_text(out, "found", check->found.text);
	emit_end(out);
	if (*check->found.text && begin_text(doctor, check->state == CHECK_GOOD))
		emit_toned_line(out, check->state == CHECK_BAD ? TONE_ALARM : TONE_PLAIN, "  %-7s %-*s %s",
				states[check->state].mark, CHECK_WIDTH, check->name, check->found.text);
}

static void emit_machine(struct doctor *doctor, const struct diagnosed_machine *machine)
{
	struct emitter *out = doctor->out;

	if (machine->records)
		emit_toned_line(out, TONE_HEAD, "this machine can record: kernel %s", machine->kernel);
	else
		emit_toned_line(out, TONE_ALARM, "this machine cannot record: %s", machine->why.text);
	emit_object(out, "machine");
	emit_bool(out, "records", machine->records);
	emit_known(out, "why", machine->why.text);
	emit_known(out, "kernel", machine->kernel);
	if (machine->costs.entry_ns) {
		emit_object(out, "trap_costs");
		emit_uint(out, "entry_ns", machine->costs.entry_ns);
		emit_uint(out, "stepped_ns", machine->costs.stepped_ns);
		emit_uint(out, "return_ns", machine->costs.return_ns);
		emit_end(out);
	}
	begin_findings(doctor, "checks", NULL);
	for (size_t i = 0; i < machine->check_nr; i++)
		emit_check(doctor, &machine->check[i]);
	emit_end(out);
	emit_end(out);
}

/* ---- the process ---- */

static size_t count_placed_probes(const struct diagnosed_process *process)
{
	size_t nr = 0;

	for (size_t i = 0; i < process->probe_nr; i++)
		nr += process->probe[i].is_placed && !process->probe[i].is_python;
	return nr + process->python.place_nr;
}

static void put_process_verdict(struct emitter *out, const struct diagnosed_process *process)
{
	size_t placed = count_placed_probes(process);
	char but[256] = "";

	for (size_t i = 0; i < process->unseen_nr; i++)
		if (process->unseen[i].is_grave)
			add_word(but, sizeof(but), process->unseen[i].what);
	if (process->records)
		emit_toned_line(out, TONE_HEAD, "process %d (%s) can be recorded%s%s: %zu probe%s would be placed",
				process->pid, process->comm, *but ? ", but not " : "", but, placed, plural(placed));
	else if (*process->why.text)
		emit_toned_line(out, TONE_ALARM, "cannot be recorded: %s", process->why.text);
	else
		emit_toned_line(out, TONE_ALARM, "process %d (%s) cannot be recorded on this machine", process->pid,
				process->comm);
}

static void emit_program(struct emitter *out, const struct diagnosed_process *process)
{
	char size[UNIT_TEXT_MAX], state[2] = { process->state };

	emit_line(out, "  %-*s %s%s%s, %" PRIu64 " thread%s, RSS %s", NAME_WIDTH, "program",
		  *process->exe ? process->exe : "(not known)", process->linking ? ", " : "", process->linking ?: "",
		  process->thread_nr, plural(process->thread_nr), format_size(size, process->rss_bytes, false));
	emit_known(out, "comm", process->comm);
	emit_known(out, "exe", process->exe);
	emit_known(out, "state", state);
	emit_known(out, "linking", process->linking);
	emit_bool(out, "kernel_thread", process->is_kernel_thread);
	emit_uint(out, "threads", process->thread_nr);
	emit_uint(out, "children", process->child_nr);
	emit_uint(out, "rss_bytes", process->rss_bytes);
	emit_uint(out, "code_without_file_bytes", process->code_bytes);
	emit_bool(out, "perf_map", process->has_perf_map);
}

static void emit_runtimes(struct emitter *out, const struct diagnosed_process *process)
{
	char text[512] = "";

	for (int trait = TRAIT_GO; trait <= TRAIT_RUST; trait++)
		if (process->traits >> trait & 1)
			add_word(text, sizeof(text), object_trait_text(trait));
	put_named(out, "runtimes", text);
	emit_traits(out, "runtimes", process->traits, TRAIT_GO, TRAIT_RUST);
}

/* Which of two views of it attach would record. */
static void emit_python_view(struct emitter *out, const struct diagnosed_python *python)
{
	if (!python->is_there)
		return;
	if (python->is_used)
		emit_line(out, "  %-*s %s: its objects would be recorded, by probes at %" PRIu32 " places; places that "
			  "were not understood: %" PRIu32, NAME_WIDTH, "python", python->version, python->place_nr,
			  python->unknown_nr);
	else
		emit_line(out, "  %-*s the heap would be recorded, not Python's objects: %s", NAME_WIDTH, "python",
			  python->why_not);
	emit_object(out, "python");
	emit_bool(out, "records", python->is_used);
	emit_known(out, "version", python->version);
	if (python->is_used) {
		emit_uint(out, "places", python->place_nr);
		emit_uint(out, "places_unknown", python->unknown_nr);
	}
	emit_text(out, "why", python->why_not);
	emit_end(out);
}

static void emit_java(struct emitter *out, const struct diagnosed_java *java)
{
	char version[32] = "Java";

	if (!java->is_there)
		return;
	if (java->version)
		snprintf(version, sizeof(version), "Java %" PRIu32, java->version);
	if (*java->why_not.text)
		emit_line(out, "  %-*s %s: --domain java would be refused: %s", NAME_WIDTH, "java", version, java->why_not.text);
	else
		emit_line(out, "  %-*s %s: --domain java loads an agent", NAME_WIDTH, "java", version);
	emit_object(out, "java");
	emit_bool(out, "records", !*java->why_not.text);
	if (java->version)
		emit_uint(out, "version", java->version);
	emit_known(out, "why", java->why_not.text);
	emit_end(out);
}

static void emit_places(struct emitter *out, const struct diagnosed_process *process)
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
	put_named(out, "is in", text);
	emit_bool(out, "other_pid_namespace", process->in_pid_namespace);
	emit_bool(out, "other_mount_namespace", process->in_mount_namespace);
	emit_bool(out, "other_root", process->in_root);
}

static void emit_names(struct emitter *out, const struct diagnosed_process *process)
{
	size_t nr[DIAGNOSED_LINES + 1] = {}, all;

	for (size_t i = 0; i < process->file_nr; i++)
		if (*process->file[i].path != '[')
			nr[diagnosed_names(&process->file[i])]++;
	all = nr[DIAGNOSED_EXPORTED] + nr[DIAGNOSED_FUNCTIONS] + nr[DIAGNOSED_LINES];
	if (!all)
		return;
	emit_line(out, "  %-*s of %zu file%s with code %zu name functions and lines, %zu functions, %zu only exported functions",
		  NAME_WIDTH, "names", all, plural(all), nr[DIAGNOSED_LINES], nr[DIAGNOSED_FUNCTIONS], nr[DIAGNOSED_EXPORTED]);
	emit_object(out, "names");
	emit_uint(out, "lines", nr[DIAGNOSED_LINES]);
	emit_uint(out, "functions", nr[DIAGNOSED_FUNCTIONS]);
	emit_uint(out, "exported", nr[DIAGNOSED_EXPORTED]);
	emit_end(out);
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

/* Go's own profile needs no probes. */
static void emit_go(struct emitter *out, const struct go_look *go)
{
	char rate[UNIT_TEXT_MAX] = "512 KiB, assumed";

	if (!go->is_there)
		return;
	if (go->rate)
		format_size(rate, go->rate, false);
	if (go->why_not)
		emit_line(out, "  %-*s %s", NAME_WIDTH, "go", go->why_not);
	else
		emit_line(out, "  %-*s %s: its heap would be read from its own profile (one sample in %s, %" PRIu64 " stacks so far), "
			  "without probes", NAME_WIDTH, "go", go->version, rate, go->bucket_nr);
	emit_object(out, "go");
	emit_bool(out, "records", !go->why_not);
	emit_text(out, "version", go->version);
	if (go->rate)
		emit_uint(out, "sample_bytes", go->rate);
	emit_uint(out, "stacks", go->bucket_nr);
	emit_text(out, "why", go->why_not);
	emit_end(out);
}

static void emit_identity(struct emitter *out, const struct diagnosed_process *process)
{
	if (!process->state)
		return;
	emit_program(out, process);
	emit_runtimes(out, process);
	emit_python_view(out, &process->python);
	emit_go(out, &process->go);
	emit_java(out, &process->java);
	emit_places(out, process);
	emit_names(out, process);
	if (!process->probe_nr)
		return;
	put_named(out, "returns", probe_kind_text(process->probe_kind));
	emit_known(out, "probe_kind", process->probe_kind);
}

/* ---- what would be seen, and what not ---- */

static void emit_notes(struct emitter *out, const struct diagnosed_process *process)
{
	emit_list(out, "notes");
	for (size_t i = 0; i < process->note_nr; i++) {
		emit_text(out, NULL, process->note[i]);
		put_named(out, "note", process->note[i]);
	}
	emit_end(out);
}

static void emit_unseen(struct doctor *doctor, const struct diagnosed_process *process)
{
	struct emitter *out = doctor->out;

	begin_findings(doctor, "unseen", "would not be seen");
	for (size_t i = 0; i < process->unseen_nr; i++) {
		const struct unseen *unseen = &process->unseen[i];

		emit_object(out, NULL);
		emit_text(out, "name", unseen->name);
		emit_bool(out, "grave", unseen->is_grave);
		emit_text(out, "todo", unseen->todo);
		emit_known(out, "what", unseen->what);
		emit_known(out, "why", unseen->why.text);
		emit_end(out);
		if (!begin_text(doctor, unseen->is_common))
			continue;
		emit_line(out, "  %s: %s", unseen->what, unseen->why.text);
		if (unseen->todo)
			emit_line(out, "      to do: %s", unseen->todo);
	}
	emit_end(out);
}

/* For a process of which something important would not be seen. */
static void emit_pages_instead(struct doctor *doctor, const struct diagnosed_process *process)
{
	bool is_needed = !process->records || array_any(process->unseen_nr, i, process->unseen[i].is_grave);

	emit_bool(doctor->out, "records_pages", doctor->records_pages);
	if (doctor->records_pages && is_needed && !process->is_kernel_thread)
		emit_line(doctor->out, "  %-*s can be recorded, by the code that needed each page first, whatever allocates it: "
			  "--domain pages", NAME_WIDTH, "its RSS");
}

static void emit_allocators(struct doctor *doctor, const struct diagnosed_process *process)
{
	struct emitter *out = doctor->out;

	begin_findings(doctor, "allocators", "allocators");
	for (size_t i = 0; i < process->file_nr; i++) {
		const struct diagnosed_file *file = &process->file[i];

		if (!file->allocator)
			continue;
		emit_object(out, NULL);
		emit_text(out, "name", file->allocator);
		emit_uint(out, "domain", file->domain);
		emit_known(out, "object", file->path);
		emit_known(out, "build_id", file->build_id);
		emit_uint(out, "probes", file->probe_nr);
		emit_end(out);
		if (begin_text(doctor, false))
			emit_line(out, "  %s (domain %" PRIu32 "): %zu probe%s in %s", file->allocator, file->domain,
				  file->probe_nr, plural(file->probe_nr), file->path);
	}
	emit_end(out);
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
static void put_diagnosed_probe(struct emitter *out, const char *path, const struct diagnosed_probe *probe)
{
	const struct placement *placement = probe->placement;
	char at[16] = "";

	if (placement->offset)
		snprintf(at, sizeof(at), "+%" PRIu32, placement->offset);
	if (!probe->is_placed)
		emit_line(out, "  %s (%s+0x%" PRIx64 "): not placed, %s", probe->function, path, probe->offset,
			  probe->is_another ? "all its calls go on in another function" : "it cannot be probed");
	else if (probe->is_python)
		emit_line(out, "  %s (%s): where it is called, or begins", probe->function, path);
	else
		emit_line(out, "  %s%s (%s+0x%" PRIx64 "): %s, %s%s", probe->function, at, path,
			  probe->offset + placement->offset, placement->instruction, placements[placement->why].text,
			  returns[probe->returns].text);
}

static void emit_diagnosed_probes(struct doctor *doctor, const struct diagnosed_process *process)
{
	struct emitter *out = doctor->out;

	begin_findings(doctor, "probes", "probes");
	for (size_t i = 0; i < process->probe_nr; i++) {
		const struct diagnosed_probe *probe = &process->probe[i];
		const struct placement *placement = probe->placement;
		const char *path = process->file[probe->file].path;

		emit_object(out, NULL);
		emit_text(out, "function", probe->function);
		emit_bool(out, "placed", probe->is_placed);
		emit_known(out, "object", path);
		emit_uint(out, "offset", probe->offset);
		emit_uint(out, "placement", placement->offset);
		emit_known(out, "instruction", placement->instruction);
		emit_bool(out, "emulated", placement->why == PLACEMENT_EMULATED);
		emit_known(out, "why", placements[placement->why].word);
		emit_known(out, "returns", returns[probe->returns].word);
		emit_end(out);
		if (begin_text(doctor, true))
			put_diagnosed_probe(out, path, probe);
	}
	emit_end(out);
}

/* ---- what attach --inject would do ---- */

static void emit_injected_function(struct doctor *doctor, const char *path, const struct inject_function *function)
{
	struct emitter *out = doctor->out;

	emit_object(out, NULL);
	emit_text(out, "function", function->name);
	emit_known(out, "object", path);
	emit_uint(out, "address", function->address);
	emit_uint(out, "moved_bytes", function->moved_bytes);
	emit_uint(out, "moved_instructions", function->moved_nr);
	emit_bool(out, "is_probed", function->is_probed);
	emit_end(out);
	if (begin_text(doctor, true))
		emit_line(out, "  %s (%s) at 0x%" PRIx64 ": a jump in place of %" PRIu32 " instruction%s, "
			  "%" PRIu32 " bytes%s",
			  function->name, path, function->address, function->moved_nr, plural(function->moved_nr),
			  function->moved_bytes,
			  function->is_probed ? "; the breakpoint of another program there will not see this process "
						"meanwhile" : "");
}

static void emit_injected_allocator(struct doctor *doctor, const struct inject_allocator *allocator)
{
	const char *name = allocator->domain ? domain_name(allocator->domain) : allocator_of(allocator->path)->name;
	struct emitter *out = doctor->out;

	emit_object(out, NULL);
	emit_text(out, "name", name);
	emit_known(out, "object", allocator->path);
	emit_uint(out, "functions", allocator->function_nr);
	emit_uint(out, "pages", allocator->page_nr);
	emit_bool(out, "has_unseen_functions", allocator->has_unseen_new);
	emit_end(out);
	if (begin_text(doctor, false))
		emit_line(out, "  %s: %" PRIu32 " function%s of %s, on %" PRIu32 " page%s%s", name,
			  allocator->function_nr, plural(allocator->function_nr), allocator->path, allocator->page_nr,
			  plural(allocator->page_nr),
			  allocator->has_unseen_new ? "; not its own operator new, mallocx and the like" : "");
}

static void put_refusal(struct doctor *doctor, const char *why)
{
	doctor->heading = "attach --inject would be refused";
	if (*why && begin_text(doctor, false))
		emit_line(doctor->out, "  %s", why);
}

static void emit_injection(struct doctor *doctor, const struct diagnosed_process *process)
{
	const struct inject_plan *plan = process->injection;

	if (!plan)
		put_refusal(doctor, process->not_injected.text);
	begin_findings(doctor, "injection",
		       "attach --inject would take over (threads are checked when they are stopped)");
	for (uint32_t i = 0; plan && i < plan->allocator_nr; i++)
		emit_injected_allocator(doctor, &plan->allocator[i]);
	emit_end(doctor->out);
	begin_findings(doctor, "injected_functions", "functions that attach --inject would take over");
	for (uint32_t i = 0; plan && i < plan->allocator_nr; i++)
		for (uint32_t j = 0; j < plan->allocator[i].function_nr; j++)
			emit_injected_function(doctor, plan->allocator[i].path, &plan->allocator[i].function[j]);
	emit_end(doctor->out);
}

/* ---- what attach --inject=exact would do ---- */

static void put_exact_functions(struct doctor *doctor, const struct inject_python *python)
{
	static const char *const domains[] = { "raw", "mem", "object" };
	static const char *const operations[] = { "malloc", "calloc", "realloc", "free" };

	for (size_t i = 0; i < ARRAY_SIZE(domains); i++)
		for (size_t k = 0; k < ARRAY_SIZE(operations); k++)
			if (begin_text(doctor, true))
				emit_line(doctor->out, "  %s.%s: the pointer at 0x%" PRIx64 ", now to 0x%" PRIx64, domains[i],
					  operations[k], python->word[i][k].address, python->word[i][k].was);
}

/* Its memory is in the control group of the process. */
static void put_exact_memory(struct emitter *out, const struct exact_plan *plan, uint64_t thread_nr)
{
	char small[UNIT_TEXT_MAX], thread[UNIT_TEXT_MAX];

	emit_line(out, "  memory: for blocks of up to 512 bytes %s%s; %" PRIu64 " bytes a larger block, %" PRIu64
		  " bytes a node of the trie, %" PRIu64 " a traceback, up to %s for each of %" PRIu64 " thread%s",
		  plan->small_bytes_most ? "now up to " : plan->is_python ? "a quarter to half of its arenas" : "a quarter of the memory that they lie in, or half if most have up to 16",
		  plan->small_bytes_most ? format_size(small, plan->small_bytes_most, false) : "", plan->large_block_bytes,
		  plan->node_bytes, plan->traceback_bytes, format_size(thread, plan->thread_bytes_most, false), thread_nr, plural(thread_nr));
}

static void emit_exact(struct doctor *doctor, const struct diagnosed_process *process)
{
	const struct exact_plan *plan = process->exact;
	struct emitter *out = doctor->out;

	emit_object(out, "exact");
	emit_bool(out, "works", plan);
	emit_known(out, "why", plan ? NULL : process->not_exact.text);
	if (plan) {
		if (plan->small_bytes_most)
			emit_uint(out, "small_bytes_most", plan->small_bytes_most);
		emit_uint(out, "large_block_bytes", plan->large_block_bytes);
		emit_uint(out, "node_bytes", plan->node_bytes);
		emit_uint(out, "traceback_bytes", plan->traceback_bytes);
		emit_uint(out, "thread_bytes_most", plan->thread_bytes_most);
	}
	emit_end(out);
	doctor->heading = !plan ? "attach --inject=exact would be refused" : plan->is_python ?
			  "attach --inject=exact would put hooks into the tables of CPython's allocators (threads are checked when they "
			  "are stopped)" : "attach --inject=exact would put hooks at the entries of its allocators' functions, which --inject --dry lists";
	if (plan && begin_text(doctor, false)) {
		put_exact_memory(out, plan, process->thread_nr);
		if (plan->is_python)
			put_exact_functions(doctor, &plan->python);
	} else if (!plan && *process->not_exact.text && begin_text(doctor, false)) {
		emit_line(out, "  %s", process->not_exact.text);
	}
}

/* ---- which way, when ---- */

static void put_advice(struct doctor *doctor)
{
#define ADVICE(when, command, what) { when, command ": " what },
	static const struct {
		const char *when, *how;
	} rows[] = { WAYS_ADVICE(ADVICE) };

	doctor->heading = "which way, when";
	for (size_t i = 0; i < ARRAY_SIZE(rows) && begin_text(doctor, false); i++)
		emit_line(doctor->out, "  %-*s %s", CHECK_WIDTH, rows[i].when, rows[i].how);
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
	static const char *const texts[] = {
		[DIAGNOSED_UNKNOWN] = "names not looked at",
		[DIAGNOSED_EXPORTED] = "stripped: exported names only",
		[DIAGNOSED_FUNCTIONS] = "names",
		[DIAGNOSED_LINES] = "names and lines",
	};

	if (file->has_debug_file)
		return "names and lines by its debug file";
	if (file->traits & TRAIT_BIT(GO) && !(file->traits & TRAIT_BIT(DEBUG_INFO)))
		return "names and lines of Go code";
	return texts[diagnosed_names(file)];
}

static void put_file(struct emitter *out, const struct diagnosed_file *file)
{
	const char *unwinding = unwindings[file->unwinding].text;

	if (*file->path == '[')
		emit_line(out, "  %s: %s", file->path, unwinding);
	else if (file->unreadable)
		emit_line(out, "  %s: cannot be read: %s", file->path, file->unreadable);
	else
		emit_line(out, "  %s%s%.*s%s: %s; %s%s%s", file->path, *file->build_id ? " [" : "", BUILD_ID_SHOWN,
			  file->build_id, *file->build_id ? "]" : "", unwinding, names_text(file),
			  file->same_as ? "; the same bytes as " : "", file->same_as ?: "");
}

static void emit_files(struct doctor *doctor, const struct diagnosed_process *process)
{
	struct emitter *out = doctor->out;

	begin_findings(doctor, "files", "files with code");
	for (size_t i = 0; i < process->file_nr; i++) {
		const struct diagnosed_file *file = &process->file[i];

		emit_object(out, NULL);
		emit_text(out, "path", file->path);
		emit_known(out, "build_id", file->build_id);
		emit_known(out, "unreadable", file->unreadable);
		emit_known(out, "same_as", file->same_as);
		emit_known(out, "unwinding", unwindings[file->unwinding].word);
		emit_bool(out, "debug_file", file->has_debug_file);
		if (file->has_traits) {
			emit_bool(out, "stripped", !(file->traits & TRAIT_BIT(SYMTAB)));
			emit_traits(out, "has", file->traits, 0, TRAIT_NR - 1);
		}
		emit_end(out);
		if (begin_text(doctor, true))
			put_file(out, file);
	}
	emit_end(out);
}

/* ---- all ---- */

static void emit_diagnosed_process(struct doctor *doctor, const struct diagnosed_process *process)
{
	struct emitter *out = doctor->out;

	put_process_verdict(out, process);
	emit_object(out, "process");
	emit_bool(out, "records", process->records);
	emit_uint(out, "pid", process->pid);
	emit_known(out, "why", process->why.text);
	emit_uint(out, "functions_unprobed", process->failed_nr);
	emit_identity(out, process);
	if (!process->injection)
		emit_known(out, "injection_refused", process->not_injected.text);
	emit_notes(out, process);
	emit_unseen(doctor, process);
	emit_pages_instead(doctor, process);
	emit_allocators(doctor, process);
	emit_diagnosed_probes(doctor, process);
	emit_injection(doctor, process);
	emit_exact(doctor, process);
	emit_files(doctor, process);
	if (process->records)
		put_advice(doctor);
	emit_end(out);
}

int doctor_put(FILE *file, const struct diagnosis *diagnosis, bool is_verbose, bool is_json)
{
	struct emitter out = emit_to(file, is_json);
	struct doctor doctor = {
		.out = &out, .is_verbose = is_verbose, .records_pages = diagnosis->machine.records_pages,
	};

	emit_text(&out, "schema", "allocsnap.doctor/1");
	emit_bool(&out, "records", diagnosis__records(diagnosis));
	if (is_json)
		emit_machine(&doctor, &diagnosis->machine);
	if (diagnosis->process.pid)
		emit_diagnosed_process(&doctor, &diagnosis->process);
	if (!is_json)
		emit_machine(&doctor, &diagnosis->machine);
	return emit_finish(&out);
}

int doctor_put_injection(FILE *file, const struct diagnosis *diagnosis)
{
	struct emitter out = emit_to(file, false);
	struct doctor doctor = { .out = &out, .is_verbose = true };

	if (diagnosis->process.exact)
		emit_exact(&doctor, &diagnosis->process);
	else
		emit_injection(&doctor, &diagnosis->process);
	return emit_finish(&out);
}
