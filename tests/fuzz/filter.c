// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A filter and the names it is matched with: SPEC NUL FILENAME NUL FUNCTION NUL OBJECT. What an
 * inclusive filter keeps and what the same one excludes is everything, each trace once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "reason.h"

#define TRACE_NR 3

struct names {
	const char *spec, *filename, *function, *object;
};

static uint32_t string(struct snapshot_builder *builder, const char *text)
{
	uint32_t id;

	MUST(!snapshot_builder__string(builder, text, &id));
	return id;
}

static uint32_t frame(struct snapshot_builder *builder, const struct names *names, uint32_t lineno)
{
	struct snap_object object = { .path = string(builder, names->object) };
	struct snap_frame row = {
		.filename = string(builder, names->filename), .lineno = lineno,
		.function = string(builder, names->function), .offset = 16,
	};
	uint32_t id;

	MUST(!snapshot_builder__object(builder, &object, &row.object));
	MUST(!snapshot_builder__frame(builder, &row, &id));
	return id;
}

/* One block with both frames, one with another one, one without a traceback. */
static struct snapshot *snapshot_of(const struct names *names)
{
	static const struct names other = { NULL, "other.c", "other", "/bin/other" };
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_DOMAIN);
	uint32_t frames[] = { frame(builder, &other, 3), frame(builder, names, 7) };
	struct snap_trace trace = { .size = 1 };
	struct snapshot *snapshot;

	for (uint32_t nframe = 0; nframe < TRACE_NR; nframe++) {
		MUST(!snapshot_builder__traceback(builder, frames, nframe, nframe, 0,
						  &trace.traceback));
		trace.domain = nframe;
		MUST(!snapshot_builder__trace(builder, &trace));
	}
	MUST(!snapshot_builder__finish(builder, &snapshot));
	return snapshot;
}

static bool kept(const struct snapshot *snapshot, const char *spec, bool inclusive,
		 uint64_t *ret_nr)
{
	static const int allowed[] = { -EINVAL, -ENOMEM, 0 };
	struct engine_options options = { .select.filter_nr = 1 };
	struct snapshot *filtered;
	struct reason why = { "" };
	struct filter filter;
	int err = filter_parse(spec, inclusive, &filter, &why);

	if (err) {
		check_refused(err, &why, allowed);
		return false;
	}
	options.select.filter = &filter;
	MUST(filter.inclusive == inclusive);
	err = snapshot_filter_traces(snapshot, &options, &filtered, &why);
	if (err) { /* it knows no names of domains */
		MUST(err == -ENODATA && filter.domain_name);
		filter_release(&filter);
		return false;
	}
	*ret_nr = snapshot__tables(filtered)->trace_nr;
	snapshot__close(filtered);
	filter_release(&filter);
	return true;
}

static const char *next(char **rest, const char *end)
{
	char *text = *rest;

	*rest = text < end ? text + strlen(text) + 1 : text;
	return text < end ? text : "";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *rest = text;
	uint64_t included = 0, excluded = 0;
	struct snapshot *snapshot;
	struct names names;
	bool is_filter;

	memcpy(text, data, size);
	text[size] = '\0';
	names.spec = next(&rest, text + size);
	names.filename = next(&rest, text + size);
	names.function = next(&rest, text + size);
	names.object = next(&rest, text + size);
	snapshot = snapshot_of(&names);
	is_filter = kept(snapshot, names.spec, true, &included);
	MUST(kept(snapshot, names.spec, false, &excluded) == is_filter);
	MUST(!is_filter || included + excluded == TRACE_NR);
	snapshot__close(snapshot);
	free(text);
	return 0;
}
