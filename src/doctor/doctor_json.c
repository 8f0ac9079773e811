// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "doctor/doctor.h"

#include <errno.h>

#include "base/array.h"
#include "collect/diagnosis/diagnosis.h"
#include "elf/object_traits.h"
#include "elf/placement.h"
#include "render/json_parts.h"

static int set_bool(json_t *object, const char *key, bool value)
{
	return json_set(object, key, json_boolean(value));
}

/* Leaves out an empty text, which means: not known. */
static int set_known(json_t *object, const char *key, const char *text)
{
	return text && *text ? json_set_text(object, key, text) : 0;
}

static int append_json(json_t *array, json_t *value)
{
	return json_array_append_new(array, value) ? -ENOMEM : 0;
}

/* ---- the machine ---- */

static json_t *check_json(const struct check *check)
{
	static const char *const state[] = {
		[CHECK_GOOD] = "ok", [CHECK_COSTS] = "costs", [CHECK_UNKNOWN] = "unknown",
		[CHECK_BAD] = "no",
	};
	json_t *row = json_object();
	int err = json_set_text(row, "name", check->name);

	err = err ?: json_set_text(row, "state", state[check->state]);
	err = err ?: json_set_text(row, "found", check->found.text);
	return json_unless(err, row);
}

static json_t *costs_json(const struct trap_costs *costs)
{
	json_t *object = json_object();
	int err = json_set_uint(object, "entry_ns", costs->entry_ns);

	err = err ?: json_set_uint(object, "stepped_ns", costs->stepped_ns);
	err = err ?: json_set_uint(object, "return_ns", costs->return_ns);
	return json_unless(err, object);
}

static json_t *machine_json(const struct diagnosed_machine *machine)
{
	json_t *object = json_object(), *checks = json_array();
	int err = set_bool(object, "records", machine->records);

	err = err ?: set_known(object, "why", machine->why.text);
	err = err ?: json_set_text(object, "kernel", machine->kernel);
	if (!err && machine->costs.entry_ns)
		err = json_set(object, "trap_costs", costs_json(&machine->costs));
	for (size_t i = 0; i < machine->check_nr && !err; i++)
		err = append_json(checks, check_json(&machine->check[i]));
	err = json_set(object, "checks", json_unless(err, checks)) ?: err;
	return json_unless(err, object);
}

/* ---- the process ---- */

static json_t *traits_json(uint64_t traits, int first, int last)
{
	json_t *list = json_array();
	int err = 0;

	for (int trait = first; trait <= last && !err; trait++)
		if (traits >> trait & 1)
			err = append_json(list, json_clean_string(object_trait_text(trait)));
	return json_unless(err, list);
}

static json_t *unseen_json(const struct unseen *unseen)
{
	json_t *row = json_object();
	int err = json_set_text(row, "name", unseen->name);

	err = err ?: json_set_text(row, "what", unseen->what);
	err = err ?: json_set_text(row, "why", unseen->why.text);
	err = err ?: json_set_text(row, "todo", unseen->todo);
	err = err ?: set_bool(row, "grave", unseen->is_grave);
	return json_unless(err, row);
}

static json_t *diagnosed_probe_json(const struct diagnosed_process *process,
				    const struct diagnosed_probe *probe)
{
	static const char *const why[] = {
		[PLACEMENT_EMULATED] = "emulated", [PLACEMENT_NONE_IN_REACH] = "none-in-reach",
		[PLACEMENT_BRANCH_INTO] = "branch-into", [PLACEMENT_NOT_DECODED] = "not-decoded",
		[PLACEMENT_BEHIND_NOP] = "behind-nop",
	};
	static const char *const returns[] = {
		[RETURN_NONE] = NULL, [RETURN_SESSION] = "session", [RETURN_PROBE] = "return probe",
		[RETURN_RET] = "ret",
	};
	json_t *row = json_object();
	int err = json_set_text(row, "object", process->file[probe->file].path);

	err = err ?: json_set_text(row, "function", probe->function);
	err = err ?: json_set_uint(row, "offset", probe->offset);
	err = err ?: json_set_uint(row, "placement", probe->placement->offset);
	err = err ?: set_known(row, "instruction", probe->placement->instruction);
	err = err ?: set_bool(row, "emulated", probe->placement->why == PLACEMENT_EMULATED);
	err = err ?: json_set_text(row, "why", why[probe->placement->why]);
	err = err ?: json_set_text(row, "returns", returns[probe->returns]);
	err = err ?: set_bool(row, "placed", probe->is_placed);
	return json_unless(err, row);
}

static json_t *file_json(const struct diagnosed_file *file)
{
	static const char *const unwinding[] = {
		[UNWINDING_UNKNOWN] = NULL, [UNWINDING_TABLE] = "table",
		[UNWINDING_NONE] = "frame pointers", [UNWINDING_MISSING] = "missing",
	};
	json_t *row = json_object();
	int err = json_set_text(row, "path", file->path);

	err = err ?: set_known(row, "build_id", file->build_id);
	err = err ?: json_set_text(row, "unreadable", file->unreadable);
	err = err ?: json_set_text(row, "same_as", file->same_as);
	err = err ?: json_set_text(row, "unwinding", unwinding[file->unwinding]);
	err = err ?: set_bool(row, "debug_file", file->has_debug_file);
	if (file->has_traits) {
		err = err ?: set_bool(row, "stripped", !(file->traits & TRAIT_BIT(SYMTAB)));
		err = err ?: json_set(row, "has", traits_json(file->traits, 0, TRAIT_NR - 1));
	}
	return json_unless(err, row);
}

static json_t *allocator_json(const struct diagnosed_file *file)
{
	json_t *row = json_object();
	int err = json_set_text(row, "name", file->allocator);

	err = err ?: json_set_uint(row, "domain", file->domain);
	err = err ?: json_set_text(row, "object", file->path);
	err = err ?: set_known(row, "build_id", file->build_id);
	err = err ?: json_set_uint(row, "probes", file->probe_nr);
	return json_unless(err, row);
}

/* ---- its lists ---- */

static json_t *unseens_json(const struct diagnosed_process *process)
{
	json_t *list = json_array();
	int err = 0;

	for (size_t i = 0; i < process->unseen_nr && !err; i++)
		err = append_json(list, unseen_json(&process->unseen[i]));
	return json_unless(err, list);
}

static json_t *diagnosed_probes_json(const struct diagnosed_process *process)
{
	json_t *list = json_array();
	int err = 0;

	for (size_t i = 0; i < process->probe_nr && !err; i++)
		err = append_json(list, diagnosed_probe_json(process, &process->probe[i]));
	return json_unless(err, list);
}

static json_t *files_json(const struct diagnosed_process *process)
{
	json_t *list = json_array();
	int err = 0;

	for (size_t i = 0; i < process->file_nr && !err; i++)
		err = append_json(list, file_json(&process->file[i]));
	return json_unless(err, list);
}

static json_t *allocators_json(const struct diagnosed_process *process)
{
	json_t *list = json_array();
	int err = 0;

	for (size_t i = 0; i < process->file_nr && !err; i++)
		if (process->file[i].allocator)
			err = append_json(list, allocator_json(&process->file[i]));
	return json_unless(err, list);
}

static json_t *notes_json(const struct diagnosed_process *process)
{
	json_t *list = json_array();
	int err = 0;

	for (size_t i = 0; i < process->note_nr && !err; i++)
		err = append_json(list, json_clean_string(process->note[i]));
	return json_unless(err, list);
}

static int set_identity(json_t *object, const struct diagnosed_process *process)
{
	char state[2] = { process->state };
	int err = json_set_text(object, "comm", process->comm);

	err = err ?: set_known(object, "exe", process->exe);
	err = err ?: json_set_text(object, "state", state);
	err = err ?: json_set_text(object, "linking", process->linking);
	err = err ?: json_set(object, "runtimes", traits_json(process->traits, TRAIT_GO, TRAIT_RUST));
	err = err ?: set_bool(object, "kernel_thread", process->is_kernel_thread);
	err = err ?: set_bool(object, "other_pid_namespace", process->in_pid_namespace);
	err = err ?: set_bool(object, "other_mount_namespace", process->in_mount_namespace);
	err = err ?: set_bool(object, "other_root", process->in_root);
	err = err ?: json_set_uint(object, "threads", process->thread_nr);
	err = err ?: json_set_uint(object, "children", process->child_nr);
	err = err ?: json_set_uint(object, "rss_bytes", process->rss_bytes);
	return err ?: json_set_uint(object, "code_without_file_bytes", process->code_bytes);
}

static json_t *process_json(const struct diagnosed_process *process)
{
	json_t *object = json_object();
	int err = json_set_uint(object, "pid", process->pid);

	err = err ?: set_bool(object, "records", process->records);
	err = err ?: set_known(object, "why", process->why.text);
	if (process->state)
		err = err ?: set_identity(object, process);
	if (process->probe_nr)
		err = err ?: json_set_text(object, "probe_kind", process->probe_kind);
	err = err ?: json_set_uint(object, "functions_unprobed", process->failed_nr);
	err = err ?: json_set(object, "unseen", unseens_json(process));
	err = err ?: json_set(object, "allocators", allocators_json(process));
	err = err ?: json_set(object, "probes", diagnosed_probes_json(process));
	err = err ?: json_set(object, "files", files_json(process));
	err = err ?: json_set(object, "notes", notes_json(process));
	return json_unless(err, object);
}

int doctor_json(FILE *out, const struct diagnosis *diagnosis)
{
	json_t *object = json_object();
	int err = json_set_text(object, "schema", "allocsnap.doctor/1");

	err = err ?: set_bool(object, "records", diagnosis__records(diagnosis));
	err = err ?: json_set(object, "machine", machine_json(&diagnosis->machine));
	if (diagnosis->process.pid)
		err = err ?: json_set(object, "process", process_json(&diagnosis->process));
	err = json_put(out, json_unless(err, object), 0);
	if (!err && putc('\n', out) < 0)
		err = -errno ?: -EIO;
	return err;
}
