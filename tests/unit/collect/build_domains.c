// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which heaps of its files a snapshot names that no probe sees. */
#include "collect/build/build_metadata.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "collect/sources/block_sources.h"
#include "collect/target/target.h"
#include "elf/allocators.h"
#include "elf/probe_info.h"
#include "elf/runtime_detect.h"
#include "snapshot.h"

enum { NODE, SERVER, PLUGIN, FILES };

static const struct probe_info probe_info[FILES] = {
	[NODE] = { .heaps = TRAIT_BIT(V8) },
	[PLUGIN] = { .nameless_heap = DOMAIN_JEMALLOC },
};
static struct object file[FILES] = {
	[NODE] = { .path = (char *)"/bin/node", .probe_info = &probe_info[NODE] },
	[SERVER] = { .path = (char *)"/bin/server", .probe_info = &probe_info[SERVER] },
	[PLUGIN] = { .path = (char *)"/lib/plugin.so", .probe_info = &probe_info[PLUGIN] },
};

/* A process that has used all of the files, and maps those from first on. */
static void expect_unrecorded(uint32_t first, const char *expected)
{
	struct object *object[FILES] = { &file[0], &file[1], &file[2] };
	struct mapping mapping[FILES] = {};
	uint32_t used[FILES] = { NODE, SERVER, PLUGIN };
	struct objects objects = { .object = object, .object_nr = FILES };
	struct target *target = calloc(1, sizeof(*target));
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct snapshot *snapshot;

	cr_assert(target && builder);
	target->mappings = (struct mappings){ .objects = &objects, .used = used, .used_nr = FILES, .mapping = mapping };
	for (uint32_t i = first; i < FILES; i++)
		mapping[target->mappings.mapping_nr++] = (struct mapping){ .start = 0x1000 * i, .end = 0x1000 * (i + 1), .object = i };
	cr_assert_eq(describe_domains(builder, target, block_sources), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	cr_expect_str_eq(snapshot__metadata(snapshot, "unrecorded") ?: "none", expected);
	snapshot__close(snapshot);
	free(target);
}

#define NAMELESS "jemalloc without function names (allocsnap doctor)"

Test(build_domains, name_heaps_of_files_that_are_mapped)
{
	expect_unrecorded(NODE, "JavaScript's heap (start it with node --heap-prof, or --heapsnapshot-signal=SIGUSR2, which stops it for seconds); " NAMELESS);
	expect_unrecorded(SERVER, NAMELESS);
	expect_unrecorded(PLUGIN, NAMELESS);
	expect_unrecorded(FILES, "none");
}
