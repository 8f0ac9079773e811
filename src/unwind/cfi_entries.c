// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/cfi_entries.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

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
	size_t low = 0, high = entries->fde_nr;
	const struct fde *fde;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (entries->fde[middle].start <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	fde = low ? &entries->fde[low - 1] : NULL;
	return fde && vaddr < fde->end && !entries->cie[fde->cie].section->is_debug_frame;
}

void entries_release(struct entries *entries)
{
	free(entries->cie);
	free(entries->fde);
	memset(entries, 0, sizeof(*entries));
}
