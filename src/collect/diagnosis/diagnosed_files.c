// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reports the files of a process and the probes that would be placed in them. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/diagnosis/diagnosis.h"
#include "collect/session/session.h"
#include "elf/allocators.h"
#include "elf/probe_info.h"
#include "elf/runtime_detect.h"
#include "sandbox/client.h"
#include "symbols/debug_file.h"

/* ---- its files ---- */

static const enum diagnosed_unwinding unwinding_of[] = {
	[UNWIND_TABLE_UNSEEN] = UNWINDING_UNKNOWN,
	[UNWIND_TABLE_THERE] = UNWINDING_TABLE,
	[UNWIND_TABLE_NONE] = UNWINDING_NONE,
	[UNWIND_TABLE_MISSING] = UNWINDING_MISSING,
};

static bool has_debug_file(const struct object *object)
{
	const char *hex = object->facts ? object->facts->build_id : "";
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

/* One byte tells (EI_CLASS); the rest of a 32-bit file is not read. */
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

	for (uint32_t i = 0; object->facts && i < index; i++)
		if (objects->object[i] && objects->object[i]->facts == object->facts)
			return objects->object[i]->path;
	return NULL;
}

static int add_diagnosed_file(struct diagnosis *diagnosis, uint32_t index)
{
	struct collector *collector = diagnosis->collector;
	const struct object *object = collector->objects.object[index];
	struct diagnosed_file file = {
		.path = object->path,
		.build_id = object->facts ? object->facts->build_id : "",
		.unreadable = object->unreadable,
		.same_as = same_as(&collector->objects, index),
		.is_program = is_program_file(object, diagnosis->process.exe),
		.is_32_bit = is_elf32_file(object),
		.is_copied = object->is_copied && object->facts->function_nr,
		.has_nameless_heap = object->facts && object->facts->nameless_heap,
		.has_more_heaps = object->facts && object->facts->has_more_heaps,
		.has_debug_file = has_debug_file(object),
	};
	struct runtime_traits traits = {};

	if (object->facts)
		file.has_traits = !parser__traits(collector->helpers.parser, object->fd, &traits, NULL);
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

int diagnose_files(struct diagnosis *diagnosis)
{
	const struct mappings *mappings = &diagnosis->target->mappings;
	int err = 0;

	for (size_t i = 0; i < mappings->used_nr && !err; i++)
		err = add_diagnosed_file(diagnosis, mappings->used[i]);
	for (size_t i = 0; i < mappings->mapping_nr; i++)
		if (mappings->mapping[i].object == OBJECT_NONE)
			diagnosis->process.code_bytes +=
				mappings->mapping[i].end - mappings->mapping[i].start;
	diagnosis->process.linking = linking_of(&diagnosis->process);
	return err;
}

/* ---- its probes ---- */

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
	if (shape_is_free(site->shape) || shape_is_python(site->shape))
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

static void diagnose_python(struct diagnosed_python *ret, const struct target_python *python)
{
	ret->is_used = python->is_used;
	ret->is_there = python->is_used || *python->why_not.text;
	ret->place_nr = python->place_nr;
	ret->unknown_nr = python->unknown_nr;
	ret->why_not = *python->why_not.text ? python->why_not.text : NULL;
	if (python->is_used)
		snprintf(ret->version, sizeof(ret->version), "%u.%u.%u", python->version.major, python->version.minor,
			 python->version.micro);
}

int diagnose_probes(struct diagnosis *diagnosis)
{
	const struct probes *probes = diagnosis->target->probes.used;
	int err = 0;

	for (size_t i = 0; i < probes->site_nr && !err; i++)
		err = add_probe(diagnosis, &probes->site[i]);
	diagnose_python(&diagnosis->process.python, &diagnosis->target->python);
	diagnosis->process.failed_nr = probes->failed_nr + probes->dropped_nr;
	diagnosis->process.probe_kind = probes_kind(probes, diagnosis->collector->bpf);
	return err;
}
