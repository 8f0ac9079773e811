// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reads from the file of an object. */
#include "collect/process/objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

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
