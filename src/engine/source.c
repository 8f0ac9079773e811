// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/wrappers.h"
#include "snapshot.h"

enum wrapper_memo {
	WRAPPER_NOT_ASKED = 0,
	WRAPPER_NO,
	WRAPPER_YES,
};

int source_init(struct source *source, const struct snapshot *snapshot,
		const struct engine_options *options)
{
	*source = (struct source){
		.snapshot = snapshot,
		.tables = snapshot__tables(snapshot),
		.options = options,
	};
	if (source->tables->gap_nr)
		source->gap_ns = source->tables->gap[source->tables->gap_nr - 1].start_ns;
	source->wrapper = calloc(source->tables->string_nr ?: 1, sizeof(*source->wrapper));
	return source->wrapper ? 0 : -ENOMEM;
}

void source_release(struct source *source)
{
	free(source->wrapper);
	memset(source, 0, sizeof(*source));
}

static bool is_wrapper(struct source *source, uint32_t frame)
{
	uint32_t function = source->tables->frame[frame].function;
	uint8_t *memo = &source->wrapper[function];

	if (*memo == WRAPPER_NOT_ASKED) {
		const char *name = snapshot__string(source->snapshot, function);
		bool is = *name && function_is_wrapper(name, source->options);

		*memo = is ? WRAPPER_YES : WRAPPER_NO;
	}
	return *memo == WRAPPER_YES;
}

struct frame_span source_frames(struct source *source, uint32_t traceback)
{
	static const uint32_t none;
	const struct snapshot_tables *tables = source->tables;
	const struct snap_traceback *row = &tables->traceback[traceback];
	const uint32_t *frame;
	uint32_t skip = 0;

	if (!row->nframe)
		return (struct frame_span){ .frame = &none, .nframe = 1 };
	frame = &tables->traceback_frame[row->first];
	while (skip < row->nframe && is_wrapper(source, frame[skip]))
		skip++;
	if (skip == row->nframe)
		skip = 0;
	else if (skip && tables->frame[frame[skip]].flags & SNAP_FRAME_SKIPPED)
		skip--; /* the wrapper is the only known frame of the caller */
	return (struct frame_span){ .frame = frame + skip, .nframe = row->nframe - skip };
}
