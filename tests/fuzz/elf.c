// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The search of a file for places of probes: WHERE (2 bytes: a function), then the file. Every result is
 * refused with a reason, or lies in the file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "elf/elf_object.h"
#include "elf/probe_info.h"
#include "elf/python/python_info.h"
#include "elf/runtime_detect.h"

static const int allowed[] = { -ENOEXEC, -ENOTSUP, -E2BIG, -ENOMEM, 0 };

static const struct functions_wanted wanted = { 2, { { "main", 6 }, { "frame_dummy", 1 } } };

static void look_for_returns(int fd, uint64_t vaddr, uint64_t bytes)
{
	struct object_returns returns = {};
	struct reason why = { "" };

	if (!object_returns_read(fd, vaddr, &returns, &why))
		MUST(object_returns_are_sound(&returns, bytes));
	object_returns_release(&returns);
}

static void look_for_switch(int fd)
{
	struct elf_object *elf = elf_object__open(fd, NULL);
	size_t found;

	if (elf && !stack_switch_find(elf, &found))
		MUST(found < stack_switch_nr);
	elf_object__close(elf);
}

static void look_for_traits(int fd)
{
	struct runtime_traits traits = {};
	struct reason why = { "" };
	int err = runtime_traits_read(fd, &traits, &why);

	if (err)
		check_refused(err, &why, allowed);
	MUST(traits.bits < 1ull << TRAIT_NR);
}

static const struct python_asked everything_of_python = { .creations = 1, .pools = PYTHON_POOLS_AND_LARGE };

static void look_for_python(int fd, const struct python_asked *asked, uint64_t bytes)
{
	static const int refusals[] = { -ENOENT, -ENOEXEC, -ENOTSUP, -E2BIG, -ENOMEM, 0 };
	struct python_info info = {};
	struct reason why = { "" };
	int err = python_info_read(fd, asked, &info, &why);

	if (err) {
		check_refused(err, &why, refusals);
		check_one_line(&why);
	} else {
		MUST(python_info_is_sound(&info, bytes));
	}
	python_info_release(&info);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t where = size > 2 ? data[0] | data[1] << 8 : 0, bytes = size > 2 ? size - 2 : 0;
	struct probe_info probe_info = {};
	struct reason why = { "" };
	int fd = memfd_create("elf", MFD_CLOEXEC), err;

	MUST(fd >= 0 && write(fd, data + size - bytes, bytes) == (ssize_t)bytes);
	err = probe_info_read(fd, &wanted, &probe_info, &why);
	if (err) {
		check_refused(err, &why, allowed);
		check_one_line(&why);
	} else {
		MUST(probe_info_are_sound(&probe_info, &wanted, bytes));
		for (uint32_t i = 0; i < probe_info.function_nr && i < 4; i++)
			look_for_returns(fd, probe_info.function[i].vaddr, bytes);
		look_for_returns(fd, where, bytes);
		look_for_switch(fd);
		look_for_traits(fd);
		look_for_python(fd, NULL, bytes);
		look_for_python(fd, &everything_of_python, bytes);
	}
	probe_info_release(&probe_info);
	close(fd);
	return 0;
}
