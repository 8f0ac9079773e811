// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <inttypes.h>
#include <stdlib.h>

#include "engine.h"
#include "render.h"
#include "render/source_tree.h"

/* The frames that a limit leaves: Python's frames[-limit:] and frames[:limit]. */
struct slice {
	uint32_t first, nr;
};

static struct slice slice_of(uint32_t nframe, const struct traceback_format_options *options)
{
	uint64_t nr = options->limit < 0 ? -(uint64_t)options->limit : (uint64_t)options->limit;

	if (!options->has_limit || (options->limit > 0 && nr >= nframe))
		return (struct slice){ 0, nframe };
	if (options->limit > 0)
		return (struct slice){ nframe - nr, nr };
	if (!nr || nr >= nframe)
		return (struct slice){};
	return (struct slice){ 0, nframe - nr };
}

static void put_python_frame(FILE *out, const struct frame_view *frame, struct source_tree *tree)
{
	char *line = source_tree__line(tree, frame->filename, frame->lineno);

	fprintf(out, "  File \"%s\", line %" PRIu32 "\n", frame->filename, frame->lineno);
	if (line)
		fprintf(out, "    %s\n", line);
	free(line);
}

char *traceback_format(const struct frame_view *frame, uint32_t nframe,
		       const struct traceback_format_options *options)
{
	static const struct traceback_format_options defaults;
	struct slice slice = slice_of(nframe, options ?: &defaults);
	bool most_recent_first = options && options->most_recent_first;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	struct source_tree *tree;

	if (!out)
		return NULL;
	tree = source_tree__open(options ? options->source_dir : NULL);
	for (uint32_t i = 0; i < slice.nr; i++) {
		uint32_t at = most_recent_first ? slice.nr - 1 - i : i;

		put_python_frame(out, &frame[slice.first + at], tree);
	}
	source_tree__close(tree);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}
