/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_CFI_ENTRIES_H
#define ALLOCSNAP_UNWIND_CFI_ENTRIES_H

/*
 * .eh_frame and .debug_frame are lists of CIEs (properties that many functions share) and FDEs (one
 * function, or part of one, each). This lists the FDEs of an object by address.
 */

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/reason.h"
#include "shared/unwind_types.h"

/*
 * Reads bytes from `at` to `end`, little endian. A read beyond the end gives 0 and sets is_cut for
 * good, so a caller may read a whole record first and check is_cut afterwards.
 */

struct cursor {
	const uint8_t *at, *end;
	bool is_cut;
};

static inline size_t cursor_left(const struct cursor *cursor)
{
	return cursor->end - cursor->at;
}

static inline void cursor_cut(struct cursor *cursor)
{
	cursor->at = cursor->end;
	cursor->is_cut = true;
}

/* size is at most 8 */
static inline uint64_t cursor_uint(struct cursor *cursor, size_t size)
{
	uint64_t value = 0;

	if (cursor_left(cursor) < size) {
		cursor_cut(cursor);
		return 0;
	}
	memcpy(&value, cursor->at, size);
	cursor->at += size;
	return value;
}

static inline uint8_t cursor_u8(struct cursor *cursor)
{
	if (cursor->at == cursor->end) {
		cursor_cut(cursor);
		return 0;
	}
	return *cursor->at++;
}

/* Drops bits beyond the 64th; an unterminated number consumes the rest. */
static inline uint64_t cursor_leb(struct cursor *cursor, unsigned int *ret_bits, uint8_t *ret_last)
{
	uint64_t value = 0;
	uint8_t byte;

	*ret_bits = 0;
	do {
		byte = cursor_u8(cursor);
		if (*ret_bits < 64) {
			value |= (uint64_t)(byte & 0x7f) << *ret_bits;
			*ret_bits += 7;
		}
	} while (byte & 0x80);
	*ret_last = byte;
	return value;
}

static inline uint64_t cursor_uleb(struct cursor *cursor)
{
	unsigned int bits;
	uint8_t last;

	return cursor_leb(cursor, &bits, &last);
}

static inline int64_t cursor_sleb(struct cursor *cursor)
{
	unsigned int bits;
	uint8_t last;
	uint64_t value = cursor_leb(cursor, &bits, &last);

	if (bits < 64 && (last & 0x40))
		value |= ~0ULL << bits;
	return (int64_t)value;
}

/* The next size bytes, as a separate cursor. */
static inline struct cursor cursor_take(struct cursor *cursor, uint64_t size)
{
	struct cursor taken = { .at = cursor->at, .end = cursor->at };

	if (size > cursor_left(cursor)) {
		cursor_cut(cursor);
		taken.is_cut = true;
		return taken;
	}
	cursor->at += size;
	taken.end = cursor->at;
	return taken;
}

/* Bytes of call frame information, and their address in the object. */
struct cfi_section {
	const uint8_t *bytes;
	size_t size;
	uint64_t vaddr;
	bool is_debug_frame;
	bool ends_at_zero; /* size is only an upper bound */
};

struct cie {
	const struct cfi_section *section;
	const uint8_t *entry; /* where the entry begins */
	struct cursor program;
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_register;
	uint8_t pointer_encoding;
	bool has_augmentation; /* FDEs contain the length of their augmentation */
	bool is_signal;	       /* the caller was interrupted instead of calling */
	bool is_understood;
};

struct fde {
	uint64_t start, end; /* vaddr */
	uint32_t cie;
	uint32_t program_nr; /* bytes */
	const uint8_t *program;
};

struct entries {
	uint64_t text_start, text_end; /* set by the caller: FDEs outside are left out */
	struct cie *cie;
	size_t cie_nr, cie_alloc;
	struct fde *fde; /* sorted by start; at one address, FDEs of an earlier section come first */
	size_t fde_nr, fde_alloc;
	uint64_t outside;	 /* FDEs outside of the text: the linker dropped their code */
	uint64_t not_understood; /* CIEs, and FDEs in the text, in an unsupported form */
};

#define FDES_MAX (1u << 21) /* 18 times as many as libLLVM has */

/*
 * Adds the FDEs of a section, which must stay in memory. Malformed entries are counted and left
 * out. 0, -ENOMEM, or -E2BIG if there are more than FDES_MAX of either kind.
 */
int entries_add(struct entries *entries, const struct cfi_section *section);

/* Sorts the FDEs; called once, at the end. If several begin at one address, only the first is kept. */
void entries_sort(struct entries *entries);

/* Whether .eh_frame describes the code there. Of sorted entries. */
bool entries_are_sure(const struct entries *entries, uint64_t vaddr);

void entries_release(struct entries *entries);

/*
 * Reads an address in a section's own encoding (DW_EH_PE_…). False: an encoding that files do not
 * use.
 */
bool encoded_pointer(const struct cfi_section *section, struct cursor *cursor, uint8_t encoding,
		     uint64_t *ret);

/* Finds an ELF object's code and its call frame information. */

#define CFI_SECTIONS_MAX 2

struct cfi_machine;

struct object_cfi {
	const struct cfi_machine *machine;
	uint64_t text_start, text_end; /* from the first executable segment to the end of the last one */
	uint32_t segment_nr;
	struct unwind_segment segment[UNWIND_SEGMENTS_MAX];
	uint32_t section_nr;
	struct cfi_section section[CFI_SECTIONS_MAX]; /* an earlier section has priority */
	bool has_go; /* code of Go, which changes stacks (stack_rules.h) */
};

/*
 * The sections point into elf. A file without call frame information has none and returns 0. Otherwise a negative
 * errno as from unwind_table__from_file().
 */
int object_cfi_find(Elf *elf, struct object_cfi *ret, struct reason *why);

#endif
