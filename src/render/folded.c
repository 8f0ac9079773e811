// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "render/clean.h"
#include "render/formats.h"
#include "render/readable_name.h"
#include "render/statistic_text.h"

/* Names a single frame that is its group's key, not a function: "FILE", "FILE:LINE". */
static char *key_name(const struct readable_names *names, const struct frame_view *frame, enum key_type key_type)
{
	char *text;

	if (key_type == KEY_FILENAME)
		return strdup(frame->filename);
	if (key_type == KEY_TRACEBACK || !frame->lineno)
		return frame_name(names, frame);
	if (asprintf(&text, "%s:%" PRIu32, frame->filename, frame->lineno) < 0)
		return NULL;
	return text;
}

/* Writes a name with ';' replaced, because ';' separates frames. Frees the name. */
static int put_name(FILE *out, char *name)
{
	char *clean = name ? clean_copy(name) : NULL;
	int err = 0;

	free(name);
	if (!clean)
		return -ENOMEM;
	for (char *at = clean; (at = strchr(at, ';'));)
		*at = ':';
	if (fputs(clean, out) < 0)
		err = -errno ?: -EIO;
	free(clean);
	return err;
}

static int put_stack(FILE *out, const struct readable_names *names, const struct statistic *statistic,
		     enum key_type key_type)
{
	int err = 0;

	if (statistic->key)
		return put_name(out, statistic_name(names, statistic, key_type));
	for (uint32_t i = 0; i < statistic->nframe && !err; i++) {
		if (i)
			putc(';', out);
		err = put_name(out, key_name(names, &statistic->frame[i], key_type));
	}
	return err;
}

static int put_stacks(FILE *out, const struct report *report, const struct readable_names *names)
{
	const struct statistics *statistics = report->statistics;
	size_t shown = report_rows(report);
	int err = 0;

	for (size_t i = 0; i < shown && !err; i++) {
		const struct statistic *statistic = &statistics->statistic[i];

		err = put_stack(out, names, statistic, statistics->key_type);
		if (err)
			break;
		if (statistics->is_diff)
			fprintf(out, " %" PRId64, statistic->cost.size - statistic->diff.size);
		if (fprintf(out, " %" PRId64 "\n", statistic->cost.size) < 0)
			err = -errno ?: -EIO;
	}
	return err;
}

/* People read these names in flame graphs. Different functions keep different names (readable_name.h). */
int folded_put_report(FILE *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	struct readable_names names = {};
	int err = 0;

	if (!report->full_names)
		err = readable_names_add(&names, statistics->statistic, report_rows(report), statistics->key_type);
	err = err ?: put_stacks(out, report, report->full_names ? NULL : &names);
	readable_names_release(&names);
	return err;
}
