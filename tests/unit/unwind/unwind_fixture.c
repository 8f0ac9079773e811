// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind_fixture.h"

#include <elf.h>
#include <string.h>

struct front {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr[2];
	uint8_t header[8]; /* of PT_GNU_EH_FRAME: version, three encodings, where .eh_frame is */
};

#define RELATIVE (DW_EH_PE_pcrel | DW_EH_PE_sdata4)

static bool image_is_arm64(const struct image *image)
{
	return ((const struct front *)image->bytes)->ehdr.e_machine == EM_AARCH64;
}

void image_begin(struct image *image)
{
	const struct front front = {
		.ehdr = {
			.e_ident = ELFMAG "\2\1\1", .e_type = ET_DYN, .e_machine = EM_X86_64,
			.e_version = EV_CURRENT, .e_phoff = offsetof(struct front, phdr),
			.e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 2,
		},
		.phdr = {
			{ PT_LOAD, PF_R | PF_X, 0, 0, 0, IMAGE_MAX, TEXT_SIZE, 4096 },
			{ PT_GNU_EH_FRAME, PF_R, offsetof(struct front, header),
			  offsetof(struct front, header), 0, 8, 8, 4 },
		},
		/* .eh_frame begins 4 bytes behind this number */
		.header = { 1, RELATIVE, DW_EH_PE_omit, DW_EH_PE_omit, 4, 0, 0, 0 },
	};

	memset(image->bytes, 0, sizeof(image->bytes));
	memcpy(image->bytes, &front, sizeof(front));
	image->size = sizeof(front);
}

void image_begin_arm64(struct image *image)
{
	image_begin(image);
	((struct front *)image->bytes)->ehdr.e_machine = EM_AARCH64;
	CIE(image, "zR", DW_CFA_def_cfa, 31, 0);
}

void image_raw(struct image *image, const void *bytes, size_t nr)
{
	cr_assert_lt(image->size + nr, IMAGE_MAX);
	memcpy(image->bytes + image->size, bytes, nr);
	image->size += nr;
}

static void add_u32(struct image *image, uint32_t value)
{
	image_raw(image, &value, sizeof(value));
}

static void set_length(struct image *image, size_t begin)
{
	uint32_t length = image->size - begin - 4;

	memcpy(image->bytes + begin, &length, sizeof(length));
}

void image_cie(struct image *image, const char *letters, const uint8_t *program, size_t nr)
{
	image->cie = image->size;
	add_u32(image, 0);
	add_u32(image, 0);
	image_raw(image, BYTES(1));
	image_raw(image, letters, strlen(letters) + 1);
	image_raw(image, BYTES(1, 0x78, image_is_arm64(image) ? 30 : 16));
	if (*letters == 'z')
		image_raw(image, BYTES(1, RELATIVE));
	image_raw(image, program, nr);
	set_length(image, image->cie);
}

void image_usual_cie(struct image *image)
{
	CIE(image, "zR", DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1);
}

void image_fde(struct image *image, uint32_t start, uint32_t size, const uint8_t *program, size_t nr)
{
	size_t begin = image->size;

	add_u32(image, 0);
	add_u32(image, image->size - image->cie);
	add_u32(image, start - image->size);
	add_u32(image, size);
	image_raw(image, BYTES(0));
	image_raw(image, program, nr);
	set_length(image, begin);
}

struct sections {
	Elf64_Shdr header[4];
	char names[64];
	struct {
		uint32_t cie_bytes, cie_id;
		uint8_t cie[16];
		uint32_t fde_bytes, fde_cie;
		uint64_t start, size;
	} frames;
};

#define SECTIONS_AT (IMAGE_MAX - 4096u)

void image_add_sections(struct image *image, const char *name, uint64_t start, uint64_t size)
{
	static const char frame_name[] = ".debug_frame";
	Elf64_Ehdr *header = (void *)image->bytes;
	struct sections sections = {
		.header = {
			{ .sh_type = SHT_NULL },
			{ .sh_name = 1 + sizeof(frame_name), .sh_type = SHT_PROGBITS },
			{ .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_size = sizeof(sections.frames),
			  .sh_offset = SECTIONS_AT + offsetof(struct sections, frames) },
			{ .sh_type = SHT_STRTAB, .sh_size = sizeof(sections.names),
			  .sh_offset = SECTIONS_AT + offsetof(struct sections, names) },
		},
		.frames = { 20, UINT32_MAX, { 3, 0, 1, 0x78, 16, DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1 },
			    20, 0, start, size },
	};

	memcpy(sections.names + 1, frame_name, sizeof(frame_name));
	strcpy(sections.names + 1 + sizeof(frame_name), name);
	header->e_shoff = SECTIONS_AT;
	header->e_shentsize = sizeof(*sections.header);
	header->e_shnum = 4;
	header->e_shstrndx = 3;
	memcpy(image->bytes + SECTIONS_AT, &sections, sizeof(sections));
}

struct unwind_table *image_table(const struct image *image)
{
	struct unwind_table *table = NULL;
	struct reason why = { "" };
	int err = unwind_table__from_memory(image->bytes, sizeof(image->bytes), &table, &why);

	cr_assert_eq(err, 0, "%s", why.text);
	cr_assert(unwind_table__is_sound(table));
	return table;
}

void image_refused(const struct image *image, int err)
{
	struct unwind_table *table = NULL;
	struct reason why = { "" };

	cr_expect_eq(unwind_table__from_memory(image->bytes, sizeof(image->bytes), &table, &why), err,
		     "%s", why.text);
	cr_expect_neq(*why.text, 0);
	cr_expect_null(table);
}

void expect_rule(const struct unwind_table *table, uint64_t vaddr, struct unwind_rule want)
{
	struct unwind_rule is = unwind_table__rule(table, vaddr);

	cr_expect(!memcmp(&is, &want, sizeof(is)),
		  "at %#lx: cfa %u%+d fp %u%+d addend %u, expected cfa %u%+d fp %u%+d addend %u",
		  vaddr, is.cfa_kind, is.cfa_off, is.fp_kind, is.fp_off, is.addend, want.cfa_kind,
		  want.cfa_off, want.fp_kind, want.fp_off, want.addend);
}
