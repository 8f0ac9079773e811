// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/build_metadata.h"

#include <stdio.h>

#include "base/array.h"
#include "collect.h"
#include "collect/target/target.h"
#include "elf/allocators.h"
#include "elf/probe_info.h"
#include "elf/runtime_detect.h"
#include "snapshot.h"

static void find_heaps(const struct mappings *mappings, uint64_t *ret_heaps, uint32_t *ret_nameless)
{
	for (size_t i = 0; i < mappings->used_nr; i++) {
		const struct probe_info *facts = mappings_used(mappings, i)->facts;

		if (!facts || !mappings_have(mappings, mappings->used[i]))
			continue;
		*ret_heaps |= facts->heaps;
		*ret_nameless |= facts->nameless_heap ? 1u << facts->nameless_heap : 0;
	}
}

struct heap_row {
	uint64_t bit;
	const char *text;
};

static size_t add_heap_row(char text[1024], size_t len, const char *what, const char *more)
{
	return len + snprintf(text + len, 1024 - len, "%s%s%s", len ? "; " : "", what, more);
}

/* Writes the heaps in the process that no probe sees, and what shows them. */
static int describe_unrecorded(struct snapshot_builder *builder, const struct target *target,
			       const struct block_source *const *source)
{
	static const struct heap_row rows[] = {
#define X(NAME, word, what, tool) { TRAIT_BIT(NAME), what " (" tool ")" },
		RUNTIME_HEAPS(X)
#undef X
	};
	uint64_t heaps = 0;
	uint32_t nameless = 0; /* domains */
	char text[1024];
	size_t len = 0;

	find_heaps(&target->mappings, &heaps, &nameless);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (heaps & rows[i].bit)
			len = add_heap_row(text, len, rows[i].text, "");
	for (; *source; source++)
		if (heaps & (*source)->trait && !(*source)->is_used(target))
			len = add_heap_row(text, len, (*source)->unrecorded, "");
	for (uint32_t domain = 0; nameless >> domain; domain++)
		if (nameless >> domain & 1)
			len = add_heap_row(text, len, domain_name(domain), " without function names (allocsnap doctor)");
	return len ? snapshot_builder__metadata(builder, "unrecorded", text) : 0;
}

bool domain_besides_heap(const struct target *target, const struct block_source *const *source)
{
	for (; *source; source++)
		if ((*source)->domain && (*source)->is_used(target))
			return true;
	return false;
}

int describe_domains(struct snapshot_builder *builder, const struct target *target,
		     const struct block_source *const *sources)
{
	static const struct {
		uint32_t domain;
		const char *name;
		bool is_heap;
	} rows[] = {
		{ COLLECTOR_MALLOC, "malloc", true },	  { COLLECTOR_GLIBC, "glibc", true },
		{ COLLECTOR_MUSL, "musl", true },	  { COLLECTOR_JEMALLOC, "jemalloc", true },
		{ COLLECTOR_TCMALLOC, "tcmalloc", true }, { COLLECTOR_MIMALLOC, "mimalloc", true },
		{ COLLECTOR_MMAP, "mmap" },
	};
	char text[96];
	size_t len = 0;
	bool is_instead = false; /* of the heap */
	int err = 0;

	for (const struct block_source *const *at = sources; *at; at++) {
		if (!(*at)->domain || !(*at)->is_used(target))
			continue;
		len += snprintf(text + len, sizeof(text) - len, "%s%s", len ? "," : "", (*at)->domain);
		is_instead |= (*at)->hides_heap(target);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (target->mappings.objects->domains & rows[i].domain && !(rows[i].is_heap && is_instead))
			len += snprintf(text + len, sizeof(text) - len, "%s%s", len ? "," : "", rows[i].name);
	if (len)
		err = snapshot_builder__metadata(builder, "domains", text);
	return err ?: describe_unrecorded(builder, target, sources);
}
