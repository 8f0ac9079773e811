// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/sampler_places.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/argument_source.h"
#include "elf/elf_object_private.h"
#include "elf/placement.h"
#include "sampler/sampler_info.h"

#define NOTE_BYTES_MAX (4u << 20) /* of all sections together */
#define NOTE_TYPE 3
#define NOP 0x90

/* The numbers at the beginning of a note's description; three texts follow. */
struct note_numbers {
	uint64_t address, base, semaphore;
};

struct note {
	struct note_numbers numbers;
	const char *provider, *name, *arguments;
};

/* ---- one note ---- */

/* The next text; NULL: it has no end. */
static const char *next_text(const char **at, const char *end)
{
	const char *text = *at, *stop = memchr(text, '\0', end - text);

	if (!stop)
		return NULL;
	*at = stop + 1;
	return text;
}

static bool read_probe_note(const char *bytes, size_t size, struct note *ret)
{
	const char *at = bytes + sizeof(ret->numbers), *end = bytes + size;

	if (size < sizeof(ret->numbers))
		return false;
	memcpy(&ret->numbers, bytes, sizeof(ret->numbers));
	return (ret->provider = next_text(&at, end)) && (ret->name = next_text(&at, end)) &&
	       (ret->arguments = next_text(&at, end));
}

/* The file offset of an address in a segment with these flags. */
static bool offset_in(const struct elf_object *elf, uint64_t address, uint32_t flags, uint64_t bytes, uint64_t *ret)
{
	uint64_t left;

	return !elf_object__locate(elf, address, flags, ret, &left) && left >= bytes;
}

/* Anything else than a nop there means that the note is not of this code. */
static bool is_nop_at(const struct elf_object *elf, uint64_t offset)
{
	uint8_t code[NOP5_BYTES];
	size_t bytes = elf_object__read_some(elf, offset, code, sizeof(code));

	return bytes && (code[0] == NOP || is_nop5(code, bytes));
}

/* moved: how far the program was moved after the note was made (prelink). */
static int take_sampler_place(const struct elf_object *elf, const struct note *note, uint64_t moved,
		      struct sampler_place *ret, struct reason *why)
{
	size_t wanted = !strcmp(note->name, "free") ? 1 : SAMPLER_ARGUMENTS, nr;
	uint64_t semaphore = note->numbers.semaphore;
	int err;

	*ret = (struct sampler_place){ .is_free = wanted == 1 };
	for (size_t i = 0; i < SAMPLER_ARGUMENTS; i++) /* those that a free has not */
		ret->call.argument[i] = (struct argument_source){ .bytes = 8 };
	err = argument_sources_parse(note->arguments, ret->call.argument, SAMPLER_ARGUMENTS, &nr, why);
	if (err)
		return err;
	if (nr != wanted)
		return reason_set(why, -ENOTSUP, "%s has %zu arguments, not %zu", note->name, nr, wanted);
	if (!offset_in(elf, note->numbers.address + moved, PF_X, 1, &ret->offset) || !is_nop_at(elf, ret->offset))
		return reason_set(why, -ENOTSUP, "%s is not on a nop", note->name);
	if (semaphore && (!offset_in(elf, semaphore + moved, PF_W, sizeof(uint16_t), &ret->semaphore) ||
			  ret->semaphore % sizeof(uint16_t) || !ret->semaphore))
		return reason_set(why, -ENOTSUP, "the semaphore of %s is not in the file", note->name);
	return 0;
}

/* ---- what the sampler says about itself ---- */

/* The address of the variable in which allocsnap's own sampler describes itself; 0: no such variable. */
static uint64_t info_address_in_file(const struct elf_object *elf)
{
	static const char wanted[] = SAMPLER_INFO_SYMBOL;
	struct symbol_table table = {};

	if (elf_object__load_dynamic_symbols(elf, &table))
		return 0;
	for (size_t i = 0; i < table.symbol_nr; i++) {
		const Elf64_Sym *symbol = &table.symbol[i];
		struct name_key name = symbol_table__name(&table, symbol);

		if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_size >= sizeof(struct sampler_info) &&
		    name.len == strlen(wanted) && !memcmp(name.bytes, wanted, name.len))
			return symbol->st_value;
	}
	return 0;
}

static int64_t find_info_distance(const struct elf_object *elf, uint64_t place)
{
	uint64_t address = info_address_in_file(elf);

	return address ? (int64_t)(address - place) : 0;
}

/* ---- all notes ---- */

static const char *section_name(const struct elf_object *elf, const GElf_Shdr *section)
{
	size_t names;

	return elf_getshdrstrndx(elf->elf, &names) ? NULL : elf_strptr(elf->elf, names, section->sh_name);
}

/* The address of the section by which a note shows whether the program was moved; 0: no such section. */
static uint64_t base_address(const struct elf_object *elf)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr section;

	while ((scn = elf_nextscn(elf->elf, scn)) && gelf_getshdr(scn, &section)) {
		const char *name = section_name(elf, &section);

		if (name && !strcmp(name, ".stapsdt.base"))
			return section.sh_addr;
	}
	return 0;
}

/* One contract: the design of OpenTelemetry's profiler has the first name, libdatadog's heap sampler the second one. */
static bool is_known_provider(const char *name)
{
	return !strcmp(name, "otel_memory") || !strcmp(name, "ddheap");
}

static int add_sampler_place(const struct elf_object *elf, const struct note *note, uint64_t base, struct sampler_places *ret,
		     struct reason *why)
{
	uint64_t moved = base && note->numbers.base ? base - note->numbers.base : 0;
	struct sampler_place place;
	int err;

	if (!is_known_provider(note->provider) || (strcmp(note->name, "alloc") && strcmp(note->name, "free")))
		return 0;
	if (ret->nr == SAMPLER_PLACES_MAX)
		return reason_set(why, -ENOTSUP, "more than %d places", SAMPLER_PLACES_MAX);
	err = take_sampler_place(elf, note, moved, &place, why);
	if (err)
		return err;
	if (!ret->nr)
		ret->info_distance = find_info_distance(elf, note->numbers.address + moved);
	ret->place[ret->nr++] = place;
	return 0;
}

static int read_note_section(const struct elf_object *elf, const GElf_Shdr *section, uint64_t base,
			     struct sampler_places *ret, struct reason *why)
{
	Elf_Data *data = elf_object__chunk(elf, section->sh_offset, section->sh_size, ELF_T_NHDR);
	size_t at = 0, name, desc;
	GElf_Nhdr head;
	int err = 0;

	while (data && !err && (at = gelf_getnote(data, at, &head, &name, &desc)) > 0) {
		const char *bytes = data->d_buf;
		struct note note;

		if (head.n_type != NOTE_TYPE || head.n_namesz != sizeof("stapsdt") ||
		    memcmp(bytes + name, "stapsdt", sizeof("stapsdt")))
			continue;
		if (read_probe_note(bytes + desc, head.n_descsz, &note))
			err = add_sampler_place(elf, &note, base, ret, why);
	}
	return err;
}

static int read_places(const struct elf_object *elf, struct sampler_places *ret, struct reason *why)
{
	uint64_t base = base_address(elf), left = NOTE_BYTES_MAX;
	Elf_Scn *scn = NULL;
	GElf_Shdr section;
	int err = 0;

	while (!err && (scn = elf_nextscn(elf->elf, scn)) && gelf_getshdr(scn, &section)) {
		const char *name = section_name(elf, &section);

		if (section.sh_type != SHT_NOTE || !name || strcmp(name, ".note.stapsdt") || section.sh_size > left)
			continue;
		left -= section.sh_size;
		err = read_note_section(elf, &section, base, ret, why);
	}
	return err;
}

/* ---- the whole ---- */

static size_t count_frees(const struct sampler_places *places)
{
	size_t nr = 0;

	for (size_t i = 0; i < places->nr; i++)
		nr += places->place[i].is_free;
	return nr;
}

void sampler_places_read(struct elf_object *elf, struct sampler_places *ret)
{
	struct reason why = {};
	int err;

	*ret = (struct sampler_places){};
	err = read_places(elf, ret, &why);
	if (!err && ret->nr && count_frees(ret) == ret->nr)
		err = reason_set(&why, -ENOTSUP, "it has free, but not alloc");
	if (!err)
		return;
	ret->nr = 0;
	snprintf(ret->fault, sizeof(ret->fault), "%.*s", (int)sizeof(ret->fault) - 1, why.text);
}

bool sampler_places_tell_frees(const struct sampler_places *places)
{
	return count_frees(places);
}

bool sampler_places_are_sound(const struct sampler_places *places, uint64_t file_bytes)
{
	if (places->nr > SAMPLER_PLACES_MAX || !memchr(places->fault, '\0', sizeof(places->fault)) ||
	    (places->nr && count_frees(places) >= places->nr))
		return false;
	for (size_t i = 0; i < places->nr; i++) {
		const struct sampler_place *place = &places->place[i];

		if (place->is_free > 1 || place->offset >= file_bytes || place->semaphore >= file_bytes ||
		    place->semaphore % sizeof(uint16_t))
			return false;
		for (size_t k = 0; k < SAMPLER_ARGUMENTS; k++)
			if (!argument_source_is_sound(&place->call.argument[k]))
				return false;
	}
	return true;
}
