// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/elf_object.h"
#include "elf/object_facts.h"
#include "elf/returns.h"

static int take_places(const struct elf_object *elf, const struct returns *found,
		       struct object_returns *ret, struct reason *why)
{
	if (found->place_nr > OBJECT_RETURNS_MAX)
		return reason_set(why, -ENOTSUP, "it returns at %zu places", found->place_nr);
	*ret = (struct object_returns){
		.place = calloc(found->place_nr + 1, sizeof(*ret->place)),
		.leads_to_probed = found->leads_to_probed,
	};
	if (!ret->place)
		return -ENOMEM;
	for (size_t i = 0; i < found->place_nr; i++) {
		struct object_return *place = &ret->place[ret->place_nr++];

		place->is_in_argument = found->place[i].is_in_argument;
		if (elf_object__offset_of(elf, found->place[i].vaddr, &place->offset))
			return reason_set(why, -ENOTSUP, "a return that is not in the file");
	}
	return 0;
}

int object_returns_read(int fd, uint64_t vaddr, struct object_returns *ret, struct reason *why)
{
	struct elf_object *elf = elf_object__open(fd, why);
	struct returns found = {};
	struct code_source source;
	struct elf_code code;
	int err;

	if (!elf)
		return -errno;
	*ret = (struct object_returns){};
	err = elf_code_open(&code, elf, &source);
	if (!err)
		err = returns_find(&source, vaddr, &found, why);
	if (!err)
		err = take_places(elf, &found, ret, why);
	returns_release(&found);
	if (err)
		object_returns_release(ret);
	elf_object__close(elf);
	return err;
}

void object_returns_release(struct object_returns *returns)
{
	free(returns->place);
	memset(returns, 0, sizeof(*returns));
}

bool object_returns_are_sound(const struct object_returns *returns, uint64_t file_bytes)
{
	if (returns->place_nr > OBJECT_RETURNS_MAX || returns->leads_to_probed > 1)
		return false;
	for (uint32_t i = 0; i < returns->place_nr; i++)
		if (returns->place[i].is_in_argument > 1 || returns->place[i].offset >= file_bytes)
			return false;
	return true;
}
