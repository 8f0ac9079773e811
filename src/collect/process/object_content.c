// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Looks into files: their bytes, their frame pointers, whether two have the same names. */
#include "collect/process/objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file_copy.h"
#include "elf/probe_info.h"
#include "sandbox/client.h"
#include "unwind/unwind_table.h"

size_t object_read(const struct object *object, uint64_t offset, void *to, size_t bytes)
{
	bool has_it = object->fd >= 0 && !object->has_changed && offset <= INT64_MAX;
	ssize_t got = has_it ? pread(object->fd, to, bytes, offset) : 0;

	return got < 0 ? 0 : got;
}

bool objects_keeps_frame_pointer(struct objects *objects, uint32_t i, uint64_t return_offset)
{
	struct object *object = objects->object[i];
	struct unwind_rule rule;
	uint64_t vaddr;

	if (!object->facts || object->has_no_table || object->has_changed || !return_offset)
		return true;
	if (!object->table)
		object->has_no_table = parser__unwind_table(objects->parser, object->fd,
							    &object->table, NULL);
	if (object->has_no_table || unwind_table__vaddr(object->table, return_offset - 1, &vaddr))
		return true;
	rule = unwind_table__rule(object->table, vaddr);
	return rule.cfa_kind == UNWIND_CFA_FP || rule.cfa_kind == UNWIND_CFA_NONE ||
	       rule.cfa_kind == UNWIND_CFA_ROOT;
}

const char *object_names_key(const struct object *object, char text[24])
{
	snprintf(text, 24, "%" PRIu64, object->names_id);
	return text;
}

/* ---- files with the same content ---- */

#define TWIN_BYTES_MAX (128u << 20) /* the recorder does nothing else while it compares */

static bool may_be_twin(const struct object *a, const struct object *b)
{
	return a && a != b && a->fd >= 0 && a->facts && !a->has_changed && *a->facts->build_id &&
	       !strcmp(a->path, b->path) && !strcmp(a->facts->build_id, b->facts->build_id) &&
	       a->identity.bytes == b->identity.bytes && a->identity.bytes <= TWIN_BYTES_MAX;
}

static const struct object *find_twin(const struct objects *objects, const struct object *object)
{
	for (size_t i = 0; i < objects->object_nr && object->facts; i++)
		if (may_be_twin(objects->object[i], object))
			return objects->object[i];
	return NULL;
}

/* Only one candidate is compared: anyone can make many files that seem to be the same. */
void object_give_names_id(struct objects *objects, struct object *object)
{
	const struct object *twin = find_twin(objects, object);

	if (twin && file_bytes_are_same(twin->fd, object->fd, object->identity.bytes))
		object->names_id = twin->names_id;
	else
		object->names_id = ++objects->names_nr;
}
