// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/cfi_machine.h"

#include <elf.h>
#include <stddef.h>

#include "unwind/stack_code.h"

static const struct cfi_machine machines[] = {
	{ .elf_machine = EM_X86_64, .fp = 6, .sp = 7, .return_address = 16, .reader = &code_reader_x86 },
	{ .elf_machine = EM_AARCH64, .fp = 29, .sp = 31, .return_address = 30, .has_link = true,
	  .reader = &code_reader_arm64 },
};

const struct cfi_machine *cfi_machine_of(uint16_t elf_machine)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		if (machines[i].elf_machine == elf_machine)
			return &machines[i];
	return NULL;
}
