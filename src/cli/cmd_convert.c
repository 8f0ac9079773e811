// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap convert: converts snapshots from and to other formats, and extracts parts of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_replace.h"
#include "base/reason.h"
#include "base/units.h"
#include "cli/cmd.h"
#include "cli/cmd_select.h"
#include "cli/cmd_stats.h"
#include "cli/find_snapshot.h"
#include "cli/open_input.h"
#include "render.h"
#include "snapshot.h"

extern const struct command cmd_convert;

struct convert_options;

/* ---- formats ------------------------------------------------------------------------------ */

struct output_format {
	const char *name; /* of --to; NULL: no format */
	const char *help;
	const char *suffix; /* of output names that select this format without --to */
	bool is_binary, can_compress; /* can_compress: also --compact */

	/* A report; if it is set, the functions below are not. */
	const struct renderer *renderer;

	/* Both return 0 or a negative errno. print() writes to stdout; save() writes a line to *why if it fails. */
	int (*print)(const struct snapshot *snapshot, const struct convert_options *options);
	int (*save)(const struct snapshot *snapshot, const struct convert_options *options,
		    struct reason *why);
};

struct convert_options {
	const char *output;
	struct output_format format; /* without a name: chosen by the output's name */
	bool compress, compact;
	struct select_options select;
};

static struct snapshot_save_options save_options_of(const struct convert_options *options)
{
	return (struct snapshot_save_options){
		.compress = options->compress,
		.compact = options->compact,
	};
}

static int print_snap(const struct snapshot *snapshot, const struct convert_options *options)
{
	struct snapshot_save_options save_options = save_options_of(options);
	void *bytes = NULL;
	size_t len;
	int err = snapshot__serialize(snapshot, &save_options, &bytes, &len);

	if (!err && fwrite(bytes, 1, len, stdout) != len)
		err = -errno ?: -EIO;
	free(bytes);
	return err;
}

static int save_snap(const struct snapshot *snapshot, const struct convert_options *options,
		     struct reason *why)
{
	struct snapshot_save_options save_options = save_options_of(options);

	return snapshot__save(snapshot, options->output, &save_options, why);
}

/* Python has no weights and would take the samples for all blocks. */
static void warn_of_weights(const struct snapshot *snapshot)
{
	if (snapshot__tables(snapshot)->trace_weight)
		log_info("warning: Python's tracemalloc reads no weights: it will add up the sizes of the "
		    "samples alone");
}

static int print_tracemalloc_json(const struct snapshot *snapshot, const struct convert_options *options)
{
	(void)options;
	warn_of_weights(snapshot);
	return snapshot__export_json(snapshot, stdout);
}

static int export_json(FILE *out, const void *what)
{
	return snapshot__export_json(what, out);
}

static int save_tracemalloc_json(const struct snapshot *snapshot, const struct convert_options *options,
				 struct reason *why)
{
	warn_of_weights(snapshot);
	return file_replace(options->output, export_json, snapshot, why);
}

static const struct output_format whole_formats[] = {
	{ "snap", "a snapshot file with everything known (default)", ".snap",
	  .is_binary = true, .can_compress = true, .print = print_snap, .save = save_snap },
	{ "json", "the data of Python's tracemalloc: no functions, no ages (default for *.json and -)",
	  ".json", .print = print_tracemalloc_json, .save = save_tracemalloc_json },
};

#define FORMAT_SNAP whole_formats[0]
#define FORMAT_JSON whole_formats[1]

/* The formats above, then formats of reports that have an ending. Returns false if there are fewer. */
static bool format_at(size_t at, struct output_format *ret)
{
	size_t nr;
	const struct renderer *table = renderer_table(&nr);

	if (at < ARRAY_SIZE(whole_formats)) {
		*ret = whole_formats[at];
		return true;
	}
	at -= ARRAY_SIZE(whole_formats);
	for (size_t i = 0; i < nr; i++) {
		if (!table[i].suffix || at--)
			continue;
		*ret = (struct output_format){ table[i].name, table[i].help, table[i].suffix, table[i].is_binary,
					       .renderer = &table[i] };
		return true;
	}
	return false;
}

static bool output_format_choice(size_t at, struct option_choice *ret)
{
	struct output_format format;

	if (!format_at(at, &format))
		return false;
	*ret = (struct option_choice){ format.name, format.help };
	return true;
}

static int parse_to(const char *text, void *field, struct reason *why)
{
	struct output_format format;
	char names[256] = "", removed[REMOVED_TEXT_MAX];

	for (size_t i = 0; format_at(i, &format); i++) {
		strcat(strcat(names, i ? ", " : ""), format.name);
		if (strcmp(text, format.name))
			continue;
		*(struct output_format *)field = format;
		return 0;
	}
	if (removed_word_format(removed, NULL, text, strlen(text)))
		return reason_set(why, -EINVAL, "%s", removed);
	return reason_set(why, -EINVAL, "'%.100s' is none of %s", text, names);
}

/* A device or a pipe. */
static bool is_device(const char *path)
{
	struct stat st;

	return !stat(path, &st) && !S_ISREG(st.st_mode);
}

static bool is_stdout(const struct convert_options *options)
{
	return !strcmp(options->output, "-");
}

static bool has_ending(const char *name, const char *ending)
{
	size_t len = strlen(name), ending_len = strlen(ending);

	return len > ending_len && !strcmp(name + len - ending_len, ending);
}

static struct output_format format_by_ending(const char *name)
{
	struct output_format format;

	for (size_t i = 0; format_at(i, &format); i++)
		if (has_ending(name, format.suffix))
			return format;
	return (struct output_format){};
}

/* Without a name if the output has an ending of another format. A name without an ending is a snapshot file's. */
static struct output_format format_of(const struct convert_options *options)
{
	const char *name = path_name(options->output);
	struct output_format found;

	if (options->format.name)
		return options->format;
	if (is_stdout(options))
		return FORMAT_JSON;
	found = format_by_ending(name);
	if (!found.name && (is_device(options->output) || !*name || !strchr(name + 1, '.')))
		return FORMAT_SNAP;
	return found;
}

/* .dhat.json also ends as a format that is still there. */
static int refuse_removed_ending(const struct convert_options *options)
{
	const char *dot = options->format.name ? NULL : strchr(path_name(options->output), '.');
	char removed[REMOVED_TEXT_MAX];

	for (; dot; dot = strchr(dot + 1, '.'))
		if (removed_word_format(removed, cmd_convert.name, dot, strlen(dot)))
			return log_refusal(&cmd_convert, "-o %s: %s", options->output, removed);
	return EXIT_DONE;
}

static int refuse_ending(const struct convert_options *options)
{
	struct output_format format;
	char endings[256] = "";

	for (size_t i = 0; format_at(i, &format); i++)
		strcat(strcat(endings, i ? ", " : ""), format.suffix);
	return log_refusal(&cmd_convert, "-o %s: an unknown ending; known are %s (or choose with --to)",
			   options->output, endings);
}

/* ---- options ------------------------------------------------------------------------------ */

#define FIELD(name) offsetof(struct convert_options, name)

static const struct option_row rows[] = {
	{ "output", 'o', OPTION_STRING, FIELD(output),
	  .arg = "OUT",
	  .help = "write OUT, completely or not at all; - is standard output" },
	{ "to", 't', OPTION_CUSTOM, FIELD(format), .parse = parse_to, .choice = output_format_choice,
	  .arg = "F", .help = "write OUT in this format" },
	{ "compress", 'z', OPTION_FLAG, FIELD(compress),
	  .help = "compress the snapshot file (zstd)" },
	{ "compact", 0, OPTION_FLAG, FIELD(compact),
	  .help = "write a smaller file: no addresses and threads, allocation times to the second" },
	{},
};

static int check_options(const struct convert_options *options)
{
	struct output_format format;

	if (!options->output)
		return log_refusal(&cmd_convert,
				   "-o OUT is missing: the file to write, - for stdout");
	if (refuse_removed_ending(options))
		return EXIT_REFUSED;
	format = format_of(options);
	if (!format.name)
		return refuse_ending(options);
	if (options->compress && !format.can_compress)
		return log_refusal(&cmd_convert, "--compress goes with --to snap, not %s",
				   format.name);
	if (options->compact && !format.can_compress)
		return log_refusal(&cmd_convert, "--compact goes with --to snap, not %s", format.name);
	if (is_stdout(options) && format.is_binary && isatty(STDOUT_FILENO))
		return log_refusal(&cmd_convert, "--to %s is not for a terminal; write it "
						 "to a file, or use --to json", format.name);
	return EXIT_DONE;
}

/* ---- the command -------------------------------------------------------------------------- */

/* Adds the filters of this call to the filters of earlier calls, which the snapshot has in its metadata. */
static int note_filters(struct snapshot *part, const char *before, const char *filters)
{
	char *both;
	int err;

	if (asprintf(&both, "%s%s%s", before ?: "", before ? "; then " : "", filters) < 0)
		return -ENOMEM;
	err = snapshot__set_metadata(part, "filters", both);
	free(both);
	return err;
}

/* A compact snapshot has allocation times to the second. */
static int note_compact(struct snapshot *snapshot)
{
	return snapshot__set_metadata(snapshot, "birth_resolution_ns", "1000000000");
}

/* Replaces the snapshot by the selected part of it. */
static int select_part(struct snapshot **snapshot, const struct convert_options *options,
		       const struct chosen *chosen, struct unmatched *ret_unmatched, struct reason *why)
{
	char *filters = select_text(&options->select);
	struct snapshot *part = NULL;
	int err;

	if (!filters)
		return -errno;
	err = snapshot_filter_traces(*snapshot, &chosen->engine, &part, why);
	err = err ?: note_filters(part, snapshot__metadata(*snapshot, "filters"), filters);
	free(filters);
	if (err) {
		snapshot__close(part);
		return err;
	}
	*ret_unmatched = log_unmatched(&options->select, chosen, (const struct snapshot *const *)snapshot, 1);
	if (!ret_unmatched->nr && !snapshot__tables(part)->trace_nr)
		log_info("no block matches what was asked for");
	snapshot__close(*snapshot);
	*snapshot = part;
	return 0;
}

static int write_output(const struct snapshot *snapshot, const struct convert_options *options)
{
	const struct output_format format = format_of(options);
	struct reason why = { "out of memory" };

	if (is_stdout(options))
		return report_write_error(format.print(snapshot, options));
	if (format.save(snapshot, options, &why))
		return log_failure("%s", why.text);
	return EXIT_DONE;
}

static int convert_snapshot(struct snapshot **snapshot, const char *path, const struct convert_options *options,
			    const struct chosen *chosen)
{
	struct reason why = { "out of memory" };
	struct unmatched unmatched = {};
	int status = EXIT_DONE;

	if (select_part(snapshot, options, chosen, &unmatched, &why))
		status = log_failure("%s: %s", path, why.text);
	if (!status && options->compact && note_compact(*snapshot))
		status = log_failure("%s: no room for more metadata", path);
	status = status ?: write_output(*snapshot, options);
	return status ?: unmatched.includes ? EXIT_FAILED : EXIT_DONE;
}

/* As `stats --format` writes it. */
static int write_rendered(const struct snapshot *snapshot, const char *path, const struct convert_options *options,
			  const struct chosen *chosen)
{
	const struct stats_options stats = {
		STATS_DEFAULTS,
		.format = format_of(options).renderer,
		.output = is_stdout(options) ? NULL : options->output,
		.select = options->select,
	};
	struct chosen question = *chosen;

	question.engine.key_type = stats.format->key_type;
	return report_statistics(&stats, &question, snapshot, path);
}

static int convert_file(const char *path, const struct convert_options *options,
			const struct chosen *chosen)
{
	struct input input;
	int status = input_read(&input, path);

	if (!status && format_of(options).renderer)
		status = write_rendered(input.snapshot, path, options, chosen);
	else if (!status)
		status = convert_snapshot(&input.snapshot, path, options, chosen);
	input_release(&input);
	return status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct convert_options *options = command_options;
	struct chosen chosen = {};
	int status = check_options(options);
	char *path = NULL;

	status = status ?: select_options_resolve(&cmd_convert, &options->select, &chosen);
	status = status ?: find_snapshot(args->item[0], &path);
	status = status ?: convert_file(path, options, &chosen);
	free(path);
	chosen_release(&chosen);
	return status;
}

const struct command cmd_convert = {
	.name = "convert",
	.args = "IN -o OUT",
	.arg_min = 1,
	.arg_max = 1,
	.help = "convert a snapshot from or to another format, or extract a part of it",
	.detail = "IN is a snapshot file, JSON, or a heap profile of another tool (pprof, or the text of jemalloc, tcmalloc "
		  "and gperftools, also in gzip), detected by its content; - is standard input. IN and OUT may be "
		  "the same file. Like SNAP of 'allocsnap stats', IN can also be a folder, PID or COMM. "
		  "The JSON holds the data of Python's tracemalloc.Snapshot:\n"
		  "  {\"traceback_limit\":N,\n"
		  "   \"traces\":[[domain,size,[[filename,lineno],...],total_nframe],...]}\n"
		  "The most recent frame comes first. A sample has its weight after total_nframe.\n\n"
		  SELECT_DETAIL,
	.example = "allocsnap convert new.snap -o new.json",
	.option = { { rows, 0, "Output" }, SELECT_GROUPS(FIELD(select)) },
	.options_size = sizeof(struct convert_options),
	.run = run,
};
