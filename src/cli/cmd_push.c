// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap push: sends snapshots as pprof to Pyroscope, Parca and what is compatible with them; or to a ClickHouse. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "archive/walk.h"
#include "base/reason.h"
#include "cli/cmd.h"
#include "fleet/cluster/cluster_batch.h"
#include "push/push_queue.h"
#include "push/pusher.h"

extern const struct command cmd_push;

#define FIELD(name) offsetof(struct pusher_options, name)

static const struct option_row rows[] = {
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
	{ "max-waiting", 0, OPTION_COUNT, FIELD(waiting_most), .arg = "N",
	  .help = "of a folder push the latest N snapshots at most, and give up older ones; 0 is no limit" },
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

	switch (push_file(endpoint, options, path, &why)) {
	case PUSH_DONE:
		counts->pushed++;
		return EXIT_DONE;
	case PUSH_REJECTED:
		counts->rejected++;
		return log_failure("%s: not pushed: %s", path, why.text);
	case PUSH_LATER:
		counts->failures++;
		counts->waiting++;
		return log_failure("%s: not pushed: %s", path, why.text);
	case PUSH_FAILED:
		break;
	}
	counts->failures++;
	counts->is_failing = true;
	counts->waiting++;
	return log_failure("%s: not pushed: %s", path, why.text);
}

/* Prints "3 pushed, 1 rejected; 4 wait". */
static int report_counts(const struct push_counts *counts, uint64_t waiting)
{
	printf("%" PRIu64 " pushed", (uint64_t)counts->pushed);
	if (counts->rejected)
		printf(", %" PRIu64 " rejected", (uint64_t)counts->rejected);
	if (counts->given_up)
		printf(", %" PRIu64 " given up", (uint64_t)counts->given_up);
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
	return report_counts(&counts, waiting) ?: status;
}

static int run(const void *command_options, const struct arguments *args)
{
	struct pusher_options options = *(const struct pusher_options *)command_options;
	struct push_endpoint *endpoint;
	struct reason why = { "out of memory" };
	int status, err;

	options.endpoint.url = args->item[0];
	options.endpoint.batch = cluster_url_is_plain(options.endpoint.url) ? &cluster_batch_protocol : NULL;
	err = push_url_check(&options.endpoint, &why);
	if (err)
		return err == -EINVAL ? log_refusal(&cmd_push, "%s", why.text) : log_failure("%s", why.text);
	endpoint = push_endpoint__new(&options.endpoint, &why);
	if (!endpoint)
		return log_failure("%s", why.text);
	status = push_arguments(endpoint, &options, args);
	push_endpoint__free(endpoint);
	return status;
}

const struct command cmd_push = {
	.name = "push",
	.args = "URL SNAP|FOLDER...",
	.arg_min = 2,
	.arg_max = UINT_MAX,
	.help = "send snapshots to Pyroscope, Parca or a ClickHouse",
	.detail = "Each snapshot is sent as pprof, with host and labels of its recording. URL ends with the path of an "
		  "endpoint:\n"
		  "  https://HOST/push.v1.PusherService/Push  Pyroscope\n"
		  "  https://HOST/ingest                      Pyroscope's older API\n"
		  "  https://HOST/profiles/writeraw           Parca\n"
		  "A URL without a path, http://HOST:8123, is a ClickHouse with the tables of 'allocsnap fleet init': snapshots "
		  "become rows, many in one request, and none counts twice.\n\n"
		  "Of a FOLDER, what was not pushed to this URL before is pushed, the oldest first; a file .push-ID in it "
		  "notes what is done. If the endpoint fails, the rest waits for the next call, and the exit status is "
		  "1. 'allocsnap record --push URL' pushes while it records.\n\n"
		  "Credentials come from a file that other users cannot read, or from ALLOCSNAP_PUSH_TOKEN, or "
		  "ALLOCSNAP_PUSH_USER and ALLOCSNAP_PUSH_PASSWORD in the environment; those of a ClickHouse from "
		  "ALLOCSNAP_CLUSTER_TOKEN, _USER and _PASSWORD.",
	.example = "allocsnap push http://localhost:4040/ingest allocsnap-data",
	.option = { { rows, 0, "Endpoint" } },
	.defaults = &(const struct pusher_options){ .waiting_most = 10000, .endpoint.timeout_ns = PUSH_TIMEOUT_NS },
	.options_size = sizeof(struct pusher_options),
	.run = run,
};
