// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "push/pusher.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/text_stream.h"
#include "engine.h"
#include "push/push_queue.h"
#include "render.h"
#include "snapshot.h"

#define LABEL_PREFIX "label."
#define FILES_A_BATCH 200
#define EVERY_MS 5000	      /* between two looks at the folder */
#define RETRY_MOST_MS 300000  /* between two attempts */
#define LAST_TIMEOUT_NS 3000000000 /* of the last attempt's requests */
#define LAST_SECONDS 10	      /* of the last attempt in all */

/* ---- a snapshot as a profile ------------------------------------------------------------------------ */

/* Whether an error is about the machine, not about the file: the same attempt may succeed later. */
static bool is_passing(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE || err == -EIO;
}

/* Makes pprof of all live blocks. The caller frees the bytes. */
static int make_pprof(const struct snapshot *snapshot, char **ret_bytes, size_t *ret_len, struct reason *why)
{
	const struct renderer *renderer = renderer_find("pprof", why);
	const struct engine_options engine = { .key_type = KEY_TRACEBACK };
	struct report report = { .snapshot = &snapshot, .snapshot_nr = 1, .engine = &engine };
	struct statistics *statistics = NULL;
	FILE *out = open_memstream(ret_bytes, ret_len);
	int err = out ? snapshot_statistics(snapshot, &engine, &statistics, why) : reason_set(why, -ENOMEM, "out of memory");

	report.statistics = statistics;
	if (!err) {
		err = renderer->report(out, &report);
		if (err)
			reason_set(why, err, "%s", strerror(-err));
	}
	if (out && text_stream_close(out, ret_bytes) && !err)
		err = reason_set(why, -ENOMEM, "out of memory");
	statistics_free(statistics);
	return err;
}

/* Host and labels of the recording. PIDs stay in the profile: a series for each process would be too many. */
struct labels {
	struct push_label *label;
	size_t label_nr, label_alloc;
};

static int add_labels(struct labels *labels, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const char *host = snapshot__metadata(snapshot, "host");
	int err = host ? array_push(labels, label, ((struct push_label){ "host", host })) : 0;

	for (uint32_t i = 0; i < tables->metadata_nr && !err; i++) {
		const char *name = snapshot__string(snapshot, tables->metadata[i].key);
		const struct push_label label = { name + strlen(LABEL_PREFIX),
						  snapshot__string(snapshot, tables->metadata[i].value) };

		if (!strncmp(name, LABEL_PREFIX, strlen(LABEL_PREFIX)))
			err = array_push(labels, label, label);
	}
	return err;
}

static enum push_result push_snapshot(struct push_endpoint *endpoint, const struct pusher_options *options,
				      const struct snapshot *snapshot, struct reason *why)
{
	uint64_t wall_ns = snapshot__metadata_u64(snapshot, "wall_ns", 0);
	struct push_profile profile = {
		.service = options->service ?: snapshot__metadata(snapshot, "comm") ?: "unknown",
		.until_s = (wall_ns ?: clock_now_ns(CLOCK_REALTIME)) / SECOND_NS,
	};
	enum push_result result;
	struct labels labels = {};
	char *bytes = NULL;
	size_t len = 0;
	int err;

	profile.from_s = profile.until_s ? profile.until_s - 1 : 0; /* it is an instant; servers want a span */
	err = add_labels(&labels, snapshot) ? reason_set(why, -ENOMEM, "out of memory") :
					      make_pprof(snapshot, &bytes, &len, why);
	if (err) {
		result = is_passing(err) ? PUSH_LATER : PUSH_REJECTED;
	} else {
		profile.bytes = bytes;
		profile.len = len;
		profile.label = labels.label;
		profile.label_nr = labels.label_nr;
		result = push_endpoint__send(endpoint, &profile, why);
	}
	free(labels.label);
	free(bytes);
	return result;
}

static enum push_result push_single_file(struct push_endpoint *endpoint, const char *path, struct reason *why)
{
	struct push_file file = { .path = path };
	enum push_result result = push_endpoint__send_files(endpoint, &file, 1, why);

	if (result == PUSH_FAILED)
		return result;
	*why = file.why;
	return file.result;
}

enum push_result push_file(struct push_endpoint *endpoint, const struct pusher_options *options, const char *path,
			   struct reason *why)
{
	struct snapshot *snapshot;
	enum push_result result;

	if (push_endpoint__takes_files(endpoint))
		return push_single_file(endpoint, path, why);
	snapshot = snapshot__open(path, why);
	if (!snapshot)
		return is_passing(-errno) ? PUSH_LATER : PUSH_REJECTED;
	result = push_snapshot(endpoint, options, snapshot, why);
	snapshot__close(snapshot);
	return result;
}

/* ---- a folder --------------------------------------------------------------------------------------- */

static int give_up_oldest(const struct pusher_options *options, struct push_queue *queue, struct push_counts *counts,
			  struct reason *why)
{
	uint64_t nr = 0;
	int err = 0;

	while (!err && options->waiting_most && push_queue__nr(queue) > options->waiting_most) {
		err = push_queue__note(queue, 0, OUTCOME_GIVEN_UP, why);
		nr++;
	}
	counts->given_up += nr;
	if (nr)
		log_line(LOG_WARNING, "push: %" PRIu64 " snapshot%s given up, the oldest: more than %" PRIu64 " wait", nr,
			 nr == 1 ? "" : "s", options->waiting_most);
	return err;
}

/* Counts each failure, and logs the first of several of a kind; path: of the file that it is about, or NULL. */
static void note_failure(struct push_counts *counts, bool *had_one, const char *path, const char *why)
{
	if (!*had_one)
		log_line(LOG_WARNING, "push: %s%s%s; it is tried again", path ?: "", path ? ": " : "", why);
	*had_one = true;
	counts->failures++;
}

/* Notes the result of the snapshot at *at. One that cannot be read now stays: *at passes it. */
static int note_result(const struct pusher_options *options, struct push_queue *queue, size_t *at,
		       enum push_result result, const char *said, struct push_counts *counts, struct reason *why)
{
	const char *path = push_queue__path(queue, *at);
	bool is_rejected = result == PUSH_REJECTED;
	int err;

	if (result == PUSH_LATER) {
		note_failure(counts, &counts->has_unread, path, said);
		++*at;
		return 0;
	}
	if (is_rejected)
		log_line(LOG_WARNING, "push: %s: not pushed: %s", path, said);
	counts->rejected += is_rejected;
	counts->pushed += !is_rejected;
	err = push_queue__note(queue, *at, is_rejected ? OUTCOME_REJECTED : OUTCOME_PUSHED, why);
	if (!err && counts->is_failing) {
		log_line(LOG_INFO, "push: snapshots are pushed to %s again", options->endpoint.url);
		counts->is_failing = false;
	}
	return err;
}

/* Returns 1 if the endpoint failed, 0, or a negative errno. */
static int push_next(struct push_endpoint *endpoint, const struct pusher_options *options, struct push_queue *queue,
		     size_t *at, struct push_counts *counts, struct reason *why)
{
	struct reason said = {};
	enum push_result result = push_file(endpoint, options, push_queue__path(queue, *at), &said);

	if (result != PUSH_FAILED)
		return note_result(options, queue, at, result, said.text, counts, why);
	note_failure(counts, &counts->is_failing, NULL, said.text);
	return 1;
}

/* The same for the next snapshots together. */
static int push_next_files(struct push_endpoint *endpoint, const struct pusher_options *options,
			   struct push_queue *queue, size_t *at, struct push_counts *counts, struct reason *why)
{
	size_t nr = push_queue__nr(queue) - *at < FILES_A_BATCH ? push_queue__nr(queue) - *at : FILES_A_BATCH;
	struct push_file *file = calloc(nr, sizeof(*file));
	struct reason said = {};
	int err = 0;

	if (!file)
		return reason_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < nr; i++)
		file[i].path = push_queue__path(queue, *at + i);
	if (push_endpoint__send_files(endpoint, file, nr, &said) == PUSH_FAILED) {
		note_failure(counts, &counts->is_failing, NULL, said.text);
		err = 1;
	}
	for (size_t i = 0; i < nr && !err; i++)
		err = note_result(options, queue, at, file[i].result, file[i].why.text, counts, why);
	free(file);
	return err;
}

/* Returns true if the end came. */
static bool wait_for_end(int end_fd, int wait_ms)
{
	struct pollfd end = { .fd = end_fd, .events = POLLIN };

	return poll(&end, 1, wait_ms) > 0;
}

int push_waiting(struct push_endpoint *endpoint, const struct pusher_options *options, struct push_queue *queue,
		 int end_fd, struct push_counts *counts, struct reason *why)
{
	uint64_t vanished = 0;
	int err = push_queue__scan(queue, &vanished, why);
	size_t at = 0;

	counts->given_up += vanished;
	if (vanished)
		log_line(LOG_WARNING, "push: %" PRIu64 " snapshot%s removed before %s pushed", vanished,
			 vanished == 1 ? " was" : "s were", vanished == 1 ? "it was" : "they were");
	err = err ?: give_up_oldest(options, queue, counts, why);
	counts->waiting = push_queue__nr(queue);
	while (!err && at < push_queue__nr(queue) && !wait_for_end(end_fd, 0)) {
		err = push_endpoint__takes_files(endpoint) ? push_next_files(endpoint, options, queue, &at, counts, why) :
							     push_next(endpoint, options, queue, &at, counts, why);
		counts->waiting = push_queue__nr(queue);
	}
	if (!err && !at)
		counts->has_unread = false;
	return err < 0 ? err : 0;
}

/* ---- a folder that grows ---------------------------------------------------------------------------- */

/* Opens the queue if it is not open, and pushes. What fails is counted, and logged if it did not fail before. */
static int push_pass(struct push_endpoint *endpoint, const struct pusher_options *options,
		     const struct push_watch *watch, struct push_queue **queue, struct push_counts *counts)
{
	struct reason why = { "out of memory" };
	int err = 0;

	if (!*queue) {
		*queue = push_queue__open(watch->folder, options->endpoint.url, &why);
		err = *queue ? 0 : -errno ?: -ENOMEM;
	}
	err = err ?: push_waiting(endpoint, options, *queue, watch->end_fd, counts, &why);
	if (err)
		note_failure(counts, &counts->is_failing, NULL, why.text);
	else if (!push_queue__nr(*queue))
		counts->is_failing = false; /* nothing is left that could fail */
	watch->after_pass(counts, watch->what);
	return err;
}

/* Pushes what waits at the end, as far as it goes in a few seconds. */
static int push_last(struct push_endpoint *endpoint, const struct pusher_options *options,
		     const struct push_watch *watch, struct push_queue **queue, struct push_counts *counts)
{
	const struct itimerspec later = { .it_value.tv_sec = LAST_SECONDS };
	struct push_watch last = *watch;
	int err;

	last.end_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	counts->is_up = false;
	if (last.end_fd < 0 || timerfd_settime(last.end_fd, 0, &later, NULL))
		return -errno;
	push_endpoint__set_timeout(endpoint, LAST_TIMEOUT_NS);
	err = push_pass(endpoint, options, &last, queue, counts);
	close(last.end_fd);
	return err;
}

int push_while_open(struct push_endpoint *endpoint, const struct pusher_options *options,
		    const struct push_watch *watch, struct push_counts *counts)
{
	struct push_queue *queue = NULL;
	int wait_ms = 0, err;

	counts->is_up = true;
	while (!wait_for_end(watch->end_fd, wait_ms)) {
		push_pass(endpoint, options, watch, &queue, counts);
		wait_ms = counts->is_failing && wait_ms ? wait_ms * 2 : EVERY_MS;
		if (wait_ms > RETRY_MOST_MS)
			wait_ms = RETRY_MOST_MS;
	}
	err = push_last(endpoint, options, watch, &queue, counts);
	push_queue__close(queue);
	return err;
}
