// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/usdt_places.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/reason.h"
#include "elf/argument_source.h"
#include "elf/elf_object_private.h"
#include "elf/machine.h"

#define NOTE_BYTES_MAX (4u << 20) /* of all sections together */
#define NOTE_TYPE 3

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
	const struct machine *machine = machine_of(elf->header.e_machine);
	uint8_t code[INSN_BYTES_MAX];

	return machine && machine->is_nop(code, elf_object__read_some(elf, offset, code, sizeof(code)));
}

/* The arguments that are taken, in the order in which they are wanted. */
static int take_note_arguments(const struct elf_object *elf, const struct note *note, const struct usdt_wanted *wanted,
			       struct usdt_call *ret, struct reason *why)
{
	struct argument_source argument[USDT_POSITION_MAX];
	size_t nr;
	int err = argument_sources_parse(note->arguments, elf->header.e_machine, argument, USDT_POSITION_MAX, &nr, why);

	if (err)
		return err;
	if (wanted->argument_nr && nr != wanted->argument_nr)
		return reason_set(why, -ENOTSUP, "%s has %zu arguments, not %u", note->name, nr, wanted->argument_nr);
	for (size_t i = 0; i < USDT_ARGUMENTS; i++) {
		if (wanted->position[i] > nr)
			return reason_set(why, -ENOTSUP, "%s has no argument %u", note->name, wanted->position[i]);
		ret->argument[i] = wanted->position[i] ? argument[wanted->position[i] - 1] : argument_constant(wanted->constant[i]);
	}
	return 0;
}

/* moved: how far the program was moved after the note was made (prelink). */
static int take_usdt_place(const struct elf_object *elf, const struct note *note, uint64_t moved,
			   const struct usdt_wanted *wanted, struct usdt_place *ret, struct reason *why)
{
	uint64_t semaphore = note->numbers.semaphore;
	int err = take_note_arguments(elf, note, wanted, &ret->call, why);

	if (err)
		return err;
	ret->address = note->numbers.address + moved;
	if (!offset_in(elf, ret->address, PF_X, 1, &ret->offset) || !is_nop_at(elf, ret->offset))
		return reason_set(why, -ENOTSUP, "%s is not on a nop", note->name);
	if (semaphore && (!offset_in(elf, semaphore + moved, PF_W, sizeof(uint16_t), &ret->semaphore) ||
			  ret->semaphore % sizeof(uint16_t) || !ret->semaphore))
		return reason_set(why, -ENOTSUP, "the semaphore of %s is not in the file", note->name);
	return 0;
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

/* A search for probes, and what it found. */
struct search {
	const struct elf_object *elf;
	const struct usdt_wanted *wanted;
	size_t wanted_nr;
	uint64_t base;
	struct usdt_places *places;
	struct reason why;
};

static bool is_probe_named(const struct note *note, const char *name)
{
	size_t len = strlen(note->provider);

	return !strncmp(name, note->provider, len) && name[len] == ':' && !strcmp(name + len + 1, note->name);
}

/* One probe may be wanted several times, with other arguments. */
static int add_places(struct search *search, const struct note *note)
{
	uint64_t moved = search->base && note->numbers.base ? search->base - note->numbers.base : 0;
	struct usdt_places *places = search->places;
	int err = 0;

	for (size_t i = 0; i < search->wanted_nr && !err; i++) {
		struct usdt_place place = { .wanted = i };

		if (!is_probe_named(note, search->wanted[i].name))
			continue;
		if (places->nr == USDT_PLACES_MAX)
			return reason_set(&search->why, -ENOTSUP, "more than %d places", USDT_PLACES_MAX);
		err = take_usdt_place(search->elf, note, moved, &search->wanted[i], &place, &search->why);
		if (!err)
			places->place[places->nr++] = place;
	}
	return err;
}

static int read_note_section(struct search *search, const GElf_Shdr *section)
{
	Elf_Data *data = elf_object__chunk(search->elf, section->sh_offset, section->sh_size, ELF_T_NHDR);
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
			err = add_places(search, &note);
	}
	return err;
}

static int read_note_sections(struct search *search)
{
	uint64_t left = NOTE_BYTES_MAX;
	Elf_Scn *scn = NULL;
	GElf_Shdr section;
	int err = 0;

	while (!err && (scn = elf_nextscn(search->elf->elf, scn)) && gelf_getshdr(scn, &section)) {
		const char *name = section_name(search->elf, &section);

		if (section.sh_type != SHT_NOTE || !name || strcmp(name, ".note.stapsdt") || section.sh_size > left)
			continue;
		left -= section.sh_size;
		err = read_note_section(search, &section);
	}
	return err;
}

/* ---- the whole ---- */

void usdt_places_read(struct elf_object *elf, const struct usdt_wanted *wanted, size_t wanted_nr,
		      struct usdt_places *ret)
{
	struct search search = {
		.elf = elf, .wanted = wanted, .wanted_nr = wanted_nr, .base = base_address(elf), .places = ret,
	};

	*ret = (struct usdt_places){};
	if (!read_note_sections(&search))
		return;
	ret->nr = 0;
	snprintf(ret->fault, sizeof(ret->fault), "%.*s", (int)sizeof(ret->fault) - 1, search.why.text);
}

bool usdt_places_are_sound(const struct usdt_places *places, size_t wanted_nr, uint64_t file_bytes)
{
	if (places->nr > USDT_PLACES_MAX || !memchr(places->fault, '\0', sizeof(places->fault)))
		return false;
	for (size_t i = 0; i < places->nr; i++) {
		const struct usdt_place *place = &places->place[i];

		if (place->wanted >= wanted_nr || place->offset >= file_bytes || place->semaphore >= file_bytes ||
		    place->semaphore % sizeof(uint16_t))
			return false;
		for (size_t k = 0; k < USDT_ARGUMENTS; k++)
			if (!argument_source_is_sound(&place->call.argument[k]))
				return false;
	}
	return true;
}
