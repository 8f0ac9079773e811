// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/machine.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"

const struct machine *machine_of(uint16_t elf_machine)
{
	static const struct machine *const machines[] = { &machine_x86, &machine_a64 };

	for (size_t i = 0; i < ARRAY_SIZE(machines); i++)
		if (machines[i]->elf_machine == elf_machine)
			return machines[i];
	return NULL;
}

/* The linker's name for the begin of the program, or of the library, that this code is in. */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

uint16_t machine_here(void)
{
	return __ehdr_start.e_machine;
}

int insn_reader__open(struct insn_reader *reader, uint16_t elf_machine)
{
	*reader = (struct insn_reader){ .machine = machine_of(elf_machine) };
	if (!reader->machine)
		return -ENOTSUP;
	return reader->machine->open ? reader->machine->open(reader) : 0;
}

void insn_reader__close(struct insn_reader *reader)
{
	if (reader->decoder)
		reader->machine->close(reader);
	reader->decoder = NULL;
}

void insn_reader__begin_line(struct insn_reader *reader)
{
	memset(reader->earlier, 0, sizeof(reader->earlier));
}

void insn_reader__remember(struct insn_reader *reader, struct earlier earlier)
{
	memmove(reader->earlier + 1, reader->earlier, sizeof(earlier) * (EARLIER_NR - 1));
	reader->earlier[0] = earlier;
}

bool code_is_stub(const struct insn_reader *reader, const uint8_t *code, size_t size, uint64_t vaddr, uint64_t *ret_slot)
{
	struct insn_reader stub = { .machine = reader->machine, .decoder = reader->decoder };
	struct insn insn = {};
	size_t at = 0;

	do {
		at += insn.bytes;
		if (!stub.machine->read(&stub, code + at, size - at, vaddr + at, &insn))
			return false;
	} while (insn.is_of_stub);
	*ret_slot = insn.target;
	return insn.flow == FLOW_JUMP_SLOT;
}
