// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/cmd_select.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "base/reason.h"

/* ---- suppressions --------------------------------------------------------------------------- */

#define SUPPRESSIONS_MOST 10000

static char *trim(char *line)
{
	size_t len = strcspn(line, "#");

	line[len] = '\0';
	while (len && isspace((unsigned char)line[len - 1]))
		line[--len] = '\0';
	return line + strspn(line, " \t\r\n\v\f");
}

static int add_suppression(struct chosen *chosen, const char *pattern)
{
	struct filter *grown = reallocarray(chosen->filter, chosen->filter_nr + 1, sizeof(*grown));
	char *owned = strdup(pattern);

	if (grown)
		chosen->filter = grown;
	if (!grown || !owned) {
		free(owned);
		return log_failure("out of memory");
	}
	chosen->filter[chosen->filter_nr++] =
		(struct filter){ .all_frames = true, .any_pattern = owned, .owned = owned };
	return EXIT_DONE;
}

static int read_suppression_lines(FILE *file, const char *path, struct chosen *chosen)
{
	int status = EXIT_DONE;
	char *line = NULL;
	size_t room = 0, nr = 0;
	ssize_t len;

	while (!status && (len = getline(&line, &room, file)) >= 0) {
		if (strlen(line) != (size_t)len)
			status = log_failure("%s: a NUL byte in it: not a file of patterns", path);
		else if (*trim(line) && ++nr > SUPPRESSIONS_MOST)
			status = log_failure("%s: more than %d suppressions", path, SUPPRESSIONS_MOST);
		else if (*trim(line))
			status = add_suppression(chosen, trim(line));
	}
	if (!status && ferror(file))
		status = log_failure("%s: %s", path, strerror(errno));
	free(line);
	return status;
}

/*
 * Adds an exclusive filter for each pattern of a file of suppressions: one a line; # begins a comment. Returns an exit
 * status; logs failures.
 */
static int suppressions_read(const char *path, struct chosen *chosen)
{
	FILE *file = fopen(path, "re");
	int status;

	if (!file)
		return log_failure("%s: %s", path, strerror(errno));
	status = read_suppression_lines(file, path, chosen);
	fclose(file);
	return status;
}

/* ---- options ------------------------------------------------------------------------------ */

static int parse_select_size(const char *text, void *field, struct reason *why)
{
	struct said *said = field;
	int err = parse_size(text, &said->value);

	if (err)
		return reason_set(why, err, "'%.100s' is not a size such as 4096, 64K, 10MiB or 1G",
				  text);
	said->text = text;
	return 0;
}

static int parse_age(const char *text, void *field, struct reason *why)
{
	struct said *said = field;
	int err = parse_duration(text, &said->value);

	if (err)
		return reason_set(why, err, "'%.100s' is not a duration such as 250ms, 10s, 5m, "
					    "2h or 1d", text);
	said->text = text;
	return 0;
}

static int parse_thread(const char *text, void *field, struct reason *why)
{
	struct said *said = field;
	int err = parse_count(text, 1, UINT32_MAX, &said->value);

	if (err)
		return reason_set(why, err,
				  "'%.100s' is not a thread id (a TID, as ps -L shows it)", text);
	said->text = text;
	return 0;
}

#define FIELD(name) offsetof(struct select_options, name)

const struct option_row filter_rows[] = {
	{ "include", 0, OPTION_LIST, FIELD(include),
	  .arg = "SPEC",
	  .help = "keep only blocks that match SPEC (see below); repeatable: any of them must match" },
	{ "exclude", 0, OPTION_LIST, FIELD(exclude),
	  .arg = "SPEC", .help = "drop blocks that match SPEC; repeatable" },
	{},
};

const struct option_row block_rows[] = {
	{ "min-size", 0, OPTION_CUSTOM, FIELD(min_size), .parse = parse_select_size,
	  .arg = "SIZE", .help = "keep only blocks of at least SIZE bytes: 4096, 64K, 10MiB, 1G" },
	{ "max-size", 0, OPTION_CUSTOM, FIELD(max_size), .parse = parse_select_size,
	  .arg = "SIZE", .help = "keep only blocks of at most SIZE bytes" },
	{ "min-age", 0, OPTION_CUSTOM, FIELD(min_age), .parse = parse_age,
	  .arg = "TIME", .help = "keep only blocks at least TIME old: 250ms, 10s, 5m, 2h" },
	{ "max-age", 0, OPTION_CUSTOM, FIELD(max_age), .parse = parse_age,
	  .arg = "TIME", .help = "keep only blocks at most TIME old" },
	{ "thread", 0, OPTION_CUSTOM, FIELD(thread), .parse = parse_thread,
	  .arg = "TID", .help = "keep only blocks that thread TID allocated" },
	{ "no-gap-blocks", 0, OPTION_FLAG, FIELD(no_gap_blocks),
	  .help = "drop blocks that may have been freed in a gap of the recording" },
	{},
};

const struct option_row wrapper_rows[] = {
	{ "skip", 0, OPTION_LIST, FIELD(skip),
	  .arg = "GLOB", .help = "pass over functions such as my_alloc or pool::* at the start of tracebacks; with / or . "
				 "also files and objects: */vendor/*, arena.h, libfoo.so*; repeatable" },
	{ "project", 0, OPTION_LIST, FIELD(project),
	  .arg = "GLOB", .help = "start at the first frame whose source file or object is GLOB or lies in such a folder; "
				 "repeatable" },
	{ "keep-wrappers", 0, OPTION_FLAG, FIELD(keep_wrappers),
	  .help = "start tracebacks at the allocator, not at the first own frame" },
	{ "tracemalloc", 0, OPTION_FLAG, FIELD(tracemalloc),
	  .help = "answer as Python's tracemalloc: keep wrappers, name tracebacks by their oldest frame" },
	{},
};

const struct option_row suppression_rows[] = {
	{ "suppressions", 0, OPTION_STRING, FIELD(suppressions),
	  .arg = "FILE", .help = "drop what is known: blocks with a frame that matches a pattern in FILE" },
	{},
};

/* ---- from options to filters -------------------------------------------------------------- */

static int check_limits(const struct command *command, const char *what, const struct said *min,
			const struct said *max)
{
	if (!min->text || !max->text || min->value <= max->value)
		return EXIT_DONE;
	return log_refusal(command, "--min-%s %s is more than --max-%s %s", what, min->text, what,
			   max->text);
}

/* An option that chooses where tracebacks start goes with none that keeps all frames. */
static int check_own_frames(const struct command *command, const struct select_options *options)
{
	const char *chooses = options->skip.item_nr ? "skip" : options->project.item_nr ? "project" : NULL;
	const char *keeps = options->keep_wrappers ? "keep-wrappers" : options->tracemalloc ? "tracemalloc" : NULL;

	if (!chooses || !keeps)
		return EXIT_DONE;
	return log_refusal(command, "--%s and --%s exclude each other", chooses, keeps);
}

static int check_selection(const struct command *command, const struct select_options *options)
{
	int status = check_limits(command, "size", &options->min_size, &options->max_size);

	status = status ?: check_limits(command, "age", &options->min_age, &options->max_age);
	return status ?: check_own_frames(command, options);
}

static int add_filters(const struct command *command, struct chosen *chosen,
		       const struct string_list *list, bool inclusive)
{
	struct reason why = { "out of memory" };

	for (size_t i = 0; i < list->item_nr; i++) {
		struct filter *filter = &chosen->filter[chosen->filter_nr];
		int err = filter_parse(list->item[i], inclusive, filter, &why);

		if (err == -ENOMEM)
			return log_failure("%s", strerror(ENOMEM));
		if (err)
			return log_refusal(command, "--%s: %s", inclusive ? "include" : "exclude",
					   why.text);
		chosen->filter_nr++;
	}
	return EXIT_DONE;
}

static int parse_filters(const struct command *command, const struct select_options *options,
			 struct chosen *chosen)
{
	size_t nr = options->include.item_nr + options->exclude.item_nr;
	int status;

	chosen->filter = calloc(nr ?: 1, sizeof(*chosen->filter));
	if (!chosen->filter)
		return log_failure("%s", strerror(ENOMEM));
	status = add_filters(command, chosen, &options->include, true);
	status = status ?: add_filters(command, chosen, &options->exclude, false);
	if (!status && options->suppressions)
		status = suppressions_read(options->suppressions, chosen);
	return status;
}

int select_options_resolve(const struct command *command, const struct select_options *options, struct chosen *ret)
{
	int status;

	*ret = (struct chosen){
		.engine = {
			.keep_wrappers = options->keep_wrappers,
			.tracemalloc = options->tracemalloc,
			.skip = options->skip.item,
			.skip_nr = options->skip.item_nr,
			.project = options->project.item,
			.project_nr = options->project.item_nr,
			.select = {
				.min_size = options->min_size.value,
				.max_size = options->max_size.value,
				.has_max_size = options->max_size.text,
				.min_age_ns = options->min_age.value,
				.max_age_ns = options->max_age.value,
				.thread = options->thread.value,
				.no_gap_blocks = options->no_gap_blocks,
			},
		},
	};
	status = check_selection(command, options) ?: parse_filters(command, options, ret);
	ret->engine.select.filter = ret->filter;
	ret->engine.select.filter_nr = ret->filter_nr;
	return status;
}

void chosen_release(struct chosen *chosen)
{
	for (size_t i = 0; i < chosen->filter_nr; i++)
		filter_release(&chosen->filter[i]);
	free(chosen->filter);
	*chosen = (struct chosen){};
}

/* ---- filters that match nothing ------------------------------------------------------------- */

static bool matches_any(const struct filter *filter, const struct chosen *chosen,
			const struct snapshot *snapshot)
{
	struct filter inclusive = *filter;
	struct engine_options options = chosen->engine;
	struct statistics *statistics = NULL;
	bool is_any;

	inclusive.inclusive = true;
	options.key_type = KEY_FILENAME;
	options.cumulative = false;
	options.select = (struct selection){ .filter = &inclusive, .filter_nr = 1 };
	if (snapshot_statistics(snapshot, &options, &statistics, NULL))
		return true; /* unknown: do not report it */
	is_any = statistics->total.count;
	statistics_free(statistics);
	return is_any;
}

struct unmatched log_unmatched(const struct select_options *options, const struct chosen *chosen,
			       const struct snapshot *const *snapshot, size_t snapshot_nr)
{
	size_t include_nr = options->include.item_nr;
	struct unmatched unmatched = {};

	for (size_t i = 0; i < chosen->filter_nr; i++) {
		bool is_any = false;

		for (size_t k = 0; k < snapshot_nr && !is_any; k++)
			is_any = matches_any(&chosen->filter[i], chosen, snapshot[k]);
		if (is_any)
			continue;
		unmatched.nr++;
		unmatched.includes |= i < include_nr;
		if (i < include_nr)
			log_info("--include %s matches no block", options->include.item[i]);
		else if (i >= include_nr + options->exclude.item_nr)
			log_info("%s: suppression %s matches no block", options->suppressions,
				 chosen->filter[i].any_pattern);
		else
			log_info("--exclude %s matches no block", options->exclude.item[i - include_nr]);
	}
	return unmatched;
}

/* ---- options as a text -------------------------------------------------------------------- */

/* Quotes the word if a shell would change it. */
static void put_shell_word(FILE *out, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_@%+=:,./-";

	if (!word[strspn(word, plain)]) {
		fputs(word, out);
		return;
	}
	putc('\'', out);
	for (; *word; word++)
		fputs(*word == '\'' ? "'\\''" : (char[]){ *word, '\0' }, out);
	putc('\'', out);
}

static void put_option_word(FILE *out, const struct option_row *row, const char *value)
{
	fprintf(out, "%s--%s", ftell(out) ? " " : "", row->name);
	if (!value)
		return;
	putc(' ', out);
	put_shell_word(out, value);
}

static void put_option_row(FILE *out, const struct option_row *row, const void *field)
{
	const struct string_list *list = field;
	const struct said *said = field;

	if (row->kind == OPTION_LIST)
		for (size_t i = 0; i < list->item_nr; i++)
			put_option_word(out, row, list->item[i]);
	else if (row->kind == OPTION_CUSTOM && said->text)
		put_option_word(out, row, said->text);
	else if (row->kind == OPTION_FLAG && *(const bool *)field)
		put_option_word(out, row, NULL);
}

bool is_selecting(const struct select_options *options)
{
	return options->include.item_nr || options->exclude.item_nr || options->min_size.text ||
	       options->max_size.text || options->min_age.text || options->max_age.text ||
	       options->thread.text || options->no_gap_blocks;
}

char *select_text(const struct select_options *options)
{
	static const struct option_group group[] = { SELECT_GROUPS(0) };
	char *text = NULL;
	size_t len = 0;
	FILE *out;

	errno = 0;
	if (!is_selecting(options))
		return NULL;
	out = open_memstream(&text, &len);
	if (!out)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(group); i++)
		for (const struct option_row *row = group[i].row; row->name; row++)
			put_option_row(out, row, (const char *)options + row->offset);
	if (!fclose(out))
		return text;
	free(text);
	errno = ENOMEM;
	return NULL;
}
