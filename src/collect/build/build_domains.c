// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/build/build_domains.h"

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

/* Writes the heaps in the process that no probe sees, and what shows them. */
static int describe_unrecorded(struct snapshot_builder *builder, const struct target *target)
{
	static const struct {
		uint64_t bit;
		const char *text;
	} rows[] = {
#define X(NAME, word, what, tool) { TRAIT_BIT(NAME), what " (" tool ")" },
		RUNTIME_HEAPS(X)
#undef X
		{ TRAIT_BIT(PYTHON), "Python's objects ('--domain python')" },
	};
	uint64_t heaps = 0;
	uint32_t nameless = 0; /* domains */
	char text[1024];
	size_t len = 0;

	find_heaps(&target->mappings, &heaps, &nameless);
	if (target->python.is_used)
		heaps &= ~TRAIT_BIT(PYTHON);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (heaps & rows[i].bit)
			len += snprintf(text + len, sizeof(text) - len, "%s%s", len ? "; " : "", rows[i].text);
	for (uint32_t domain = 0; nameless >> domain; domain++)
		if (nameless >> domain & 1)
			len += snprintf(text + len, sizeof(text) - len, "%s%s without function names (allocsnap doctor)",
					len ? "; " : "", domain_name(domain));
	return len ? snapshot_builder__metadata(builder, "unrecorded", text) : 0;
}

int describe_domains(struct snapshot_builder *builder, const struct target *target)
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
	const struct target_python *python = &target->python;
	char text[96];
	int len = snprintf(text, sizeof(text), "%s", python->is_used ? "python" : ""), err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (target->mappings.objects->domains & rows[i].domain && !(rows[i].is_heap && python->is_used && !python->has_heap))
			len += snprintf(text + len, sizeof(text) - len, "%s%s", len ? "," : "", rows[i].name);
	if (len)
		err = snapshot_builder__metadata(builder, "domains", text);
	if (!err && *python->why_not.text)
		err = snapshot_builder__metadata(builder, "python_not_recorded", python->why_not.text);
	return err ?: describe_unrecorded(builder, target);
}
