// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * heapdiff OLD NEW SPEC OUT: what changed between two snapshots where SPEC matches, by line, with
 * the traceback that changed most; saves the matching part of NEW as OUT. It uses nothing but the
 * installed library:
 *
 *	cc heapdiff.c $(pkg-config --cflags --libs allocsnap) -o heapdiff
 */
#include <allocsnap/allocsnap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(int err, const struct reason *why)
{
	fprintf(stderr, "heapdiff: %s\n", why->text[0] ? why->text : strerror(-err));
	return err;
}

/* One line for each group. */
static int print_lines(const struct snapshot *old_snapshot, const struct snapshot *new_snapshot,
		       const struct engine_options *options)
{
	struct statistics *diff = NULL;
	struct reason why = { "" };
	size_t i;
	int err = snapshot_compare(old_snapshot, new_snapshot, options, &diff, &why);

	if (err)
		return failed(err, &why);
	for (i = 0; i < diff->statistic_nr; i++) {
		char *text = statistic_text(&diff->statistic[i], diff->is_diff);

		printf("%s\n", text ? text : "out of memory");
		free(text);
	}
	statistics_free(diff);
	return 0;
}

/* The stack of the first group, the most recent call last. */
static int print_most_changed(const struct snapshot *old_snapshot,
			      const struct snapshot *new_snapshot, struct engine_options options)
{
	struct traceback_format_options format = { 0 };
	struct statistics *diff = NULL;
	struct reason why = { "" };
	int err;

	options.key_type = KEY_TRACEBACK;
	err = snapshot_compare(old_snapshot, new_snapshot, &options, &diff, &why);
	if (err)
		return failed(err, &why);
	if (diff->statistic_nr) {
		const struct statistic *most = &diff->statistic[0];
		char *text = traceback_format(most->frame, most->nframe, &format);

		printf("Most changed (%+lld B):\n%s", (long long)most->diff.size, text ? text : "");
		free(text);
	}
	statistics_free(diff);
	return 0;
}

static int save_part(const struct snapshot *snapshot, const struct engine_options *options,
		     const char *path)
{
	struct snapshot *part = NULL;
	struct reason why = { "" };
	int err = snapshot_filter_traces(snapshot, options, &part, &why);

	if (!err)
		err = snapshot__save(part, path, NULL, &why);
	snapshot__close(part);
	return err ? failed(err, &why) : 0;
}

int main(int argc, char **argv)
{
	struct snapshot *old_snapshot = NULL, *new_snapshot = NULL;
	struct engine_options options = { 0 };
	struct filter filter = { 0 };
	struct reason why = { "heapdiff OLD NEW SPEC OUT" };
	int err = argc == 5 ? filter_parse(argv[3], true, &filter, &why) : -1;

	if (!err && (!(old_snapshot = snapshot__open(argv[1], &why)) ||
		     !(new_snapshot = snapshot__open(argv[2], &why))))
		err = -1;
	if (err)
		failed(err, &why);
	options.select.filter = &filter;
	options.select.filter_nr = 1;
	err = err ? err : print_lines(old_snapshot, new_snapshot, &options);
	err = err ? err : print_most_changed(old_snapshot, new_snapshot, options);
	err = err ? err : save_part(new_snapshot, &options, argv[4]);
	snapshot__close(old_snapshot);
	snapshot__close(new_snapshot);
	filter_release(&filter);
	return err ? 1 : 0;
}
