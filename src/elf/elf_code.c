// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/elf_object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/allocators.h"
#include "elf/elf_object_private.h"
#include "elf/returns.h"

/* Code by its virtual address: its bytes, and the bounds of functions. */

size_t elf_object__read_at(const struct elf_object *obj, uint64_t vaddr, void *buf, size_t len)
{
	uint64_t offset, left;

	if (elf_object__locate(obj, vaddr, 0, &offset, &left))
		return 0;
	if (offset + left > obj->file_size)
		left = obj->file_size - offset;
	len = len < left ? len : left;
	return elf_object__read(obj, offset, buf, len) ? 0 : len;
}

#define WORDS_AT_ONCE (1u << 13)

/* The lowest address at or above vaddr that the file has, a multiple of 8; its offset and the bytes from there on. */
static bool next_in_file(const struct elf_object *obj, uint64_t *vaddr, uint64_t *ret_offset, uint64_t *ret_left)
{
	uint64_t lowest = UINT64_MAX;
	GElf_Phdr segment;

	if (*vaddr > UINT64_MAX - 7)
		return false;
	*vaddr = (*vaddr + 7) & ~7ull;
	if (!elf_object__locate(obj, *vaddr, 0, ret_offset, ret_left))
		return true;
	for (size_t i = 0; i < obj->segment_nr && gelf_getphdr(obj->elf, i, &segment); i++)
		if (segment.p_type == PT_LOAD && segment.p_filesz && segment.p_vaddr > *vaddr && segment.p_vaddr < lowest)
			lowest = segment.p_vaddr;
	if (lowest > UINT64_MAX - 7)
		return false;
	*vaddr = (lowest + 7) & ~7ull;
	return !elf_object__locate(obj, *vaddr, 0, ret_offset, ret_left);
}

int elf_object__find_word(const struct elf_object *obj, uint64_t from, uint64_t mask, uint64_t want, uint64_t *ret_vaddr)
{
	uint64_t *word = malloc(WORDS_AT_ONCE * sizeof(*word)), offset, left;
	int err = word ? -ENOENT : -ENOMEM;

	while (err == -ENOENT && next_in_file(obj, &from, &offset, &left)) {
		size_t bytes = left < WORDS_AT_ONCE * sizeof(*word) ? left : WORDS_AT_ONCE * sizeof(*word);
		size_t nr = elf_object__read_some(obj, offset, word, bytes) / sizeof(*word), i = 0;

		while (i < nr && (word[i] & mask) != want)
			i++;
		*ret_vaddr = from + i * sizeof(*word);
		if (i < nr)
			err = 0;
		/* without a word it is the end of the file, which may have been cut short */
		if (__builtin_add_overflow(from, nr ? nr * sizeof(*word) : left, &from))
			break;
	}
	free(word);
	return err;
}

/* ---- .eh_frame_hdr: functions sorted by address, in the only encoding that linkers write ---- */

/* DW_EH_PE_pcrel | sdata4, udata4, datarel | sdata4 */
static const uint8_t known_header[4] = { 1, 0x1b, 0x03, 0x3b };

struct frame_header {
	uint8_t encoding[4];
	int32_t eh_frame;
	uint32_t row_nr;
};

struct frame_row {
	int32_t start, description; /* relative to the header's address */
};

/* The first fields of a description whose addresses are pcrel | sdata4. */
struct frame_description {
	uint32_t bytes, cie;
	int32_t start; /* relative to this field */
	uint32_t size;
};

static bool frame_row_at(const struct elf_object *obj, uint64_t header, uint32_t i, struct frame_row *ret)
{
	uint64_t at = header + sizeof(struct frame_header) + (uint64_t)i * sizeof(*ret);

	return elf_object__read_at(obj, at, ret, sizeof(*ret)) == sizeof(*ret);
}

/* The last row that begins at or before vaddr. */
static bool find_frame_row(const struct elf_object *obj, uint64_t header, uint32_t row_nr, uint64_t vaddr,
			   struct frame_row *ret)
{
	uint32_t low = 0, high = row_nr;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (!frame_row_at(obj, header, middle, ret))
			return false;
		if (header + ret->start <= vaddr)
			low = middle + 1;
		else
			high = middle;
	}
	return low && frame_row_at(obj, header, low - 1, ret);
}

int elf_object__extent(const struct elf_object *obj, uint64_t vaddr, uint64_t *ret_start,
		       uint64_t *ret_end)
{
	struct frame_description description;
	struct frame_header header;
	struct frame_row row;
	GElf_Phdr segment;
	uint64_t start, at;

	if (!elf_object__segment(obj, PT_GNU_EH_FRAME, &segment) ||
	    elf_object__read_at(obj, segment.p_vaddr, &header, sizeof(header)) != sizeof(header) ||
	    memcmp(header.encoding, known_header, sizeof(known_header)) ||
	    !find_frame_row(obj, segment.p_vaddr, header.row_nr, vaddr, &row))
		return -ENOENT;
	start = segment.p_vaddr + row.start;
	at = segment.p_vaddr + row.description;
	if (elf_object__read_at(obj, at, &description, sizeof(description)) != sizeof(description) ||
	    at + offsetof(struct frame_description, start) + description.start != start ||
	    vaddr - start >= description.size)
		return -ENOENT;
	*ret_start = start;
	*ret_end = start + description.size;
	return 0;
}

/* ---- for returns.h ---- */

static size_t source_read(void *object, uint64_t vaddr, void *buf, size_t len)
{
	return elf_object__read_at(((struct elf_code *)object)->elf, vaddr, buf, len);
}

static bool source_extent(void *object, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_end)
{
	return !elf_object__extent(((struct elf_code *)object)->elf, vaddr, ret_start, ret_end);
}

/* Functions that return their first argument. */
static const char *const returning[] = { "memset", "memcpy", "memmove" };

static bool source_returns_argument(void *object, uint64_t vaddr)
{
	const struct elf_code *code = object;

	for (size_t i = 0; i < code->returning_nr; i++)
		if (code->returning[i] == vaddr)
			return true;
	return false;
}

/*
 * Whether the function of this name is probed, in whichever file it is. A function with an
 * allocator's own name may have no probe, so a jump to it is followed.
 */
static bool is_probed_allocation(const char *name)
{
	for (size_t i = 0; i < allocator_function_nr; i++) {
		const struct allocator_function *row = &allocator_functions[i];

		if (!strcmp(row->name, name))
			return !shape_is_free(row->shape) && !row->own && !row->prefix;
	}
	return false;
}

/*
 * The object's own function of that name. Other objects do not interpose an allocator's internal
 * functions.
 */
static enum exit_kind own_function(struct elf_object *elf, const char *name, uint64_t *ret_vaddr)
{
	struct elf_function *function;
	enum exit_kind kind = EXIT_UNKNOWN;
	size_t nr;

	if (elf_object__find_functions(elf, &name, 1, &function, &nr))
		return kind;
	if (nr == 1 && !function->is_ifunc && !function->is_local) {
		*ret_vaddr = function->vaddr;
		kind = EXIT_FOLLOW;
	}
	free(function);
	return kind;
}

static enum exit_kind exit_by_name(struct elf_object *elf, const char *name, uint64_t *ret_vaddr)
{
	for (size_t i = 0; i < ARRAY_SIZE(returning); i++)
		if (!strcmp(name, returning[i]))
			return EXIT_RETURNS_ARGUMENT;
	return is_probed_allocation(name) ? EXIT_PROBED : own_function(elf, name, ret_vaddr);
}

static enum exit_kind source_slot(void *object, uint64_t slot, uint64_t *ret_vaddr)
{
	struct elf_code *code = object;
	enum exit_kind kind;
	uint64_t resolver;
	char *name;

	if (elf_object__slot_function(code->elf, slot, &name, &resolver))
		return EXIT_UNKNOWN;
	if (!name)
		return source_returns_argument(code, resolver) ? EXIT_RETURNS_ARGUMENT : EXIT_UNKNOWN;
	kind = exit_by_name(code->elf, name, ret_vaddr);
	free(name);
	return kind;
}

int elf_code_open(struct elf_code *code, struct elf_object *elf, struct code_source *ret)
{
	struct elf_function *function;
	size_t nr;
	int err;

	*code = (struct elf_code){ .elf = elf };
	err = elf_object__find_functions(elf, returning, ARRAY_SIZE(returning), &function, &nr);
	if (err)
		return err;
	for (size_t i = 0; i < nr && code->returning_nr < RETURNING_MAX; i++)
		if (!function[i].is_local || function[i].is_ifunc) /* a static PIE's memset is local */
			code->returning[code->returning_nr++] = function[i].vaddr;
	free(function);
	*ret = (struct code_source){
		.object = code,
		.elf_machine = elf_object__machine(elf),
		.read = source_read,
		.extent = source_extent,
		.slot = source_slot,
		.returns_argument = source_returns_argument,
	};
	return 0;
}
