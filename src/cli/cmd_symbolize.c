// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap symbolize: names the unnamed frames of snapshots, from files on this machine. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/progress.h"
#include "base/reason.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/cmd_stats.h"
#include "cli/find_snapshot.h"
#include "cli/open_input.h"
#include "debuginfod/debuginfod.h"
#include "snapshot.h"
#include "symbolize/naming.h"

extern const struct command cmd_symbolize;

struct symbolize_options {
	const char *output; /* NULL: the snapshots themselves */
	const char *root;
	struct string_list debug_dir;
	bool by_path;
};

#define FIELD(name) offsetof(struct symbolize_options, name)

static const struct option_row rows[] = {
	{ "output", 'o', OPTION_STRING, FIELD(output), .arg = "FILE",
	  .help = "write the result to FILE and leave SNAP unchanged" },
	{ "debug-dir", 0, OPTION_LIST, FIELD(debug_dir), .arg = "DIR",
	  .help = "look for debug files in DIR/.build-id/xx/yyy.debug before /usr/lib/debug; repeatable" },
	{ "by-path", 0, OPTION_FLAG, FIELD(by_path),
	  .help = "also name frames without a build-id, from the file that is at their path now, unverified" },
	{ "root", 0, OPTION_STRING, FIELD(root), .arg = "DIR", .default_text = "/",
	  .help = "look for programs and libraries below DIR" },
	{},
};

/* ---- directories ---------------------------------------------------------------------------- */

struct directories {
	int root_fd;
	int *debug_fd;
	size_t debug_nr; /* of debug_fd, opened */
};

static int open_directory(const char *path, int *ret_fd)
{
	*ret_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return *ret_fd < 0 ? log_failure("%s: %s", path, strerror(errno)) : EXIT_DONE;
}

static int directories_open(struct directories *directories, const struct symbolize_options *options)
{
	const struct string_list *list = &options->debug_dir;
	int status;

	*directories = (struct directories){ .root_fd = -1 };
	directories->debug_fd = calloc(list->item_nr + 1, sizeof(*directories->debug_fd));
	if (!directories->debug_fd)
		return log_failure("out of memory");
	status = open_directory(options->root ?: "/", &directories->root_fd);
	for (size_t i = 0; i < list->item_nr && !status; i++) {
		status = open_directory(list->item[i], &directories->debug_fd[i]);
		directories->debug_nr += !status;
	}
	return status;
}

static void directories_close(struct directories *directories)
{
	for (size_t i = 0; i < directories->debug_nr; i++)
		close(directories->debug_fd[i]);
	if (directories->root_fd >= 0)
		close(directories->root_fd);
	free(directories->debug_fd);
}

/* ---- snapshots ------------------------------------------------------------------------------ */

static void report_nameless(struct naming *naming, bool by_path)
{
	struct nameless nameless;

	while (naming__next_nameless(naming, &nameless))
		log_info("%s names for %s (build-id %s): %s%s", nameless.has_some ? "few" : "no", nameless.path,
		    *nameless.build_id ? nameless.build_id : "not recorded", nameless.why,
		    *nameless.build_id || by_path ? "" : "; --by-path takes the file that is there now");
}

static void report_left_out(const char *path, const struct naming_counts *counts)
{
	char clean[PATH_MAX];

	if (counts->left_out)
		log_info("%s: %" PRIu64 " objects were not looked for: no more than %d of a snapshot are",
		    clean_path(clean, sizeof(clean), path), counts->left_out, NAMING_OBJECTS_MAX);
}

static int report_named_frames(const char *path, const struct naming_counts *counts)
{
	char clean[PATH_MAX];

	status_line_clear();
	printf("%s: %" PRIu64 " of %" PRIu64 " unnamed frames named",
	       clean_path(clean, sizeof(clean), path), counts->named, counts->unnamed);
	if (counts->lined)
		printf(", lines for %" PRIu64 " others", counts->lined);
	if (counts->by_path)
		printf(", %" PRIu64 " by path, not verified", counts->by_path);
	return report_write_error(putchar('\n') == EOF ? -errno : 0);
}

static int symbolize_snapshot(struct naming *naming, const char *path, const struct symbolize_options *symbolize)
{
	const char *output = symbolize->output;
	struct reason why = { "out of memory" };
	struct snapshot *snapshot = open_snapshot(path), *named = NULL;
	struct snapshot_save_options options;
	struct naming_counts counts;
	int err;

	if (!snapshot)
		return EXIT_FAILED;
	options = snapshot__saved_with(snapshot);
	options.rewrite = output ? NULL : snapshot__file(snapshot);
	err = naming__snapshot(naming, snapshot, &counts, &named);
	report_nameless(naming, symbolize->by_path);
	report_left_out(path, &counts);
	if (err)
		reason_set(&why, err, "%s: %s", path,
			   err == -EFBIG ? "with inlined calls it would have too many frames" :
					   strerror(-err));
	else if (named || output)
		err = snapshot__save(named ?: snapshot, output ?: path, &options, &why);
	snapshot__close(named);
	snapshot__close(snapshot);
	return err ? log_failure("%s", why.text) : report_named_frames(path, &counts);
}

static void report_debuginfod(struct debuginfod *debuginfod)
{
	struct debuginfod_counts counts = debuginfod__counts(debuginfod);
	char size[UNIT_TEXT_MAX];

	if (counts.fetched || counts.cached)
		log_info("debuginfod: %" PRIu64 " file%s fetched (%s), %" PRIu64 " from the cache", counts.fetched,
			 counts.fetched == 1 ? "" : "s", format_size(size, counts.bytes, false), counts.cached);
}

static void report_trouble(struct debuginfod *debuginfod)
{
	struct reason line;

	while (debuginfod__next_trouble(debuginfod, &line))
		log_info("%s", line.text);
}

static int symbolize_snapshots(struct naming *naming, struct debuginfod *debuginfod,
			       const struct symbolize_options *options, const struct arguments *args)
{
	struct snapshot_paths paths = {};
	struct progress progress;
	int status = EXIT_DONE;

	for (size_t i = 0; i < args->item_nr; i++)
		if (find_all_snapshots(args->item[i], &paths))
			status = EXIT_FAILED;
	if (options->output && paths.path_nr > 1)
		status = log_refusal(&cmd_symbolize, "-o FILE is for one snapshot, and %s has %zu", args->item[0],
				     paths.path_nr);
	progress = progress_begin("naming", "snapshots", paths.path_nr);
	for (size_t i = 0; i < paths.path_nr && status != EXIT_REFUSED; i++) {
		progress_show(&progress, i);
		if (symbolize_snapshot(naming, paths.path[i], options))
			status = EXIT_FAILED;
		report_trouble(debuginfod);
	}
	progress_end(&progress);
	snapshot_paths_release(&paths);
	return status;
}

/* All objects of a snapshot are open at the same time. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct symbolize_options *options = command_options;
	struct naming_options naming_options;
	struct directories directories;
	struct reason why = {};
	struct debuginfod *debuginfod = NULL;
	struct naming *naming = NULL;
	int status;

	if (options->output && args->item_nr > 1)
		return log_refusal(&cmd_symbolize, "-o FILE is for one snapshot");
	if (options->output && !strcmp(options->output, "-"))
		return log_refusal(&cmd_symbolize, "-o FILE is no stream; a file called '-' is ./-");
	raise_file_limit();
	status = directories_open(&directories, options);
	if (!status && debuginfod__open(&debuginfod, &why))
		status = log_failure("%s", why.text);
	if (!status) {
		naming_options = (struct naming_options){
			.root_fd = directories.root_fd,
			.debug_dir_fd = directories.debug_fd,
			.debug_dir_nr = directories.debug_nr,
			.fetcher = debuginfod__fetcher(debuginfod),
			.by_path = options->by_path,
		};
		naming = naming__new(&naming_options, &why);
		status = naming ? symbolize_snapshots(naming, debuginfod, options, args) : log_failure("%s", why.text);
	}
	report_debuginfod(debuginfod);
	naming__free(naming);
	debuginfod__close(debuginfod);
	directories_close(&directories);
	return status;
}

const struct command cmd_symbolize = {
	.name = "symbolize",
	.args = "SNAP…",
	.arg_min = 1,
	.arg_max = UINT_MAX,
	.help = "name the unnamed frames of snapshots",
	.detail = "Frames without a line get their function, line and inlined calls from the program or library at "
		  "the recorded path, if its build-id is the recorded one, and from its debug file. SNAP is "
		  "replaced completely or not at all, and keeps its mode and owner. A snapshot that gains no names "
		  "is left unchanged. Files that are missing, or stripped and without a debug file, are named on "
		  "standard error; they are no failure.\n\n"
		  "If DEBUGINFOD_URLS names servers, files that are not here are fetched from them by build-id, into the "
		  "cache that gdb uses. DEBUGINFOD_CACHE_PATH, DEBUGINFOD_TIMEOUT, DEBUGINFOD_MAXTIME (600 s) and "
		  "DEBUGINFOD_MAXSIZE (2 GiB) count as for gdb. A server that fails is asked no more.\n\n"
		  "Heap profiles of jemalloc and tcmalloc have paths, but no build-ids. With --by-path their frames get the "
		  "names that the files at these paths have now, and the snapshot counts them as a loss, "
		  "frames_named_by_path: another version of a file would give wrong names.\n\n"
		  "SNAP can also be a folder, PID or COMM as for 'allocsnap stats': then all of its snapshots get "
		  "names.\n",
	.example = "allocsnap symbolize --debug-dir ./debug allocsnap-data",
	.option = { { .row = rows } },
	.options_size = sizeof(struct symbolize_options),
	.run = run,
};
