// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* One sentence about the blocks that had no room in the recording's block map. */
#include <inttypes.h>
#include <stdbool.h>

#include "base/units.h"
#include "render/clean.h"
#include "render/facts.h"
#include "render/formats.h"
#include "snapshot.h"

/* "4000 blocks not recorded: the block map was full (--max-blocks 1000) …; 1500 of them freed since" */
int text_dropped(FILE *out, const struct snapshot *snapshot)
{
	uint64_t dropped = snapshot__counter(snapshot, "blocks_dropped");
	const char *most = snapshot__metadata(snapshot, "max_blocks");
	char text[UNIT_TEXT_MAX];

	if (!dropped)
		return 0;
	fprintf(out, "  %" PRIu64 " block%s not recorded: the block map was full%s%s%s, or the kernel out of memory",
		dropped, dropped == 1 ? "" : "s", most ? " (--max-blocks " : "", most ?: "",
		most ? ")" : "");
	if (has_counter(snapshot, "dropped_frees"))
		fprintf(out, "; %" PRIu64 " of them freed since, %" PRIu64 " live (%s)",
			snapshot__counter(snapshot, "dropped_frees"),
			snapshot__counter(snapshot, "dropped_blocks"),
			format_size(text, snapshot__counter(snapshot, "dropped_bytes"), false));
	return put_line(out, "%s", "");
}
