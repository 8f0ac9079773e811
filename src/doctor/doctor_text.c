// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "doctor/doctor.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "collect/diagnosis/diagnosis.h"
#include "elf/object_traits.h"
#include "elf/placement.h"
#include "render/clean.h"

#define NAME_WIDTH 12
#define CHECK_WIDTH 26
#define BUILD_ID_SHOWN 12

/* ---- the verdict ---- */

static size_t count_placed_probes(const struct diagnosed_process *process)
{
	size_t nr = 0;

	for (size_t i = 0; i < process->probe_nr; i++)
		nr += process->probe[i].is_placed;
	return nr;
}

static int put_machine_verdict(FILE *out, const struct diagnosed_machine *machine)
{
	if (machine->records)
		return put_line(out, "this machine can record: kernel %s", machine->kernel);
	return put_line(out, "this machine cannot record: %s", machine->why.text);
}

/* Appends a word, after a comma if it is not the first one. */
static void add_word(char *text, size_t room, const char *word)
{
	size_t len = strlen(text);

	snprintf(text + len, room - len, "%s%s", len ? ", " : "", word);
}

static int put_process_verdict(FILE *out, const struct diagnosis *diagnosis)
{
	const struct diagnosed_process *process = &diagnosis->process;
	char but[256] = "";

	for (size_t i = 0; i < process->unseen_nr; i++)
		if (process->unseen[i].is_grave)
			add_word(but, sizeof(but), process->unseen[i].what);
	if (process->records)
		return put_line(out, "process %d (%s) can be recorded%s%s: %zu probe%s would be placed",
				process->pid, process->comm, *but ? ", but not " : "", but,
				count_placed_probes(process), count_placed_probes(process) == 1 ? "" : "s");
	if (*process->why.text)
		return put_line(out, "cannot be recorded: %s", process->why.text);
	return put_line(out, "process %d (%s) cannot be recorded on this machine", process->pid,
			process->comm);
}

/* ---- the process ---- */

static int put_fact(FILE *out, const char *name, const char *text)
{
	return *text ? put_line(out, "  %-*s %s", NAME_WIDTH, name, text) : 0;
}

static int put_program(FILE *out, const struct diagnosed_process *process)
{
	char size[UNIT_TEXT_MAX], text[512];

	snprintf(text, sizeof(text), "%.200s%s%s, %" PRIu64 " thread%s, RSS %s",
		 *process->exe ? process->exe : "(no program)", process->linking ? ", " : "",
		 process->linking ?: "", process->thread_nr, process->thread_nr == 1 ? "" : "s",
		 format_size(size, process->rss_bytes, false));
	return put_fact(out, "program", text);
}

static int put_runtimes(FILE *out, const struct diagnosed_process *process)
{
	char text[512] = "";

	for (int trait = TRAIT_GO; trait <= TRAIT_RUST; trait++)
		if (process->traits >> trait & 1)
			add_word(text, sizeof(text), object_trait_text(trait));
	return put_fact(out, "runtimes", text);
}

static int put_places(FILE *out, const struct diagnosed_process *process)
{
	char text[256] = "";

	if (process->in_pid_namespace)
		add_word(text, sizeof(text), "a pid namespace");
	if (process->in_mount_namespace)
		add_word(text, sizeof(text), "a mount namespace");
	if (process->in_root)
		add_word(text, sizeof(text), "a root directory");
	if (*text)
		add_word(text, sizeof(text), "not ours: it is seen all the same");
	return put_fact(out, "is in", text);
}

static const char *kind_text(const char *kind)
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

static int put_identity(FILE *out, const struct diagnosed_process *process)
{
	int err = put_program(out, process);

	err = err ?: put_runtimes(out, process);
	err = err ?: put_places(out, process);
	err = err ?: put_fact(out, "returns", process->probe_nr ? kind_text(process->probe_kind) : "");
	for (size_t i = 0; i < process->note_nr && !err; i++)
		err = put_fact(out, "note", process->note[i]);
	return err;
}

/* ---- what would be seen, and what not ---- */

static int put_unseen(FILE *out, const struct diagnosed_process *process)
{
	int err = process->unseen_nr ? put_line(out, "would not be seen") : 0;

	for (size_t i = 0; i < process->unseen_nr && !err; i++) {
		const struct unseen *unseen = &process->unseen[i];

		err = put_line(out, "  %s: %s", unseen->what, unseen->why.text);
		if (!err && unseen->todo)
			err = put_line(out, "      to do: %s", unseen->todo);
	}
	return err;
}

static int put_allocators(FILE *out, const struct diagnosed_process *process)
{
	int err = process->probe_nr ? put_line(out, "allocators") : 0;

	for (size_t i = 0; i < process->file_nr && !err; i++) {
		const struct diagnosed_file *file = &process->file[i];

		if (file->allocator)
			err = put_line(out, "  %s (domain %" PRIu32 "): %zu probe%s in %s",
				       file->allocator, file->domain, file->probe_nr,
				       file->probe_nr == 1 ? "" : "s", file->path);
	}
	return err;
}

/* ---- probes ---- */

static const char *placement_text(const struct placement *placement)
{
	static const char *const text[] = {
		[PLACEMENT_EMULATED] = "emulated",
		[PLACEMENT_NONE_IN_REACH] = "single-stepped: no emulated instruction in reach",
		[PLACEMENT_BRANCH_INTO] = "single-stepped: the function branches back to its begin",
		[PLACEMENT_NOT_DECODED] = "at the entry: its code cannot be decoded",
		[PLACEMENT_BEHIND_NOP] = "single-stepped: behind a nop of five bytes",
	};

	return text[placement->why];
}

static const char *return_text(const struct diagnosed_probe *probe)
{
	static const char *const text[] = {
		[RETURN_NONE] = "",
		[RETURN_SESSION] = "; return by session",
		[RETURN_PROBE] = "; return by return probe",
		[RETURN_RET] = "; return by probes on `ret`",
	};

	return text[probe->returns];
}

/* Writes a probe as `show` does: "malloc+3 (/usr/lib/libc.so.6+0x98103): je 0x9810a". */
static int put_diagnosed_probe(FILE *out, const struct diagnosed_process *process,
			       const struct diagnosed_probe *probe)
{
	const struct placement *placement = probe->placement;
	char at[16] = "";

	if (placement->offset)
		snprintf(at, sizeof(at), "+%" PRIu32, placement->offset);
	if (!probe->is_placed)
		return put_line(out, "  %s (%s+0x%" PRIx64 "): not placed, %s", probe->function,
				process->file[probe->file].path, probe->offset,
				probe->is_another ? "all its calls go on in another function" :
						    "it cannot be probed");
	return put_line(out, "  %s%s (%s+0x%" PRIx64 "): %s, %s%s", probe->function, at,
			process->file[probe->file].path, probe->offset + placement->offset,
			placement->instruction, placement_text(placement), return_text(probe));
}

static int put_diagnosed_probes(FILE *out, const struct diagnosed_process *process)
{
	int err = process->probe_nr ? put_line(out, "probes") : 0;

	for (size_t i = 0; i < process->probe_nr && !err; i++)
		err = put_diagnosed_probe(out, process, &process->probe[i]);
	return err;
}

/* ---- files ---- */

static const char *unwinding_text(const struct diagnosed_file *file)
{
	static const char *const text[] = {
		[UNWINDING_UNKNOWN] = "callers not looked at",
		[UNWINDING_TABLE] = "callers by unwind table",
		[UNWINDING_NONE] = "callers by frame pointers: no call frame information",
		[UNWINDING_MISSING] = "no callers: its call frame information cannot be used",
	};

	return text[file->unwinding];
}

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

static int put_file(FILE *out, const struct diagnosed_file *file)
{
	if (*file->path == '[')
		return put_line(out, "  %s: %s", file->path, unwinding_text(file));
	if (file->unreadable)
		return put_line(out, "  %s: cannot be read: %s", file->path, file->unreadable);
	return put_line(out, "  %s%s%.*s%s: %s; %s%s%s", file->path, *file->build_id ? " [" : "",
			BUILD_ID_SHOWN, file->build_id, *file->build_id ? "]" : "",
			unwinding_text(file), names_text(file),
			file->same_as ? "; the same bytes as " : "", file->same_as ?: "");
}

static int put_files(FILE *out, const struct diagnosed_process *process)
{
	int err = process->file_nr ? put_line(out, "files with code") : 0;

	for (size_t i = 0; i < process->file_nr && !err; i++)
		err = put_file(out, &process->file[i]);
	return err;
}

/* ---- the machine ---- */

static int put_checks(FILE *out, const struct diagnosed_machine *machine, bool all)
{
	static const char *const mark[] = {
		[CHECK_GOOD] = "ok", [CHECK_COSTS] = "costs", [CHECK_UNKNOWN] = "unknown",
		[CHECK_BAD] = "NO",
	};
	int err = 0;

	for (size_t i = 0; i < machine->check_nr && !err; i++) {
		const struct check *check = &machine->check[i];

		if (all || check->state != CHECK_GOOD)
			err = put_line(out, "  %-7s %-*s %s", mark[check->state], CHECK_WIDTH,
				       check->name, check->found.text);
	}
	return err;
}

int doctor_text(FILE *out, const struct diagnosis *diagnosis)
{
	const struct diagnosed_process *process = &diagnosis->process;
	int err = 0;

	if (process->pid) {
		err = put_process_verdict(out, diagnosis);
		err = err ?: process->state ? put_identity(out, process) : 0;
		err = err ?: put_unseen(out, process);
		err = err ?: put_allocators(out, process);
		err = err ?: put_diagnosed_probes(out, process);
		err = err ?: put_files(out, process);
	}
	err = err ?: put_machine_verdict(out, &diagnosis->machine);
	return err ?: put_checks(out, &diagnosis->machine, !process->pid);
}
