// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/python_hooks_plan.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "collect/files/written_files.h"
#include "collect/probe/attach_methods.h"
#include "collect/probe/late_programs.h"
#include "process/proc.h"
#include "collect/python/live_pools.h"
#include "collect/python/python_codes.h"
#include "collect/recording/collector.h"
#include "collect/sources/block_sources.h"
#include "elf/allocators.h"
#include "elf/machine.h"
#include "inject/inject.h"
#include "elf/python/python_info.h"
#include "elf/python/python_layers.h"
#include "elf/python/python_lines.h"
#include "elf/runtime_detect.h"
#include "sandbox/client.h"

/* ---- which process ---- */

static bool is_python_program(const struct target *target)
{
	return target->identity.exe && is_python_path(target->identity.exe);
}

static bool has_books(const struct collector *collector, const struct target *target)
{
	return find_python_books(&collector->sources->python_books, target->identity.pid);
}

/* A heap that was recorded before is left only for a program that is Python: its launcher's probes are still there. */
static bool may_use_python(const struct collector *collector, const struct target *target)
{
	const struct probes *probes = target->probes.used;
	bool may_begin = target__is_beside(target) ? python_view_may_begin(collector, target) :
						  !probes_see_heap(probes) || is_python_program(target);

	return collector->options.domains & COLLECTOR_PYTHON &&
	       (has_books(collector, target) || (probes_have_sessions(collector->bpf) && !probes->by_ret)) && !probes->is_paused &&
	       !target->life.has_ended && (target->slot != ACCOUNT_NONE || probes->is_trial) &&
	       (target->python.is_used || may_begin) &&
	       !target->sampler.is_used && !target->heap_books.is_used;
}

#define PYTHONS_NOTED 32 /* in a recording */

static void note_python(struct collector *collector, struct target *target, const char *path, const char *what)
{
	const struct process_identity *identity = &target->identity;
	struct reason *why = &target->python.why_not, note;

	if (*why->text)
		return;
	reason_set(why, 0, "%s%s%s", path, *path ? ": " : "", what);
	if (collector->sources->python_choice.is_default)
		reason_set(&note, 0, "process %d (%s) is recorded by its heap, not by Python's objects: %s", identity->pid,
			   identity->comm, why->text);
	else
		reason_set(&note, 0, "the Python objects of process %d (%s) are not recorded: %s", identity->pid,
			   identity->comm, why->text);
	if (!collector->sources->python_choice.beside_heap && collector->sources->python_noted_nr++ < PYTHONS_NOTED)
		notes_add(&collector->notes, "%s", note.text);
}

/* This obstacle is the same for every process: writes one note, for the first process. */
static void note_obstacle(struct collector *collector, struct target *target)
{
	struct python_choice *choice = &collector->sources->python_choice;

	if (!choice->obstacle || !*choice->obstacle || !is_python_program(target))
		return;
	if (choice->is_obstacle_told)
		reason_set(&target->python.why_not, 0, "%s", choice->obstacle);
	else
		note_python(collector, target, "", choice->obstacle);
	choice->is_obstacle_told = true;
}

/* CPython serves another program there, whose own work may be in the heap. */
static void note_embedded(struct collector *collector, struct target *target)
{
	const struct mappings *mappings = &target->mappings;
	struct reason why;

	for (size_t i = 0; i < mappings->used_nr && !is_python_program(target); i++) {
		const char *path = mappings_used(mappings, i)->path;

		if (!is_python_library(path) || !mappings_have(mappings, mappings->used[i]))
			continue;
		target->python.is_on_request = !is_old_python_name(path, &why);
		note_python(collector, target, path, target->python.is_on_request ?
			    "a library of this program; --domain python records them" : why.text);
	}
}

static void note_python_is_used(struct collector *collector, const struct target *target,
				const struct python_version *version)
{
	const struct process_identity *identity = &target->identity;

	if (!collector->sources->python_choice.is_default || collector->sources->python_choice.beside_heap)
		return;
	notes_add(&collector->notes,
		  "process %d (%s) %s Python %u.%u.%u: %sits objects are recorded, at Python's lines; its heap: --domain malloc",
		  identity->pid, identity->comm, target->life.exec_cnt ? "has become" : "runs", version->major, version->minor,
		  version->micro, target->life.exec_cnt ? "from now on " : "");
}

/* ---- which file ---- */

/*
 * Only these are asked for a CPython: a program, and libraries with that name. If no domain was named, the program must be
 * Python.
 */
static bool may_be_python(const struct collector *collector, const struct target *target, const struct object *object)
{
	bool has_name = is_python_path(object->path), is_wanted;

	if (collector->sources->python_choice.is_default)
		is_wanted = has_name || (is_python_program(target) && is_python_library(object->path));
	else
		is_wanted = has_name || object->is_program || is_path_of_mapping(object->path, target->identity.exe ?: "") ||
			    is_python_library(object->path);
	return is_wanted && object->probe_info && object->fd >= 0 && !object->has_changed && !object->is_put_off &&
	       !object->is_copy;
}

static bool was_asked(const struct target_python *python, uint32_t object)
{
	return array_any(python->asked_nr, i, python->asked[i] == object);
}

/* Larger blocks than pools have cost traps, unless they are not wanted. */
static enum python_pools_asked pools_asked(const struct collector *collector)
{
	const struct collector_options *options = &collector->options;

	if (!options->python_pools)
		return PYTHON_POOLS_NOT;
	if (collector->sources->python_choice.beside_heap)
		return PYTHON_POOLS_ONLY; /* the heap has the larger ones */
	return options->max_size && options->max_size <= COLLECTOR_PYTHON_SMALL_MAX ? PYTHON_POOLS_ONLY : PYTHON_POOLS_AND_LARGE;
}

static struct python_asked places_asked(const struct collector *collector)
{
	const struct collector_options *options = &collector->options;

	return (struct python_asked){
		.creations = !options->python_pools && !options->python_no_retag, .pools = pools_asked(collector),
	};
}

static int python_of_object(const struct collector *collector, const struct object *object,
			    const struct python_info **ret)
{
	const struct python_asked asked = places_asked(collector);

	return stored_info_python(object->stored_info, collector->helpers.sandbox, object->fd, &asked, ret);
}

/* Finds the process's addresses minus the file's. */
static bool find_bias(const struct mappings *mappings, uint32_t object, const struct python_info *info, uint64_t *ret)
{
	for (size_t i = 0; info->site_nr && i < mappings->mapping_nr; i++) {
		const struct mapping *mapping = &mappings->mapping[i];
		uint64_t into = info->site[0].offset - mapping->offset;

		if (mapping->object != object || !mapping_is_there(mappings, mapping) ||
		    into >= mapping->end - mapping->start)
			continue;
		*ret = mapping->start + into - info->site[0].vaddr;
		return true;
	}
	return false;
}

/*
 * Asks the sandbox. 0: *ret has a CPython; -ENOENT: no file has one; or -ENOMEM. A file that is not mapped belongs to
 * an earlier program, such as the parent's before exec, or it may be mapped later: the sandbox is asked then.
 */
static int find_cpython(struct collector *collector, struct target *target, uint32_t *ret_object,
		       const struct python_info **ret)
{
	const struct mappings *mappings = &target->mappings;

	for (size_t i = 0; i < mappings->used_nr; i++) {
		const struct object *object = mappings_used(mappings, i);
		struct reason why;
		int err;

		if (!may_be_python(collector, target, object) || was_asked(&target->python, mappings->used[i]) ||
		    !mappings_have(mappings, mappings->used[i]))
			continue;
		err = array_push(&target->python, asked, mappings->used[i]) ?: python_of_object(collector, object, ret);
		if (err == -ENOENT) {
			if (is_old_python_name(object->path, &why))
				note_python(collector, target, object->path, why.text);
			continue;
		}
		*ret_object = mappings->used[i];
		return err;
	}
	return -ENOENT;
}

/* The process may have begun another program, which the loader has not heard of yet. */
static bool is_code_now(const struct target *target, uint64_t address)
{
	struct maps_line line;

	return maps_find_line(target->identity.pid, address, &line) && line.perms[2] == 'x' && line.inode;
}

/* ---- its memory ---- */

/* The thread state is found as glibc keeps it. A program that is being started may not have mapped its C library yet. */
static bool has_other_c_library(const struct mappings *mappings)
{
	for (size_t i = 0; i < mappings->used_nr; i++) {
		const struct allocator *allocator = allocator_of(mappings_used(mappings, i)->path);

		if (allocator->is_c_library && strcmp(allocator->name, "glibc") && mappings_have(mappings, mappings->used[i]))
			return true;
	}
	return false;
}

/* NULL, or why no objects of a file's CPython can be recorded. */
static const char *find_file_fault(const struct collector *collector, const struct target *target, const struct python_info *info)
{
	if (*info->fault)
		return info->fault;
	if (!info->site_nr)
		return "it was not found where it allocates";
	if (!info->pools.is_known)
		return "it was not found where its allocator keeps its pools";
	if (collector->options.python_retag && !info->creation_nr)
		return "it was not found where its objects begin, which --retag needs";
	if (collector->options.python_frames == COLLECTOR_FRAMES_MIXED && info->offsets.frame_owner == PYTHON_NO_OFFSET)
		return "its frames do not show which C code runs them, which --frames mixed needs: CPython 3.11 "
			"and later do";
	return has_other_c_library(&target->mappings) ? "its C library is not glibc" : NULL;
}

/* The program may be about to begin. */
static const char *find_fault(const struct collector *collector, struct target *target, const struct python_info *info,
			      uint64_t bias, struct python_asked *ret)
{
	bool may_begin = target->life.started_ns && !target->now.account.is_forked, has_begun;

	return find_file_fault(collector, target, info) ?: may_begin ? NULL :
	       python_memory_fault(target, info, bias, ret, &has_begun);
}

/* ---- the decision ---- */

/*
 * Reads the kernel's id of the program's address space. False: the process has called exec since, so the id belongs to
 * another program.
 */
static bool read_memory_id(const struct collector *collector, const struct target *target, uint64_t *ret)
{
	const struct process *account = &collector->targets.accounts.process[target->slot % PROCESSES_MAX];
	uint64_t image;

	*ret = 0;
	if (target->probes.used->is_trial)
		return true;
	*ret = __atomic_load_n(&account->memory, __ATOMIC_ACQUIRE); /* begin_program() writes it last */
	image = __atomic_load_n(&account->image, __ATOMIC_RELAXED);
	return !target->now.account.image || image == target->now.account.image;
}

static void tell_of_python(struct collector *collector, struct target *target, const struct python_info *info,
			  uint64_t bias, uint64_t memory)
{
	struct process *account = &collector->targets.accounts.process[target->slot % PROCESSES_MAX];
	bool is_again = target->python.memory == memory;
	struct python_process process;

	if (!is_again)
		forget_python(collector, target);
	python_process_make(info, bias, &process);
	process.memory = memory;
	python_process_tell(account, &process, is_again);
	target->python.memory = memory;
	target->python.where = process;
}

/* The programs must be loaded before allocsnap gives up its privileges. */
static int load_for_python(struct collector *collector)
{
	const struct bpf_program *program;
	static const enum probe_end end[] = { PROBE_PYTHON, PROBE_PYTHON_HEAP };
	int err = 0;

	if (!(collector->options.domains & COLLECTOR_PYTHON))
		return 0;
	for (size_t i = 0; i < (pools_asked(collector) == PYTHON_POOLS_ONLY ? 1 : ARRAY_SIZE(end)) && !err; i++)
		err = late_programs_find(&collector->late, collector->bpf, end[i], &program);
	return err;
}

/*
 * The launcher of the program was recorded by its heap. Its probes end, and the blocks that they have seen of this program
 * are forgotten: their frees would not be seen.
 */
static int leave_heap(struct collector *collector, struct target *target)
{
	if (!probes_see_heap(target->probes.used))
		return 0;
	probes_close(target->probes.used);
	return target->probes.used->is_trial ? 0 : clear_target_traces(collector, target);
}

static int attach_python(struct collector *collector, struct target *target, uint32_t object,
			 const struct python_info *info, uint64_t bias, uint64_t memory, struct reason *why)
{
	bool is_trial = target->probes.used->is_trial;
	int err = is_trial ? 0 : load_for_python(collector);

	target->python.has_heap = collector->sources->python_choice.beside_heap;
	if (err == -EPERM)
		return reason_set(why, -ENOTSUP, "allocsnap has given up the privileges that this needs: attach again");
	if (!err)
		err = target__is_beside(target) ? python_view_begin(collector, target) : leave_heap(collector, target);
	if (!err && !is_trial)
		tell_of_python(collector, target, info, bias, memory);
	watch_file(collector, object);
	err = err ?: python_places_attach(target__own_probes(target), collector->bpf, &collector->objects, object,
					  info, why);
	err = err ?: python_view_placed(target, object);
	if (err)
		return err;
	target->python.is_used = true;
	target->python.why_not = (struct reason){};
	target->python.object = object;
	target->python.lines = python_lines_of(info->version);
	target->python.unknown_nr = info->unknown_nr;
	target->python.creation_unknown_nr = info->creation_unknown_nr;
	target->python.retags = info->creation_nr;
	target->python.place_nr = info->site_nr;
	target->python.version = info->version;
	note_python_is_used(collector, target, &info->version);
	return is_trial ? 0 : python_check_first(collector, target);
}

/* The functions that serve the raw domain; the C library may be mapped after CPython. */
static int attach_heap_for_python(struct collector *collector, struct target *target, struct reason *why)
{
	const struct mappings *mappings = &target->mappings;
	int err = 0;

	for (size_t i = 0; i < mappings->used_nr && !err; i++)
		if (!mappings_used(mappings, i)->has_changed)
			err = probes_attach_for_python(target__own_probes(target), collector->bpf,
						       &collector->objects, mappings->used[i], why) ?:
			      python_view_placed(target, mappings->used[i]);
	return err;
}

/*
 * Libraries report blocks that they have from elsewhere (numpy), and hooks see nothing of it: these calls are probed, and the
 * ends of code objects, which the kernel side knows by their addresses.
 */
static int attach_tracked(struct collector *collector, struct target *target, uint32_t object, struct reason *why)
{
	const struct python_asked asked = { .pools = PYTHON_TRACKED_ONLY };
	struct python_info info = {};
	uint64_t bias, memory;
	int err = probes_have_sessions(collector->bpf) ?
			  sandbox__python(collector->helpers.sandbox, collector->objects.object[object]->fd, &asked, &info, why) :
			  reason_set(why, -ENOTSUP, "this kernel has no uprobe sessions, which Linux has from 6.13 on");

	if (!err && (*info.fault || !find_bias(&target->mappings, object, &info, &bias) ||
		     !read_memory_id(collector, target, &memory)))
		err = reason_set(why, -ENOTSUP, "%s", *info.fault ? info.fault : "its code is not mapped");
	if (!err && load_for_python(collector))
		err = reason_set(why, -ENOTSUP, "the kernel does not take the programs for it");
	if (!err) {
		tell_of_python(collector, target, &info, bias, memory);
		err = python_places_attach(target__own_probes(target), collector->bpf, &collector->objects, object, &info, why);
		target->python.place_nr = err ? 0 : info.site_nr;
	}
	python_info_release(&info);
	return err;
}

/* Its CPython has the functions of this recording in its tables: no call of its allocators is probed. */
static int attach_books(struct collector *collector, struct target *target, uint32_t object, const struct python_info *info)
{
	struct target_python *python = &target->python;
	struct reason why = {};
	int err;

	python->books = find_python_books(&collector->sources->python_books, target->identity.pid);
	python->retags = python_books_retag(&collector->sources->python_books, target->identity.pid);
	python->is_used = true;
	python->why_not = (struct reason){};
	python->object = object;
	python->lines = python_lines_of(info->version);
	python->version = info->version;
	err = attach_tracked(collector, target, object, &why);
	if (err && err != -ENOMEM)
		notes_add(&collector->notes, "process %d (%s): blocks that libraries report are not recorded (the data of numpy's arrays): %s",
			  target->identity.pid, target->identity.comm, *why.text ? why.text : strerror(-err));
	return err == -ENOMEM ? err : 0;
}

static int try_python(struct collector *collector, struct target *target, uint32_t object,
		      const struct python_info *info, struct reason *why)
{
	struct python_asked asked = places_asked(collector);
	struct python_info hooked = {};
	const char *path = collector->objects.object[object]->path, *fault;
	struct reason why_not = {};
	uint64_t bias = 0, memory;
	bool is_mapped = find_bias(&target->mappings, object, info, &bias), is_hooked;
	int err = 0;

	if (has_books(collector, target))
		return attach_books(collector, target, object, info);
	if (target__is_beside(target) && targets_beside_nr(&collector->targets) >= PYTHONS_MOST)
		fault = "so many other processes are recorded with theirs";
	else
		fault = is_mapped || !info->site_nr ? find_fault(collector, target, info, bias, &asked) :
						      "its code is not mapped";
	if (!read_memory_id(collector, target, &memory) ||
	    (fault && info->site_nr && !*info->fault && !is_code_now(target, bias + info->site[0].vaddr))) {
		target->python.asked_nr--; /* too early, or another program has begun: a later look asks again */
		return 0;
	}
	if (fault) {
		note_python(collector, target, path, fault);
		return 0;
	}
	is_hooked = asked.function[PYTHON_RAW][PYTHON_MALLOC];
	if (is_hooked) /* debug hooks have places of their own */
		err = sandbox__python(collector->helpers.sandbox, collector->objects.object[object]->fd, &asked, &hooked, NULL);
	err = err ?: attach_python(collector, target, object, is_hooked ? &hooked : info, bias, memory, &why_not);
	python_info_release(&hooked);
	if (err && is_of_process(err))
		return reason_set(why, err, "%s", *why_not.text ? why_not.text : strerror(-err));
	if (err)
		note_python(collector, target, path, *why_not.text ? why_not.text : strerror(-err));
	return 0;
}

/* After the exec of another program, a Python's probes in the C library would stand where its heap needs probes. */
static void drop_earlier_probes(struct collector *collector, struct target *target)
{
	struct probes *own = &target->probes.own;
	const struct probe_site *site;

	do
		site = array_find(own, site, i, own->site[i].is_for_python);
	while (site && probes_drop(own, site->object, &collector->shared.detacher));
}

static int use_python(struct collector *collector, struct target *target, struct reason *why)
{
	const struct python_info *info;
	uint32_t object;
	int err;

	note_obstacle(collector, target);
	if (!may_use_python(collector, target))
		return 0;
	if (has_books(collector, target) && target->life.exec_cnt) {
		note_python(collector, target, "", "what recorded it went with the program before exec");
		return 0;
	}
	err = target->python.is_used ? -ENOENT : find_cpython(collector, target, &object, &info);
	if (!err)
		err = try_python(collector, target, object, info, why);
	else if (err == -ENOENT) {
		err = 0;
		if (!target->python.is_used)
			drop_earlier_probes(collector, target);
	}
	if (!err && !target->python.is_used && collector->sources->python_choice.is_default)
		note_embedded(collector, target);
	if (!target->python.is_used)
		python_view_refuse(collector, target);
	return err || !target->python.is_used || target->python.books || pools_asked(collector) == PYTHON_POOLS_ONLY ? err :
	       attach_heap_for_python(collector, target, why);
}

/* ---- the same looks before a recording ---- */

static const struct mapping *mapping_of(const struct mappings *mappings, uint32_t object)
{
	return array_find(mappings, mapping, i, mappings->mapping[i].object == object && mapping_is_there(mappings, &mappings->mapping[i]));
}

/* "FILE: FAULT" */
static int refuse_cpython(const struct collector *collector, uint32_t object, const char *fault, struct reason *why)
{
	return reason_set(why, -ENOTSUP, "%s: %s", collector->objects.object[object]->path, fault);
}

/* Whether CPython is the program or not. */
static int find_any_cpython(struct collector *collector, struct target *target, uint32_t *ret_object, const struct python_info **ret)
{
	struct python_choice *choice = &collector->sources->python_choice;
	bool was_default = choice->is_default;
	int err;

	choice->is_default = false;
	err = find_cpython(collector, target, ret_object, ret);
	choice->is_default = was_default;
	return err;
}

int python_hooks_find(struct collector *collector, struct target *target, struct found_python *ret, struct reason *why)
{
	const struct mapping *mapping;
	const char *fault;
	uint32_t object;
	int err = find_any_cpython(collector, target, &object, &ret->info);

	target->python.asked_nr = 0; /* when the hooks are in, the source asks */
	if (err == -ENOENT && *target->python.why_not.text)
		return reason_set(why, -ENOTSUP, "%s", target->python.why_not.text);
	if (err)
		return reason_set(why, err, "it runs no CPython, and --domain python records nothing else");
	ret->path = collector->objects.object[object]->path;
	fault = find_file_fault(collector, target, ret->info);
	mapping = mapping_of(&target->mappings, object);
	if (!fault && (!mapping || !find_bias(&target->mappings, object, ret->info, &ret->bias)))
		fault = "its code is not mapped";
	if (fault)
		return reason_set(why, -ENOTSUP, "%s: %s", ret->path, fault);
	ret->dev = mapping->dev;
	ret->inode = mapping->inode;
	return 0;
}

/* NULL, or why not. */
static const char *find_fault_of_pools(struct target *target, const struct python_info *info, uint64_t bias,
				       const struct python_asked *hooks)
{
	uint64_t arena_bytes = 0;

	if (hooks->function[PYTHON_RAW][PYTHON_MALLOC] || python_arenas(target, info, bias, &arena_bytes) || !arena_bytes)
		return "its small objects are not in pools";
	return NULL;
}

int python_objects_plan(struct collector *collector, struct target *target, bool by_pools, struct reason *why)
{
	const struct python_asked asked = by_pools ? (struct python_asked){ .pools = PYTHON_POOLS_AND_LARGE } : places_asked(collector);
	struct python_asked hooks = {};
	const struct python_info *known;
	struct python_info info = {};
	const char *fault = "its code is not mapped";
	uint64_t bias;
	uint32_t object;
	int err = find_cpython(collector, target, &object, &known);

	if (err)
		return err == -ENOENT ? reason_set(why, -ENOTSUP, "it is no Python") : err;
	err = sandbox__python(collector->helpers.sandbox, collector->objects.object[object]->fd, &asked, &info, why);
	if (err)
		return err;
	if (*info.fault)
		fault = info.fault;
	else if (find_bias(&target->mappings, object, &info, &bias))
		fault = find_fault(collector, target, &info, bias, &hooks);
	if (!fault && by_pools)
		fault = find_fault_of_pools(target, &info, bias, &hooks);
	if (fault)
		err = refuse_cpython(collector, object, fault, why);
	python_info_release(&info);
	return err;
}

/* ---- the source ---- */

static int choose_python(struct collector *collector, struct reason *why)
{
	python_choice_make(&collector->sources->python_choice, &collector->options);
	return python_options_check(&collector->options, why);
}

_Static_assert((int)COLLECTOR_FRAMES_MIXED == PYTHON_FRAMES_MIXED && (int)COLLECTOR_FRAMES_NATIVE == PYTHON_FRAMES_NATIVE,
	       "the same numbers");

#define PYTHON_RECORD_BYTES (2u << 20) /* some 1,500 code objects, until the loader comes to read them */
#define PYTHONS_RECORDS_BYTES (8u << 20) /* of many processes */
#define PYTHONS_CODES (1u << 20) /* of many processes */

/* Without it, these maps are not used. */
static int configure_python(struct collector *collector, struct allocsnap_bpf *bpf)
{
	const struct collector_options *options = &collector->options;
	int err = 0;

	if (!(options->domains & COLLECTOR_PYTHON))
		return bpf_map__set_max_entries(bpf->maps.python_codes, 1);
	bpf->rodata->settings.has_python = true;
	bpf->rodata->settings.has_pools = options->python_pools;
	bpf->rodata->settings.python_frames = options->python_frames;
	if (options->system_wide)
		err = bpf_map__set_max_entries(bpf->maps.python_codes, PYTHONS_CODES);
	err = err ?: bpf_map__set_max_entries(bpf->maps.python_code_cache, 1 << PYTHON_CACHE_SHIFT);
	err = err ?: bpf_map__set_max_entries(bpf->maps.python_code_marks, 1 << PYTHON_MARKS_SHIFT);
	return err ?: bpf_map__set_max_entries(bpf->maps.python_code_records,
					       options->system_wide ? PYTHONS_RECORDS_BYTES : PYTHON_RECORD_BYTES);
}

/* In recordings by rules a newcomer must not wait for the programs. */
static int begin_python(struct collector *collector, struct reason *why)
{
	struct python_choice *choice = &collector->sources->python_choice;
	const char *obstacle = machine_here() != EM_X86_64 ? "CPython's code is understood on x86-64 only" :
			       probes_have_sessions(collector->bpf) ? NULL : "these need uprobe sessions, which Linux has from 6.13 on";

	/* Hooks need no probes. */
	if (collector->options.domains & COLLECTOR_PYTHON && obstacle && !collector->options.injects &&
	    python_choice_give_up(choice, &collector->options, obstacle, why))
		return -ENOTSUP;
	if (collector->options.system_wide && !choice->beside_heap && !obstacle && load_for_python(collector))
		return reason_set(why, -ENOTSUP, "the kernel does not take the BPF programs for CPython");
	return ring_buffer__add(collector->events.doorbell, bpf_map__fd(collector->bpf->maps.python_code_records),
				note_python_code, collector);
}

static bool loads_python_later(const struct collector *collector)
{
	return collector->sources->python_choice.beside_heap;
}

#define CODES_LEFT_MOST (16u << 10) /* and not more than a quarter of all: so a sweep costs little for each */

void forget_python(struct collector *collector, const struct target *target)
{
	struct targets *targets = &collector->targets;

	if (!targets->accounts.process || !target->python.memory)
		return;
	targets->codes_left += python_process_forget(&targets->accounts.process[target->slot % PROCESSES_MAX],
						     target->python.memory);
	if (targets->codes_left < CODES_LEFT_MOST || targets->codes_left < collector->bpf->bss->python_codes_held / 4)
		return;
	if (!python_codes_sweep(collector->bpf, targets->accounts.process))
		targets->codes_left = 0;
}

static void end_python(struct collector *collector, struct target *target)
{
	probes_close(&target->probes.own); /* first: late writes must not hit the slot's next owner */
	probes_close(&target->probes.beside);
	forget_python(collector, target);
	target_python_release(&target->python);
}

static int read_python_blocks(struct collector *collector)
{
	return read_python_books(collector) ?: python_check(collector);
}

static void close_python(struct collector *collector)
{
	python_books_release(&collector->sources->python_books);
}

static void forget_python_program(struct target *target)
{
	target_python_begin(&target->python, target->now.account.memory);
}

static bool python_is_used(const struct target *target)
{
	return target->python.is_used;
}

static bool python_hides_heap(const struct target *target)
{
	return target->python.is_used && !target->python.has_heap;
}

/* A process whose objects cannot be recorded has a view, too: its snapshot says why. */
static bool has_python_view(const struct target *target)
{
	return target->python.is_used || *target->python.why_not.text || target->snapshots.any_saved;
}

/* Pools stand for the objects in them. */
static bool python_is_estimated(const struct target *target, const struct settings *settings)
{
	return settings->has_pools && target->python.is_used;
}

const struct block_source python_source = {
	.domain = "python",
	.domain_bit = COLLECTOR_PYTHON,
	.trait = TRAIT_BIT(PYTHON),
	.unrecorded = "Python's objects ('--domain python')",
	.choose = choose_python,
	.configure = configure_python,
	.open = begin_python,
	.close = close_python,
	.preload = load_for_python,
	.loads_later = loads_python_later,
	.option_given = python_option_given,
	.attach = use_python,
	.leave = leave_python,
	.forget_program = forget_python_program,
	.end = end_python,
	.keep_cost = keep_python_births,
	.before_cut = python_check_begin,
	.after_read = read_python_blocks,
	.add_tracebacks = read_python_stacks,
	.is_used = python_is_used,
	.hides_heap = python_hides_heap,
	.has_view = has_python_view,
	.is_estimated = python_is_estimated,
	.look_up = look_up_python_lines,
	.frame = add_python_frame,
	.unknown_frame = "[Python code]",
	.describe = describe_python,
	.add_losses = add_python_losses,
};
