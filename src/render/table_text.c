// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine.h"
#include "render/formats.h"

static const struct renderer renderers[] = {
	{ "text", "for people; a statistic reads as in Python's tracemalloc", 10,
	  KEY_LINENO, text_put_report, text_put_snapshot, text_put_block },
	{ "json", "one object, exact integers", 10, KEY_LINENO, json_put_report, json_put_snapshot,
	  json_put_block },
	{ "folded", "for flame graphs, 'oldest;...;most recent SIZE'; of a diff what grew", 0,
	  KEY_TRACEBACK, folded_put_report, .suffix = ".folded" },
	{ "pprof", "for go tool pprof, speedscope, Perfetto and others", 0,
	  KEY_TRACEBACK, pprof_put_report, .suffix = ".pb.gz", .is_binary = true, .has_no_diff = true },
	{ "otlp", "OpenTelemetry's profiles signal, a request in protobuf (alpha: opentelemetry-proto v1.11)", 0,
	  KEY_TRACEBACK, otlp_put_report, .suffix = ".otlp", .is_binary = true, .has_no_diff = true },
};

const struct renderer *renderer_table(size_t *ret_nr)
{
	*ret_nr = ARRAY_SIZE(renderers);
	return renderers;
}

static void list_renderer_names(char *names, size_t room)
{
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(renderers) && len < room; i++)
		len += snprintf(names + len, room - len, "%s%s", i ? ", " : "", renderers[i].name);
}

const struct renderer *renderer_find(const char *name, struct reason *why)
{
	char names[256];

	for (size_t i = 0; i < ARRAY_SIZE(renderers); i++)
		if (!strcmp(renderers[i].name, name))
			return &renderers[i];
	list_renderer_names(names, sizeof(names));
	reason_set(why, -EINVAL, "'%.100s' is none of %s", name, names);
	return NULL;
}

size_t report_rows(const struct report *report)
{
	size_t nr = report->statistics->statistic_nr;

	return report->top && report->top < nr ? report->top : nr;
}
