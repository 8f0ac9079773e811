// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/cfi_entries.h"

#include <dwarf.h>
#include <errno.h>
#include <gelf.h>
#include <stdlib.h>

#include "base/array.h"
#include "unwind/cfi_machine.h"
#include "unwind/unwind_table.h"

static inline int64_t cursor_int(struct cursor *cursor, size_t size)
{
	unsigned int unused = 64 - 8 * size;

	return (int64_t)(cursor_uint(cursor, size) << unused) >> unused;
}

#define LENGTH_IS_64 0xffffffffu

/* ---- encoded pointers ---- */

static bool encoded_number(struct cursor *cursor, uint8_t format, uint64_t *ret)
{
	switch (format & 0xf) {
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		*ret = cursor_uint(cursor, 8);
		return true;
	case DW_EH_PE_uleb128:
		*ret = cursor_uleb(cursor);
		return true;
	case DW_EH_PE_sleb128:
		*ret = cursor_sleb(cursor);
		return true;
	case DW_EH_PE_udata2:
	case DW_EH_PE_udata4:
		*ret = cursor_uint(cursor, (format & 0xf) == DW_EH_PE_udata2 ? 2 : 4);
		return true;
	case DW_EH_PE_sdata2:
	case DW_EH_PE_sdata4:
		*ret = cursor_int(cursor, (format & 0xf) == DW_EH_PE_sdata2 ? 2 : 4);
		return true;
	}
	return false;
}

bool encoded_pointer(const struct cfi_section *section, struct cursor *cursor, uint8_t encoding,
		     uint64_t *ret)
{
	uint64_t here = section->vaddr + (cursor->at - section->bytes);

	if (!encoded_number(cursor, encoding, ret))
		return false;
	switch (encoding & 0xf0) {
	case DW_EH_PE_absptr:
		return true;
	case DW_EH_PE_pcrel:
		*ret += here;
		return true;
	}
	return false;
}

/* ---- entries ---- */

struct entry {
	const uint8_t *begin;
	struct cursor body;	/* the bytes after the id */
	const uint8_t *cie;	/* for an FDE: where its CIE begins */
	bool is_cie, is_zero;
};

/*
 * Reads the id, which locates an FDE's CIE: by the distance back from the id in .eh_frame, by the
 * offset in the section in .debug_frame.
 */
static void read_id(const struct cfi_section *section, struct entry *entry, size_t id_size)
{
	size_t here = entry->body.at - section->bytes;
	uint64_t id = cursor_uint(&entry->body, id_size), at;

	if (section->is_debug_frame) {
		entry->is_cie = id == (id_size == 8 ? UINT64_MAX : UINT32_MAX);
		at = id;
	} else {
		entry->is_cie = !id;
		at = here - id;
	}
	entry->cie = at < section->size ? section->bytes + at : NULL;
}

/* Returns false at the end. An entry longer than the section's rest is the last one, and is cut off. */
static bool next_entry(const struct cfi_section *section, struct cursor *rest, struct entry *entry)
{
	size_t id_size = 4;
	uint64_t length;

	if (cursor_left(rest) < 4)
		return false;
	*entry = (struct entry){ .begin = rest->at };
	length = cursor_uint(rest, 4);
	if (length == LENGTH_IS_64) {
		length = cursor_uint(rest, 8);
		id_size = 8;
	}
	entry->is_zero = !length;
	entry->body = cursor_take(rest, length);
	if (!entry->is_zero)
		read_id(section, entry, id_size);
	return true;
}

/* ---- CIEs ---- */

static void read_augmentation(const struct cfi_section *section, struct cie *cie,
			      struct cursor *body, const char *letters)
{
	struct cursor data = cursor_take(body, cursor_uleb(body));
	uint64_t ignored;

	cie->has_augmentation = true;
	for (; *letters; letters++) {
		switch (*letters) {
		case 'R':
			cie->pointer_encoding = cursor_u8(&data);
			break;
		case 'P':
			if (!encoded_pointer(section, &data, cursor_u8(&data) & 0xf, &ignored))
				data.is_cut = true;
			break;
		case 'L':
			cursor_u8(&data);
			break;
		case 'S':
			cie->is_signal = true;
			break;
		default:
			data.is_cut = true;
		}
	}
	body->is_cut |= data.is_cut;
}

static bool read_cie(const struct cfi_section *section, struct entry *entry, struct cie *cie)
{
	struct cursor *body = &entry->body;
	uint8_t version = cursor_u8(body);
	const char *letters = (const char *)body->at;
	const uint8_t *end = memchr(body->at, 0, cursor_left(body));

	if (!end || (version != 1 && version != 3 && version != 4))
		return false;
	body->at = end + 1;
	if (version == 4 && (cursor_u8(body) != 8 || cursor_u8(body) != 0))
		return false; /* the sizes of an address and of a segment selector */
	cie->code_align = cursor_uleb(body);
	cie->data_align = cursor_sleb(body);
	cie->return_register = version == 1 ? cursor_u8(body) : cursor_uleb(body);
	cie->pointer_encoding = DW_EH_PE_absptr;
	if (*letters == 'z')
		read_augmentation(section, cie, body, letters + 1);
	else if (*letters)
		return false;
	cie->program = *body;
	return !body->is_cut;
}

static int add_cie(struct entries *entries, const struct cfi_section *section, struct entry *entry)
{
	struct cie cie = { .section = section, .entry = entry->begin };

	if (entries->cie_nr >= FDES_MAX)
		return -E2BIG;
	cie.is_understood = read_cie(section, entry, &cie);
	entries->not_understood += !cie.is_understood;
	return array_push(entries, cie, cie);
}

/* ---- FDEs ---- */

static int compare_entry(const void *key, const void *item)
{
	const uint8_t *want = key, *have = ((const struct cie *)item)->entry;

	return (want > have) - (want < have);
}

/* Usually the CIE that was read last. first: index of this section's first CIE. */
static const struct cie *find_cie(const struct entries *entries, size_t first, const uint8_t *entry)
{
	size_t nr = entries->cie_nr - first;

	if (!nr || !entry)
		return NULL;
	if (entries->cie[entries->cie_nr - 1].entry == entry)
		return &entries->cie[entries->cie_nr - 1];
	return bsearch(entry, entries->cie + first, nr, sizeof(*entries->cie), compare_entry);
}

static bool read_fde(const struct cfi_section *section, struct entry *entry, const struct cie *cie,
		     struct fde *fde)
{
	struct cursor *body = &entry->body;
	uint64_t size;

	if (!encoded_pointer(section, body, cie->pointer_encoding, &fde->start) ||
	    !encoded_number(body, cie->pointer_encoding, &size))
		return false;
	if (cie->has_augmentation)
		cursor_take(body, cursor_uleb(body));
	fde->program = body->at;
	fde->program_nr = cursor_left(body);
	return !body->is_cut && !__builtin_add_overflow(fde->start, size, &fde->end);
}

static int add_fde(struct entries *entries, const struct cfi_section *section, size_t first_cie,
		   struct entry *entry)
{
	const struct cie *cie = find_cie(entries, first_cie, entry->cie);
	struct fde fde;

	if (entries->fde_nr >= FDES_MAX)
		return -E2BIG;
	if (!cie || !cie->is_understood || !read_fde(section, entry, cie, &fde)) {
		entries->not_understood++;
		return 0;
	}
	if (fde.start < entries->text_start || fde.start >= fde.end ||
	    fde.end > entries->text_end) {
		entries->outside++;
		return 0;
	}
	fde.cie = cie - entries->cie;
	return array_push(entries, fde, fde);
}

int entries_add(struct entries *entries, const struct cfi_section *section)
{
	struct cursor rest = { .at = section->bytes, .end = section->bytes + section->size };
	size_t first_cie = entries->cie_nr;
	struct entry entry;
	int err = 0;

	while (!err && next_entry(section, &rest, &entry)) {
		if (entry.is_zero && section->ends_at_zero)
			break;
		if (entry.is_zero)
			continue;
		err = entry.is_cie ? add_cie(entries, section, &entry) :
				     add_fde(entries, section, first_cie, &entry);
	}
	return err;
}

/* ---- order ---- */

/* Among FDEs at one address the one that was read first comes first: each section has its own CIEs. */
static int compare_fdes(const void *left, const void *right)
{
	const struct fde *a = left, *b = right;

	if (a->start != b->start)
		return a->start > b->start ? 1 : -1;
	if (a->cie != b->cie)
		return a->cie > b->cie ? 1 : -1;
	return (a->program > b->program) - (a->program < b->program);
}

static bool is_sorted(const struct entries *entries)
{
	for (size_t i = 1; i < entries->fde_nr; i++)
		if (entries->fde[i - 1].start >= entries->fde[i].start)
			return false;
	return true;
}

void entries_sort(struct entries *entries)
{
	size_t kept = 0;

	if (is_sorted(entries))
		return;
	qsort(entries->fde, entries->fde_nr, sizeof(*entries->fde), compare_fdes);
	for (size_t i = 0; i < entries->fde_nr; i++)
		if (!kept || entries->fde[kept - 1].start != entries->fde[i].start)
			entries->fde[kept++] = entries->fde[i];
	entries->fde_nr = kept;
}

bool entries_are_sure(const struct entries *entries, uint64_t vaddr)
{
	size_t begun = array_first(entries->fde_nr, i, entries->fde[i].start > vaddr);
	const struct fde *fde = begun ? &entries->fde[begun - 1] : NULL;

	return fde && vaddr < fde->end && !entries->cie[fde->cie].section->is_debug_frame;
}

void entries_release(struct entries *entries)
{
	free(entries->cie);
	free(entries->fde);
	memset(entries, 0, sizeof(*entries));
}

static int check_cfi_kind(Elf *elf, const struct cfi_machine **ret, struct reason *why)
{
	GElf_Ehdr header;

	if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &header))
		return reason_set(why, -ENOEXEC, "not an ELF file");
	if (gelf_getclass(elf) != ELFCLASS64)
		return reason_set(why, -ENOTSUP, "a 32-bit ELF file");
	*ret = cfi_machine_of(header.e_machine);
	if (!*ret || header.e_ident[EI_DATA] != ELFDATA2LSB)
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
	int err = check_cfi_kind(elf, &cfi.machine, why);

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
