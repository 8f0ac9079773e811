// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/sampler_places.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "elf/elf_object_private.h"
#include "sampler/sampler_info.h"

/* One contract: the design of OpenTelemetry's profiler has the first name, libdatadog's heap sampler the second one. */
static const struct usdt_wanted sampler_wanted[] = {
	{ "otel_memory:alloc", 3, { 1, 2, 3 } },
	{ "otel_memory:free", 1, { 1 } },
	{ "ddheap:alloc", 3, { 1, 2, 3 } },
	{ "ddheap:free", 1, { 1 } },
};

bool sampler_place_is_free(const struct usdt_place *place)
{
	return sampler_wanted[place->wanted].argument_nr == 1;
}

static size_t count_frees(const struct usdt_places *places)
{
	return array_count(places->nr, i, sampler_place_is_free(&places->place[i]));
}

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

void sampler_places_read(struct elf_object *elf, struct usdt_places *ret)
{
	uint64_t info;

	usdt_places_read(elf, sampler_wanted, ARRAY_SIZE(sampler_wanted), ret);
	info = ret->nr ? info_address_in_file(elf) : 0;
	ret->info_distance = info ? (int64_t)(info - ret->place[0].address) : 0;
	if (!ret->nr || count_frees(ret) < ret->nr)
		return;
	ret->nr = 0;
	snprintf(ret->fault, sizeof(ret->fault), "it has free, but not alloc");
}

bool sampler_places_tell_frees(const struct usdt_places *places)
{
	return count_frees(places);
}

bool sampler_places_are_sound(const struct usdt_places *places, uint64_t file_bytes)
{
	return usdt_places_are_sound(places, ARRAY_SIZE(sampler_wanted), file_bytes) &&
	       (!places->nr || count_frees(places) < places->nr);
}
