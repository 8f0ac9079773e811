// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/diagnosis/diagnosis.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/privileges.h"
#include "inject/inject.h"
#include "java/jvm.h"
#include "process/proc.h"
#include "collect/probe/attach_methods.h"
#include "collect/probe/feature_probes.h"
#include "collect/python/target_python.h"
#include "collect/recording/load.h"
#include "collect/session/session.h"
#include "collect/sources/injection.h"
#include "elf/allocators.h"
#include "elf/probe_info.h"
#include "elf/runtime_detect.h"
#include "sandbox/client.h"
#include "symbols/debug_file.h"

/* ---- the files of a process ---- */

static const enum diagnosed_unwinding unwinding_of[] = {
	[UNWIND_TABLE_UNSEEN] = UNWINDING_UNKNOWN,
	[UNWIND_TABLE_THERE] = UNWINDING_TABLE,
	[UNWIND_TABLE_NONE] = UNWINDING_NONE,
	[UNWIND_TABLE_MISSING] = UNWINDING_MISSING,
};

static bool has_debug_file(const struct object *object)
{
	const char *hex = object->probe_info ? object->probe_info->build_id : "";
	uint8_t build_id[OBJECT_BUILD_ID_BYTES];
	struct debug_want want = { .kind = DEBUG_BY_BUILD_ID, .build_id = build_id };
	int root = open(DEBUG_FILE_ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC), fd;

	for (; sscanf(hex, "%2hhx", &build_id[want.build_id_len]) == 1; hex += 2)
		want.build_id_len++;
	fd = root < 0 ? -1 : debug_file__candidate(root, object->path, &want);
	if (fd >= 0)
		close(fd);
	if (root >= 0)
		close(root);
	return fd >= 0;
}

/* Looks at one byte only (EI_CLASS): the rest of a 32-bit file is not read. */
static bool is_elf32_file(const struct object *object)
{
	uint8_t ident[5] = {};

	return object_read(object, 0, ident, sizeof(ident)) == sizeof(ident) &&
	       !memcmp(ident, "\177ELF", 4) && ident[4] == 1;
}

static bool is_program_file(const struct object *object, const char *exe)
{
	return *object->path && is_path_of_mapping(object->path, exe);
}

static const char *same_as(const struct objects *objects, uint32_t index)
{
	const struct object *object = objects->object[index];

	for (uint32_t i = 0; object->probe_info && i < index; i++)
		if (objects->object[i] && objects->object[i]->probe_info == object->probe_info)
			return objects->object[i]->path;
	return NULL;
}

static int add_diagnosed_file(struct diagnosis *diagnosis, uint32_t index)
{
	struct collector *collector = diagnosis->collector;
	const struct object *object = collector->objects.object[index];
	struct diagnosed_file file = {
		.path = object->path,
		.build_id = object->probe_info ? object->probe_info->build_id : "",
		.unreadable = object->unreadable,
		.same_as = same_as(&collector->objects, index),
		.is_program = is_program_file(object, diagnosis->process.exe),
		.is_32_bit = is_elf32_file(object),
		.is_copied = object->is_copied && object->probe_info->function_nr,
		.has_nameless_heap = object->probe_info && object->probe_info->nameless_heap,
		.has_more_heaps = object->probe_info && object->probe_info->has_more_heaps,
		.has_debug_file = has_debug_file(object),
	};
	struct runtime_traits traits = {};

	if (object->probe_info)
		file.has_traits = !sandbox__traits(collector->helpers.sandbox, object->fd, &traits, NULL);
	file.traits = traits.bits;
	diagnosis->process.traits |= traits.bits;
	if (index < collector->unwind_tables.entry_nr)
		file.unwinding = unwinding_of[collector->unwind_tables.entry[index].state];
	return array_push(&diagnosis->process, file, file);
}

/* The program's file shows how it was linked. */
static const char *linking_of(const struct diagnosed_process *process)
{
	for (size_t i = 0; i < process->file_nr; i++) {
		const struct diagnosed_file *file = &process->file[i];

		if (file->is_program && file->is_32_bit)
			return "32-bit";
		if (!file->is_program || !file->has_traits)
			continue;
		if (!(file->traits & TRAIT_BIT(DYNAMIC)))
			return "static";
		return file->traits & TRAIT_BIT(INTERPRETER) ? "dynamic" : "static PIE";
	}
	return NULL;
}

static int diagnose_files(struct diagnosis *diagnosis)
{
	const struct mappings *mappings = &diagnosis->target->mappings;
	int err = 0;

	for (size_t i = 0; i < mappings->used_nr && !err; i++)
		err = add_diagnosed_file(diagnosis, mappings->used[i]);
	for (size_t i = 0; i < mappings->mapping_nr; i++)
		if (mappings->mapping[i].object == OBJECT_NONE)
			diagnosis->process.code_bytes +=
				mappings->mapping[i].end - mappings->mapping[i].start;
	diagnosis->process.is_map_too_large = made_code_is_too_large(&diagnosis->target->made_code);
	diagnosis->process.has_perf_map = diagnosis->target->made_code.fd >= 0 && !diagnosis->process.is_map_too_large;
	diagnosis->process.linking = linking_of(&diagnosis->process);
	return err;
}

/* ---- the probes that would be placed in its files ---- */

static size_t find_file_index(const struct mappings *mappings, uint32_t object)
{
	size_t i = 0;

	while (i < mappings->used_nr && mappings->used[i] != object)
		i++;
	return i;
}

static enum diagnosed_return returns_of(const struct diagnosis *diagnosis,
					const struct probe_site *site)
{
	if (shape_is_free(site->shape) || shape_is_reported(site->shape) || shape_is_python(site->shape))
		return RETURN_NONE;
	if (site->throws || diagnosis->target->probes.used->by_ret)
		return RETURN_RET;
	return probes_have_sessions(diagnosis->collector->bpf) ? RETURN_SESSION : RETURN_PROBE;
}

static int add_probe(struct diagnosis *diagnosis, const struct probe_site *site)
{
	struct diagnosed_process *process = &diagnosis->process;
	struct diagnosed_probe probe = {
		.file = find_file_index(&diagnosis->target->mappings, site->object),
		.offset = site->offset,
		.placement = &site->placement,
		.returns = returns_of(diagnosis, site),
		.is_placed = site->is_attached,
		.is_another = site->is_another,
		.is_python = shape_is_python(site->shape),
	};
	struct diagnosed_file *file;
	char name[FUNCTION_NAME_MAX];

	snprintf(probe.function, sizeof(probe.function), "%s",
		 probe_site_name(site, diagnosis->collector->objects.object[site->object], name));
	if (probe.file == process->file_nr)
		return 0;
	file = &process->file[probe.file];
	if (!probe.is_python)
		file->probe_nr += probe.is_placed;
	else if (!file->allocator) /* the first of its rows, which have all places together */
		file->probe_nr += diagnosis->target->python.place_nr;
	file->allocator = site->domain ? domain_name(site->domain) : allocator_of(file->path)->name;
	file->domain = site->domain;
	return array_push(process, probe, probe);
}

static void diagnose_python(struct diagnosed_python *ret, const struct target_python *python, const char *obstacle)
{
	ret->is_used = python->is_used;
	ret->is_there = python->is_used || *python->why_not.text;
	ret->place_nr = python->place_nr;
	ret->unknown_nr = python->unknown_nr;
	ret->why_not = *python->why_not.text ? python->why_not.text : NULL;
	ret->is_refused = (obstacle && *obstacle) || (ret->why_not && !python->is_on_request);
	if (python->is_used)
		snprintf(ret->version, sizeof(ret->version), "%u.%u.%u", python->version.major, python->version.minor,
			 python->version.micro);
}

static int diagnose_probes(struct diagnosis *diagnosis)
{
	const struct probes *probes = diagnosis->target->probes.used;
	int err = 0;

	for (size_t i = 0; i < probes->site_nr && !err; i++)
		err = add_probe(diagnosis, &probes->site[i]);
	diagnose_python(&diagnosis->process.python, &diagnosis->target->python, diagnosis->collector->sources->python_choice.obstacle);
	go_look_at(diagnosis->collector, diagnosis->target, &diagnosis->process.go);
	diagnosis->process.failed_nr = probes->failed_nr + probes->dropped_nr;
	diagnosis->process.probe_kind = probes_kind(probes, diagnosis->collector->bpf);
	return err;
}

/* ---- its identity ---- */

static bool is_in_other_namespace(pid_t pid, const char *name)
{
	char theirs[64], ours[64];
	struct stat a, b;

	snprintf(theirs, sizeof(theirs), "/proc/%d/%s", pid, name);
	snprintf(ours, sizeof(ours), "/proc/self/%s", name);
	return !stat(theirs, &a) && !stat(ours, &b) &&
	       (a.st_ino != b.st_ino || a.st_dev != b.st_dev);
}

static char read_process_state(pid_t pid)
{
	char *text = proc_read(pid, "status", NULL);
	const char *line = text ? strstr(text, "\nState:") : NULL;
	char state = 0;

	if (line)
		sscanf(line, "\nState: %c", &state);
	free(text);
	return state;
}

static uint64_t count_children(pid_t pid)
{
	char name[64], *text;
	uint64_t nr = 0;

	snprintf(name, sizeof(name), "task/%d/children", pid);
	text = proc_text(pid, name);
	for (const char *at = text; at && *at; at++)
		nr += *at == ' ';
	free(text);
	return nr;
}

/* CPython's setting that makes it take all memory from malloc. */
static bool uses_python_malloc(pid_t pid)
{
	static const char *const words[] = { "PYTHONMALLOC=malloc", "PYTHONMALLOC=malloc_debug" };
	size_t len, at = 0;
	char *text = proc_read(pid, "environ", &len);
	bool says = false;

	for (; text && at < len && !says; at += strlen(text + at) + 1)
		for (size_t i = 0; i < ARRAY_SIZE(words); i++)
			says |= !strcmp(text + at, words[i]);
	free(text);
	return says;
}

static void diagnose_java(pid_t pid, struct diagnosed_java *ret)
{
	struct jvm jvm = {};
	int err = jvm_look(pid, &jvm, &ret->why_not);

	ret->is_there = !err || err == -ENOTSUP;
	ret->version = jvm.version;
	if (!err)
		jvm_check_agent(&jvm, &ret->why_not);
}

static int read_identity(struct diagnosed_process *process)
{
	uint64_t kib = 0, tgid;
	pid_t pid = process->pid;

	if (!proc_status(pid, "Tgid", &tgid))
		pid = process->pid = tgid; /* of the thread's process */
	process->state = read_process_state(pid);
	proc_status(pid, "Threads", &process->thread_nr);
	proc_status(pid, "VmRSS", &kib);
	process->rss_bytes = kib * 1024;
	process->is_kernel_thread = proc_is_kernel_thread(pid);
	process->child_nr = count_children(pid);
	process->in_pid_namespace = is_in_other_namespace(pid, "ns/pid");
	process->in_mount_namespace = is_in_other_namespace(pid, "ns/mnt");
	process->in_root = is_in_other_namespace(pid, "root/.");
	process->python_malloc = uses_python_malloc(pid);
	diagnose_java(pid, &process->java);
	process->comm = proc_text(pid, "comm");
	process->exe = proc_link(pid, "exe");
	return process->comm && process->exe ? 0 : -ENOMEM;
}

/* ---- all of a process ---- */

static int collect_notes(struct diagnosis *diagnosis)
{
	char *note;
	int err = 0;

	while (!err && (note = collector__next_note(diagnosis->collector))) {
		err = array_push(&diagnosis->process, note, note);
		if (err)
			free(note);
	}
	return err;
}

/* The state explains better why the process could not be opened. */
static void report_unopened_process(struct diagnosed_process *process)
{
	if (process->state == 'Z' && !proc_live_thread(process->pid))
		reason_set(&process->why, 0,
			   "process %d (%s) is a zombie: it has ended, and its parent has not waited for it",
			   process->pid, process->comm);
	else if (process->state == 'Z')
		reason_set(
			&process->why, 0,
			"process %d (%s): its main thread has ended, and the kernel ties probes to that one's memory; its other threads cannot be probed",
			process->pid, process->comm);
}

static int open_target(struct diagnosis *diagnosis)
{
	struct diagnosed_process *process = &diagnosis->process;
	struct target *target = target__open(process->pid, &diagnosis->collector->objects,
					     &process->why);

	if (!target && errno == ENOMEM)
		return -ENOMEM;
	if (!target) {
		report_unopened_process(process);
		return 0;
	}
	target->probes.own.pid = target->identity.pid;
	target->probes.own.is_trial = true;
	target->probes.own.by_ret = diagnosis->collector->options.no_return_probes;
	diagnosis->target = target;
	return 0;
}

/* Without privileges, what the kernel has is not known. */
static int check_links(struct reason *why)
{
	return !trial_load() && probe_way_choose()->is_alone ? reason_set(why, -ENOTSUP, INJECTION_NEEDS_LINKS) : 0;
}

static void plan_injection_into(struct sandbox *sandbox, struct diagnosed_process *process)
{
	int err = check_links(&process->not_injected) ?:
		  inject_plan_make(sandbox, process->pid, &process->injection, &process->not_injected);

	if (err)
		process->injection = NULL;
}

static void plan_exact_into(struct collector *collector, struct diagnosed_process *process)
{
	struct target *target = target__open(process->pid, &collector->objects, &process->not_exact);

	process->exact = target ? calloc(1, sizeof(*process->exact)) : NULL;
	if (process->exact && (check_links(&process->not_exact) ?:
			       exact_plan_make(collector, target, process->exact, &process->not_exact))) {
		free(process->exact);
		process->exact = NULL;
	}
	if (target)
		target_python_release(&target->python);
	target__free(target);
}

static int diagnose_process(struct diagnosis *diagnosis)
{
	struct diagnosed_process *process = &diagnosis->process;
	int err = read_identity(process) ?: open_target(diagnosis);
	if (!err && diagnosis->target) {
		process->records = !find_probes(diagnosis->collector, diagnosis->target, &process->why) &&
				   !check_unfinished_injection(diagnosis->target, &process->why) &&
				   diagnosis->machine.records;
		err = diagnose_files(diagnosis) ?: diagnose_probes(diagnosis);
		plan_injection_into(diagnosis->collector->helpers.sandbox, process);
		plan_exact_into(diagnosis->collector, process);
	} else {
		process->not_injected = process->not_exact = process->why;
	}
	return err ?: collect_notes(diagnosis) ?: diagnose_unseen(process);
}

/* ---- all ---- */

/* A collector with the parts that need no kernel. NULL and errno. */
static struct collector *open_looking_collector(struct reason *why)
{
	struct collector *collector = collector_new(NULL);

	if (!collector) {
		errno = ENOMEM;
		return NULL;
	}
	collector->helpers.sandbox = sandbox__open(&(struct sandbox_options){}, why);
	collector->objects.sandbox = collector->helpers.sandbox;
	collector->objects.domains = COLLECTOR_MALLOC;
	if (collector->helpers.sandbox)
		return collector;
	collector__close(collector);
	return NULL;
}

/* Opens a collector that can record. If that fails, makes one with the parts that need no kernel. */
static struct collector *open_diagnosis_collector(struct diagnosed_machine *machine)
{
	const struct collector_options options = { .max_blocks = 1024, .max_tracebacks = 1024 };
	struct collector *collector = collector__open(&options, &machine->why);

	machine->records = collector != NULL;
	if (collector)
		return collector;
	collector = open_looking_collector(NULL);
	if (!collector)
		return NULL;
	collector->bpf = open_bpf();
	if (collector->bpf)
		return collector;
	collector__close(collector);
	return NULL;
}

struct diagnosis *diagnosis__new(pid_t pid, struct reason *why)
{
	struct diagnosis *diagnosis = calloc(1, sizeof(*diagnosis));
	int err = diagnosis ? mounts_check(why) : reason_set(why, -ENOMEM, "out of memory");

	if (!err)
		reason_set(why, 0, "out of memory");
	if (!err)
		diagnosis->collector = open_diagnosis_collector(&diagnosis->machine);
	if (!err && !diagnosis->collector)
		err = -ENOMEM;
	err = err ?: diagnose_machine(&diagnosis->machine);
	if (!err && pid) {
		diagnosis->process.pid = pid;
		err = diagnose_process(diagnosis);
	}
	if (!err)
		return diagnosis;
	diagnosis__free(diagnosis);
	return NULL;
}

struct diagnosis *diagnosis__of_injection(pid_t pid, bool is_exact, uint32_t domains, struct reason *why)
{
	struct diagnosis *diagnosis = calloc(1, sizeof(*diagnosis));
	int err = diagnosis ? mounts_check(why) : reason_set(why, -ENOMEM, "out of memory");

	if (!err) {
		reason_set(why, 0, "out of memory");
		diagnosis->collector = open_looking_collector(why);
	}
	if (err || !diagnosis->collector) {
		diagnosis__free(diagnosis);
		return NULL;
	}
	diagnosis->collector->options.domains = domains;
	diagnosis->process.pid = pid;
	proc_status(pid, "Threads", &diagnosis->process.thread_nr);
	if (is_exact)
		plan_exact_into(diagnosis->collector, &diagnosis->process);
	else
		plan_injection_into(diagnosis->collector->helpers.sandbox, &diagnosis->process);
	return diagnosis;
}

#define BUSY_LOOK_NS 200000000

int diagnose_ways(pid_t pid, struct ways *ret, double *ret_core_percent, struct reason *why)
{
	struct collector *collector = open_looking_collector(why);
	uint64_t before_ns = 0, after_ns = 0, begun_ns = monotonic_now_ns(), took_ns;

	if (!collector)
		return -errno;
	collector->sources->python_choice.is_default = true;
	cpu_time_read(pid, &before_ns);
	ways_find(collector, pid, NULL, ret);
	collector__close(collector);
	took_ns = monotonic_now_ns() - begun_ns;
	if (took_ns < BUSY_LOOK_NS)
		nanosleep(&(struct timespec){ .tv_nsec = BUSY_LOOK_NS - took_ns }, NULL);
	cpu_time_read(pid, &after_ns);
	*ret_core_percent = after_ns > before_ns ? 100.0 * (after_ns - before_ns) / (monotonic_now_ns() - begun_ns) : 0;
	return 0;
}

static void release_process(struct diagnosed_process *process)
{
	inject_plan_free(process->injection);
	free(process->exact);
	for (size_t i = 0; i < process->note_nr; i++)
		free(process->note[i]);
	free(process->note);
	free(process->unseen);
	free(process->probe);
	free(process->file);
	free(process->comm);
	free(process->exe);
}

void diagnosis__free(struct diagnosis *diagnosis)
{
	if (!diagnosis)
		return;
	release_process(&diagnosis->process);
	free(diagnosis->machine.check);
	if (diagnosis->target) {
		probes_close(&diagnosis->target->probes.own);
		go_look_end(diagnosis->target);
		target__free(diagnosis->target);
	}
	collector__close(diagnosis->collector);
	free(diagnosis);
}

bool diagnosis__records(const struct diagnosis *diagnosis)
{
	return diagnosis->machine.records &&
	       (!diagnosis->process.pid || diagnosis->process.records);
}
