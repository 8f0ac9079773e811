// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Call frame information, in a library around it that may be damaged too: KIND, as many changes of the headers as KIND
 * says (offset: 2 bytes, byte), then the section's bytes. Every input is refused with a reason, or gives a table in
 * which any address can be looked up and stepped from.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "unwind/unwind_table.h"

struct unwind_memory {
	uint64_t word;
};

static int unwind_memory__read(struct unwind_memory *memory, bpf_u64 address, bpf_u64 *ret_word)
{
	*ret_word = memory->word += address;
	return !(address & 0xff);
}

struct unwind_rows {
	const unwind_row *row;
};

static unwind_row unwind_rows__at(const struct unwind_rows *rows, bpf_u32 index)
{
	return rows->row[index];
}

#include "shared/unwind_step.h"

/* ---- the library around it ---- */

#define KIND_CHANGES 0x0f
#define KIND_DEBUG_FRAME 0x10
#define KIND_NO_SECTIONS 0x20
#define TEXT_SIZE 0x30000

struct front {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[2];
	Elf64_Shdr shdr[3];
	char names[32];
	uint8_t header[8]; /* of PT_GNU_EH_FRAME: .eh_frame begins right behind it */
};

#define AT(field) offsetof(struct front, field)

static const struct front whole = {
	.ehdr = {
		.e_ident = ELFMAG "\2\1\1", .e_type = ET_DYN, .e_machine = EM_X86_64,
		.e_version = EV_CURRENT, .e_phoff = AT(phdr), .e_shoff = AT(shdr),
		.e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2,
		.e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3, .e_shstrndx = 2,
	},
	.phdr = {
		{ PT_LOAD, PF_R | PF_X, 0, 0, 0, TEXT_SIZE, TEXT_SIZE, 4096 },
		{ PT_GNU_EH_FRAME, PF_R, AT(header), AT(header), 0, 8, 8, 4 },
	},
	.shdr = {
		[1] = { 1, SHT_PROGBITS, SHF_ALLOC, sizeof(struct front), sizeof(struct front) },
		[2] = { 0, SHT_STRTAB, 0, 0, AT(names), sizeof(whole.names) },
	},
	.names = "\0.eh_frame",
	.header = { 1, 0x1b, 0xff, 0xff, 4 },
};

static void set_kind(struct front *front, uint8_t kind, size_t section_size)
{
	*front = whole;
	front->shdr[1].sh_size = section_size;
	if (kind & KIND_DEBUG_FRAME)
		memcpy(front->names + 1, ".debug_frame", sizeof(".debug_frame"));
	if (kind & KIND_NO_SECTIONS)
		front->ehdr.e_shoff = front->ehdr.e_shnum = front->ehdr.e_shstrndx = 0;
}

/* The caller frees it. */
static uint8_t *library_of(const uint8_t *data, size_t size, size_t *ret_size)
{
	uint8_t kind = size ? *data : 0;
	size_t change_nr = kind & KIND_CHANGES, skip = 1 + 3 * change_nr;
	size_t section_size = size > skip ? size - skip : 0;
	uint8_t *image = malloc(sizeof(struct front) + section_size);

	MUST(image);
	set_kind((struct front *)image, kind, section_size);
	for (const uint8_t *at = data + 1; change_nr-- && at + 3 <= data + size; at += 3)
		image[(at[0] | at[1] << 8) % sizeof(struct front)] = at[2];
	if (section_size)
		memcpy(image + sizeof(struct front), data + skip, section_size);
	*ret_size = sizeof(struct front) + section_size;
	return image;
}

/* ---- what must hold ---- */

static void step_from(const struct unwind_table *table, uint64_t vaddr)
{
	struct unwind_memory memory = { .word = vaddr };
	struct unwind_frame frame = { .pc = vaddr, .sp = vaddr * 8, .fp = vaddr * 16 };
	int end = unwind_step(unwind_table__rule(table, vaddr), &frame, &memory);

	MUST(end >= 0 && end < UNWIND_END_NR);
	MUST(end != UNWIND_GOES_ON || frame.is_exact || frame.sp > vaddr * 8);
}

static void check_table(const struct unwind_table *table)
{
	MUST(unwind_table__is_sound(table));
	for (uint32_t page = 0; page <= table->page_nr; page++)
		for (uint64_t low = 0; low < 1 << UNWIND_PAGE_SHIFT; low += 4093)
			step_from(table, (table->first_page + page) << UNWIND_PAGE_SHIFT | low);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int allowed[] = { -ENODATA, -ENOEXEC, -ENOTSUP, -E2BIG, -ENOMEM, 0 };
	struct unwind_table *table = NULL;
	struct reason why = { "" };
	size_t image_size;
	uint8_t *image = library_of(data, size, &image_size);
	int err = unwind_table__from_memory(image, image_size, &table, &why);

	if (err) {
		check_refused(err, &why, allowed);
		check_one_line(&why);
		MUST(!table);
	} else {
		check_table(table);
	}
	unwind_table__free(table);
	free(image);
	return 0;
}
