// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/object_cfi.h"

#include <dwarf.h>
#include <errno.h>
#include <gelf.h>
#include <string.h>

#include "unwind/unwind_table.h"

static int check_cfi_kind(Elf *elf, struct reason *why)
{
	GElf_Ehdr header;

	if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header))
		return reason_set(why, -ENOEXEC, "not an ELF file");
	if (gelf_getclass(elf) != ELFCLASS64)
		return reason_set(why, -ENOTSUP, "a 32-bit ELF file");
	if (header.e_machine != EM_X86_64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return reason_set(why, -ENOTSUP, "an ELF file for another machine (%u)",
				  header.e_machine);
	if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
		return reason_set(why, -ENOEXEC, "neither a program nor a library");
	return 0;
}

/* ---- segments ---- */

/*
 * Finds the next segment, from number *at on, that is of a type and has all flags. *at is then the
 * number after it.
 */
static bool next_segment(Elf *elf, size_t *at, uint32_t type, uint32_t flags, GElf_Phdr *ret)
{
	size_t nr;

	if (elf_getphdrnum(elf, &nr))
		return false;
	while (*at < nr && gelf_getphdr(elf, (*at)++, ret))
		if (ret->p_type == type && (ret->p_flags & flags) == flags)
			return true;
	return false;
}

static void add_segment(struct object_cfi *cfi, const GElf_Phdr *segment)
{
	if (cfi->segment_nr == UNWIND_SEGMENTS_MAX)
		return;
	cfi->segment[cfi->segment_nr++] = (struct unwind_segment){
		.offset = segment->p_offset, .end = segment->p_offset + segment->p_filesz,
		.delta = segment->p_vaddr - segment->p_offset,
	};
}

static int find_text(Elf *elf, struct object_cfi *cfi, struct reason *why)
{
	GElf_Phdr segment;
	uint64_t end;
	size_t at = 0;

	cfi->text_start = UINT64_MAX;
	while (next_segment(elf, &at, PT_LOAD, PF_X, &segment)) {
		if (__builtin_add_overflow(segment.p_vaddr, segment.p_memsz, &end))
			return reason_set(why, -ENOEXEC, "a segment beyond all addresses");
		if (segment.p_vaddr < cfi->text_start)
			cfi->text_start = segment.p_vaddr;
		if (end > cfi->text_end)
			cfi->text_end = end;
		add_segment(cfi, &segment);
	}
	if (cfi->text_start >= cfi->text_end)
		return reason_set(why, -ENODATA, "no code");
	if ((cfi->text_end - cfi->text_start) >> UNWIND_PAGE_SHIFT >= UNWIND_PAGES_MAX - 1)
		return reason_set(why, -E2BIG, "too many addresses");
	return 0;
}

/* The file's bytes from an address to the end of its segment, at most max. */
static bool bytes_at(Elf *elf, uint64_t vaddr, uint64_t max, struct cfi_section *ret)
{
	GElf_Phdr segment;
	Elf_Data *data;
	size_t at = 0;

	while (next_segment(elf, &at, PT_LOAD, 0, &segment)) {
		uint64_t into = vaddr - segment.p_vaddr, left;

		if (vaddr < segment.p_vaddr || into >= segment.p_filesz)
			continue;
		left = segment.p_filesz - into;
		data = elf_getdata_rawchunk(elf, segment.p_offset + into,
					    left < max ? left : max, ELF_T_BYTE);
		if (!data || !data->d_buf)
			return false;
		*ret = (struct cfi_section){ .bytes = data->d_buf, .size = data->d_size,
					     .vaddr = vaddr };
		return true;
	}
	return false;
}

/* ---- PT_GNU_EH_FRAME: a version, three encodings, and the address of .eh_frame ---- */

#define HEADER_MAX 16

static bool find_by_header(Elf *elf, struct cfi_section *ret)
{
	struct cfi_section header;
	struct cursor cursor;
	GElf_Phdr segment;
	uint64_t vaddr;
	uint8_t encoding;
	size_t at = 0;

	if (!next_segment(elf, &at, PT_GNU_EH_FRAME, 0, &segment) ||
	    !bytes_at(elf, segment.p_vaddr, HEADER_MAX, &header))
		return false;
	cursor = (struct cursor){ header.bytes, header.bytes + header.size };
	if (cursor_u8(&cursor) != 1)
		return false;
	encoding = cursor_u8(&cursor);
	cursor_uint(&cursor, 2);
	if (!encoded_pointer(&header, &cursor, encoding, &vaddr) || cursor.is_cut ||
	    !bytes_at(elf, vaddr, UNWIND_SECTION_MAX, ret))
		return false;
	ret->ends_at_zero = true;
	return true;
}

/* ---- sections ---- */

static bool find_section(Elf *elf, const char *name, Elf_Scn **ret, GElf_Shdr *ret_header)
{
	size_t names;

	*ret = NULL;
	if (elf_getshdrstrndx(elf, &names))
		return false;
	while ((*ret = elf_nextscn(elf, *ret)) && gelf_getshdr(*ret, ret_header)) {
		const char *its = elf_strptr(elf, names, ret_header->sh_name);

		if (its && !strcmp(its, name))
			return true;
	}
	return false;
}

/* Checks the decompressed size first: a few bytes may expand to very many. */
static bool decompress_section_data(Elf_Scn *scn, const GElf_Shdr *header)
{
	GElf_Chdr packed;

	if (!(header->sh_flags & SHF_COMPRESSED))
		return true;
	return gelf_getchdr(scn, &packed) && packed.ch_size <= UNWIND_SECTION_MAX &&
	       elf_compress(scn, 0, 0) >= 0;
}

/* A separate debug file has an .eh_frame section without bytes. */
static bool read_cfi_section(Elf_Scn *scn, const GElf_Shdr *header, struct cfi_section *ret)
{
	Elf_Data *data;

	if (header->sh_type == SHT_NOBITS || header->sh_size > UNWIND_SECTION_MAX ||
	    !decompress_section_data(scn, header))
		return false;
	data = elf_rawdata(scn, NULL);
	if (!data || !data->d_buf || !data->d_size)
		return false;
	*ret = (struct cfi_section){ .bytes = data->d_buf, .size = data->d_size,
				     .vaddr = header->sh_addr };
	return true;
}

static bool find_eh_frame(Elf *elf, struct cfi_section *ret)
{
	GElf_Shdr header;
	Elf_Scn *scn;

	if (find_section(elf, ".eh_frame", &scn, &header))
		return read_cfi_section(scn, &header, ret);
	return find_by_header(elf, ret);
}

static bool find_debug_frame(Elf *elf, struct cfi_section *ret)
{
	GElf_Shdr header;
	Elf_Scn *scn;

	if (!find_section(elf, ".debug_frame", &scn, &header) || !read_cfi_section(scn, &header, ret))
		return false;
	ret->is_debug_frame = true;
	return true;
}

/* Stripped files have these sections, too; in a PIE that gcc has linked, the first is a part of another one. */
static bool has_go_sections(Elf *elf)
{
	GElf_Shdr header;
	Elf_Scn *scn;

	return find_section(elf, ".gopclntab", &scn, &header) || find_section(elf, ".go.buildinfo", &scn, &header);
}

int object_cfi_find(Elf *elf, struct object_cfi *ret, struct reason *why)
{
	struct object_cfi cfi = { 0 };
	int err = check_cfi_kind(elf, why);

	if (!err)
		err = find_text(elf, &cfi, why);
	if (err)
		return err;
	cfi.section_nr += find_eh_frame(elf, &cfi.section[0]);
	cfi.section_nr += find_debug_frame(elf, &cfi.section[cfi.section_nr]);
	cfi.has_go = has_go_sections(elf);
	*ret = cfi;
	return 0;
}
