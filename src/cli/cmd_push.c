// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap push: sends snapshots as pprof to Pyroscope, Parca and what is compatible with them; or to a ClickHouse. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/walk.h"
#include "base/privileges.h"
#include "base/reason.h"
#include "cli/cmd.h"
#include "fleet/cluster/cluster_push.h"
#include "push/push_queue.h"
#include "push/pusher.h"
#include "record/metrics.h"

extern const struct command cmd_push;

struct push_command_options {
	struct pusher_options push;
	bool watch;
	const char *metrics;
};

#define FIELD(name) offsetof(struct push_command_options, push.name)

static const struct option_row endpoint_rows[] = {
	{ "credentials", 0, OPTION_STRING, FIELD(endpoint.credentials), .arg = "FILE",
	  .help = "read token=TOKEN, or user=NAME and password=PASSWORD, from FILE" },
	{ "tenant", 0, OPTION_STRING, FIELD(endpoint.tenant), .arg = "ID",
	  .help = "push for this tenant (X-Scope-OrgID)" },
	{ "ca-file", 0, OPTION_STRING, FIELD(endpoint.ca_file), .arg = "FILE",
	  .help = "trust the certificates in FILE instead of the system's" },
	{ "timeout", 0, OPTION_DURATION, FIELD(endpoint.timeout_ns), .arg = "TIME",
	  .help = "wait TIME for the answer to a profile", .least = 1000000, .most = 3600000000000 },
	{ "service", 0, OPTION_STRING, FIELD(service), .arg = "NAME", .default_text = "the process's name",
	  .help = "name the service" },
	{ "database", 0, OPTION_STRING, FIELD(endpoint.database), .arg = "NAME", .default_text = "allocsnap",
	  .help = "use this database of a ClickHouse" },
	{ "top", 0, OPTION_COUNT, FIELD(endpoint.top), .arg = "N", .most = UINT32_MAX, .default_text = "all",
	  .help = "to a ClickHouse push the N largest rows of each snapshot, and the sum of the rest ('allocsnap fleet push --help')" },
	{},
};

#undef FIELD
#define FIELD(name) offsetof(struct push_command_options, name)

static const struct option_row folder_rows[] = {
	{ "watch", 0, OPTION_FLAG, FIELD(watch),
	  .help = "keep running, and push new snapshots in FOLDER until SIGTERM or Ctrl-C" },
	{ "max-waiting", 0, OPTION_COUNT, FIELD(push.waiting_most), .arg = "N",
	  .help = "push the latest N snapshots at most, and give up older ones; 0 is no limit" },
	{ "metrics", 0, OPTION_STRING, FIELD(metrics), .arg = "FILE",
	  .help = "with --watch: write FILE for Prometheus's textfile collector, after each look at the FOLDER" },
	{},
};

static int push_folder(struct push_endpoint *endpoint, const struct pusher_options *options, const char *folder,
		       struct push_counts *counts)
{
	struct reason why = { "out of memory" };
	struct push_queue *queue = push_queue__open(folder, options->endpoint.url, &why);
	int status = EXIT_DONE;

	if (!queue || push_waiting(endpoint, options, queue, -1, counts, &why))
		status = log_failure("%s", why.text);
	push_queue__close(queue);
	return status;
}

static int push_one(struct push_endpoint *endpoint, const struct pusher_options *options, const char *path,
		    struct push_counts *counts)
{
	struct reason why = { "out of memory" };
	enum push_result result = push_file(endpoint, options, path, &why);
	bool waits = result == PUSH_LATER || result == PUSH_FAILED;

	counts->pushed += result == PUSH_DONE;
	counts->rejected += result == PUSH_REJECTED;
	counts->failures += waits;
	counts->waiting += waits;
	return result == PUSH_DONE ? EXIT_DONE : log_failure("%s: not pushed: %s", path, why.text);
}

/* Prints "3 pushed, 1 rejected; 4 wait". */
static int report_counts(const struct push_counts *counts)
{
	uint64_t waiting = counts->waiting;

	printf("%" PRIu64 " pushed", counts->pushed);
	if (counts->rejected)
		printf(", %" PRIu64 " rejected", counts->rejected);
	if (counts->given_up)
		printf(", %" PRIu64 " given up", counts->given_up);
	if (waiting)
		printf("; %" PRIu64 " %s again", waiting,
		       waiting == 1 ? "waits: the same command tries it" : "wait: the same command tries them");
	putchar('\n');
	return waiting || counts->rejected ? EXIT_FAILED : EXIT_DONE;
}

static int push_arguments(struct push_endpoint *endpoint, const struct pusher_options *options,
			  const struct arguments *args)
{
	struct push_counts counts = {};
	uint64_t waiting = 0;
	int status = EXIT_DONE, failed;

	for (size_t i = 1; i < args->item_nr; i++) {
		counts.waiting = 0;
		if (is_folder(args->item[i]))
			failed = push_folder(endpoint, options, args->item[i], &counts);
		else
			failed = push_one(endpoint, options, args->item[i], &counts);
		waiting += counts.waiting;
		status = status ?: failed;
	}
	counts.waiting = waiting;
	return report_counts(&counts) ?: status;
}

/* ---- a folder that grows ---- */

struct counts_file {
	const char *path; /* NULL: none is wanted */
	bool has_failed;
};

/* Logs the first of several failures. */
static void write_counts(const struct push_counts *counts, void *what)
{
	struct counts_file *file = what;
	bool had_failed = file->has_failed;
	struct reason why;

	file->has_failed = file->path && push_counts_write(file->path, counts, &why);
	if (file->has_failed && !had_failed)
		log_line(LOG_WARNING, "%s", why.text);
}

/* A descriptor that is readable once the process is to end; -1: it failed, reported. */
static int open_end(void)
{
	sigset_t ends;
	int fd;

	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	fd = sigprocmask(SIG_BLOCK, &ends, NULL) ? -1 : signalfd(-1, &ends, SFD_CLOEXEC);
	if (fd < 0)
		log_failure("signals: %s", strerror(errno));
	return fd;
}

/* Credentials and certificates have been read: from here on it needs no rights but those that the files take. */
static int watch_folder(struct push_endpoint *endpoint, const struct push_command_options *options, const char *folder)
{
	struct counts_file file = { .path = options->metrics };
	const struct push_watch watch = { folder, open_end(), write_counts, &file };
	struct push_counts counts = {};
	struct reason why = { "out of memory" };
	int status = EXIT_DONE;

	if (watch.end_fd < 0)
		return EXIT_FAILED;
	if (access(folder, F_OK) && errno == ENOENT)
		log_line(LOG_INFO, "push: %s does not exist yet: push waits for it", folder);
	if (privileges__drop(privileges__to_write(folder) | metrics_privileges(options->metrics), &why))
		status = log_failure("%s", why.text);
	else if (push_while_open(endpoint, &options->push, &watch, &counts))
		status = EXIT_FAILED;
	close(watch.end_fd);
	return report_counts(&counts) ?: status;
}

static int check_watch(const struct push_command_options *options, const struct arguments *args)
{
	struct stat st;

	if (options->metrics && !options->watch)
		return log_refusal(&cmd_push, "--metrics goes with --watch");
	if (options->watch && (args->item_nr != 2 || (!stat(args->item[1], &st) && !S_ISDIR(st.st_mode))))
		return log_refusal(&cmd_push, "--watch takes one FOLDER");
	return EXIT_DONE;
}

/* ---- the command ---- */

static int run(const void *command_options, const struct arguments *args)
{
	struct push_command_options command = *(const struct push_command_options *)command_options;
	struct pusher_options *options = &command.push;
	struct push_endpoint *endpoint;
	struct reason why = { "out of memory" };
	int status, err;

	if (check_watch(&command, args))
		return EXIT_REFUSED;
	options->endpoint.url = args->item[0];
	options->endpoint.batch = cluster_url_is_plain(options->endpoint.url) ? &cluster_batch_protocol : NULL;
	err = push_url_check(&options->endpoint, &why);
	if (err)
		return err == -EINVAL ? log_refusal(&cmd_push, "%s", why.text) : log_failure("%s", why.text);
	endpoint = push_endpoint__new(&options->endpoint, &why);
	if (!endpoint)
		return log_failure("%s", why.text);
	status = command.watch ? watch_folder(endpoint, &command, args->item[1]) :
				 push_arguments(endpoint, options, args);
	push_endpoint__free(endpoint);
	return status;
}

const struct command cmd_push = {
	.name = "push",
	.args = "URL SNAP|FOLDER...",
	.arg_min = 2,
	.arg_max = UINT_MAX,
	.help = "send snapshots to Pyroscope, Parca, an OpenTelemetry collector or a ClickHouse",
	.detail = "Each snapshot is sent as a profile, with host and labels of its recording. URL ends with the path of an "
		  "endpoint:\n"
		  "  https://HOST/push.v1.PusherService/Push  Pyroscope\n"
		  "  https://HOST/ingest                      Pyroscope's older API\n"
		  "  https://HOST/profiles/writeraw           Parca\n"
		  "  http://HOST:4318/v1development/profiles  OpenTelemetry's profiles signal (alpha)\n"
		  "A URL without a path, http://HOST:8123, is a ClickHouse with the tables of 'allocsnap fleet init': snapshots "
		  "become rows, many in one request, and none counts twice.\n\n"
		  "Of a FOLDER, what was not pushed to this URL before is pushed, the oldest first; a file .push-ID in it "
		  "notes what is done. If the endpoint fails, the rest waits for the next call, and the exit status is "
		  "1. With --watch it looks every five seconds, and after a failure in ever longer intervals, of five "
		  "minutes at most; at its end it pushes what was written last.\n\n"
		  "Credentials come from a file that other users cannot read, or from ALLOCSNAP_PUSH_TOKEN, or "
		  "ALLOCSNAP_PUSH_USER and ALLOCSNAP_PUSH_PASSWORD in the environment; for a ClickHouse from "
		  "ALLOCSNAP_CLUSTER_TOKEN, _USER and _PASSWORD.",
	.example = "allocsnap push http://localhost:4040/ingest allocsnap-data",
	.option = { { endpoint_rows, 0, "Endpoint" }, { folder_rows, 0, "A folder" } },
	.defaults = &(const struct push_command_options){
		.push = { .waiting_most = 10000, .endpoint.timeout_ns = PUSH_TIMEOUT_NS },
	},
	.options_size = sizeof(struct push_command_options),
	.run = run,
};
