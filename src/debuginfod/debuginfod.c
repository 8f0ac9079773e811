// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "debuginfod/debuginfod.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file_replace.h"
#include "base/progress.h"
#include "base/units.h"
#include "debuginfod/cache.h"
#include "debuginfod/download.h"

#define STALL_S 90	      /* libdebuginfod's default */
#define FILE_S 600
#define FILE_BYTES (2ull << 30)
#define ALL_BYTES (8ull << 30) /* of one command */
#define TROUBLES_MAX 16
#define SPARE_S 30 /* beyond the time that the process has */

struct server {
	char *url;
	bool is_left;
};

/* A file that was asked for. */
struct asked {
	enum fetched_file which;
	char build_id[2 * BUILD_ID_MAX + 1];
};

struct debuginfod {
	struct debug_fetcher fetcher;
	struct helper helper;
	struct server *server;
	size_t server_nr, server_alloc;
	struct asked *asked;
	size_t asked_nr, asked_alloc;
	uint32_t stall_s, most_s;
	uint64_t most_bytes;
	int cache_fd; /* -1: nothing is kept */
	struct debuginfod_counts counts;
	struct reason trouble[TROUBLES_MAX];
	size_t trouble_nr, told_nr;
};

__attribute__((format(printf, 2, 3)))
static void add_trouble(struct debuginfod *debuginfod, const char *fmt, ...)
{
	struct reason line;
	va_list args;

	if (debuginfod->trouble_nr == TROUBLES_MAX)
		return;
	va_start(args, fmt);
	vsnprintf(line.text, sizeof(line.text), fmt, args);
	va_end(args);
	reason_set(&debuginfod->trouble[debuginfod->trouble_nr++], 0, "debuginfod: %.490s", line.text);
}

/* ---- one file from one server ------------------------------------------------------------------------- */

static const char *const file_names[] = { [FETCHED_DEBUG_FILE] = "debuginfo", [FETCHED_OBJECT] = "executable" };

static int receive_result(struct debuginfod *debuginfod, struct download_result *ret)
{
	struct progress progress = progress_begin("fetching a debug file", NULL, 0);
	struct download_progress so_far;
	struct message head;
	int err;

	while (!(err = channel__head(&debuginfod->helper.channel, &head, NULL)) && head.kind == DOWNLOADING &&
	       head.bytes == sizeof(so_far) &&
	       !(err = channel__receive(&debuginfod->helper.channel, &so_far, sizeof(so_far)))) {
		progress.all = so_far.all;
		progress_show(&progress, so_far.done);
		if (monotonic_now_ns() > debuginfod->helper.channel.until_ns)
			break;
	}
	progress_end(&progress);
	if (!err && (head.kind != DOWNLOADED || head.bytes != sizeof(*ret)))
		err = -EPROTO;
	err = err ?: channel__receive(&debuginfod->helper.channel, ret, sizeof(*ret));
	if (!err)
		ret->why[sizeof(ret->why) - 1] = '\0';
	return err;
}

/* The URL without user and password. */
static const char *shown_url(const struct server *server)
{
	const char *at = strrchr(server->url, '@');

	return at ? at + 1 : server->url;
}

static void leave_server(struct debuginfod *debuginfod, struct server *server, const char *why)
{
	server->is_left = true;
	add_trouble(debuginfod, "%.200s: %s; it is asked no more", shown_url(server), why);
}

static bool download_from(struct debuginfod *debuginfod, struct server *server, struct download_order *order,
			  const struct asked *what, int fd)
{
	struct download_result result = { .end = DOWNLOAD_FAILED, .why = "the process that asks servers has ended" };
	char size[UNIT_TEXT_MAX];

	snprintf(order->url, sizeof(order->url), "%s/buildid/%s/%s", server->url, what->build_id, file_names[what->which]);
	debuginfod->helper.channel.until_ns = monotonic_now_ns() + (order->most_s + SPARE_S) * SECOND_NS;
	if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET) ||
	    channel__send(&debuginfod->helper.channel, DOWNLOAD, &(struct iovec){ order, sizeof(*order) }, 1, fd) ||
	    receive_result(debuginfod, &result))
		channel__close(&debuginfod->helper.channel);
	if (result.end == DOWNLOAD_TOO_LARGE)
		add_trouble(debuginfod, "%.200s: the file for build-id %s has more than %s, and is left out (DEBUGINFOD_MAXSIZE)",
			    shown_url(server), what->build_id, format_size(size, order->most_bytes, false));
	else if (result.end != DOWNLOAD_NONE && result.end != DOWNLOAD_DONE)
		leave_server(debuginfod, server, result.why);
	return result.end == DOWNLOAD_DONE;
}

/* ---- files -------------------------------------------------------------------------------------------- */

static bool download(struct debuginfod *debuginfod, const struct asked *what, const uint8_t *build_id, size_t len, int fd)
{
	uint64_t left = ALL_BYTES - debuginfod->counts.bytes;
	struct download_order order = {
		.build_id_len = len, .stall_s = debuginfod->stall_s, .most_s = debuginfod->most_s,
		.most_bytes = debuginfod->most_bytes < left ? debuginfod->most_bytes : left,
	};
	struct stat st;
	bool is_here = false;

	if (!left) {
		add_trouble(debuginfod, "the files have 8 GiB: no more is fetched");
		channel__close(&debuginfod->helper.channel);
	}
	memcpy(order.build_id, build_id, len);
	for (size_t i = 0; i < debuginfod->server_nr && !is_here; i++)
		if (!debuginfod->server[i].is_left && debuginfod->helper.channel.fd >= 0)
			is_here = download_from(debuginfod, &debuginfod->server[i], &order, what, fd);
	if (is_here && !fstat(fd, &st)) {
		debuginfod->counts.fetched++;
		debuginfod->counts.bytes += st.st_size;
	}
	return is_here;
}

/* No file is downloaded twice: a reader that opens an object again gets the file from the cache. */
static bool is_asked_again(struct debuginfod *debuginfod, const struct asked *what)
{
	if (array_any(debuginfod->asked_nr, i, debuginfod->asked[i].which == what->which &&
		      !strcmp(debuginfod->asked[i].build_id, what->build_id)))
		return true;
	return array_push(debuginfod, asked, *what);
}

/* libdebuginfod keeps what it gets, whatever that is. If the process does not answer, the reader of the file finds out. */
static bool is_right_file(struct debuginfod *debuginfod, const uint8_t *build_id, size_t len, int fd)
{
	struct download_order order = { .build_id_len = len };
	struct download_result result = {};

	memcpy(order.build_id, build_id, len);
	debuginfod->helper.channel.until_ns = monotonic_now_ns() + SPARE_S * SECOND_NS;
	if (debuginfod->helper.channel.fd >= 0 &&
	    (channel__send(&debuginfod->helper.channel, DOWNLOAD, &(struct iovec){ &order, sizeof(order) }, 1, fd) ||
	     receive_result(debuginfod, &result)))
		channel__close(&debuginfod->helper.channel);
	return result.end != DOWNLOAD_FAILED;
}

/* A descriptor for reading; -1: no server has the file. */
static int get_file(struct debuginfod *debuginfod, const struct asked *what, const uint8_t *build_id, size_t len)
{
	struct cache_place place;
	int fd = cache_find(debuginfod->cache_fd, what->build_id, file_names[what->which]), err;
	bool is_again = is_asked_again(debuginfod, what);

	if (fd >= 0 && !is_again && !is_right_file(debuginfod, build_id, len, fd)) {
		add_trouble(debuginfod, "the cache has a wrong file for build-id %s", what->build_id);
		close(fd);
		fd = -1;
	}
	debuginfod->counts.cached += fd >= 0 && !is_again;
	if (fd >= 0 || is_again)
		return fd;
	err = cache_begin(&place, debuginfod->cache_fd, what->build_id, file_names[what->which]);
	if (err)
		add_trouble(debuginfod, "no room for what comes in %s: %s", place.is_kept ? "the cache" : CACHE_TEMPORARY,
			    strerror(-err));
	else if (download(debuginfod, what, build_id, len, place.file.fd))
		fd = cache_end(&place);
	cache_leave(&place);
	return fd;
}

static int fetch_file(void *debuginfod_, enum fetched_file which, const uint8_t *build_id, size_t len)
{
	struct debuginfod *debuginfod = debuginfod_;
	struct asked what = { .which = which };

	if (len < BUILD_ID_MIN || len > BUILD_ID_MAX)
		return -1;
	for (size_t i = 0; i < len; i++)
		sprintf(what.build_id + 2 * i, "%02x", build_id[i]);
	return get_file(debuginfod, &what, build_id, len);
}

/* ---- the environment ---------------------------------------------------------------------------------- */

static uint64_t number_of(const char *name, uint64_t otherwise, uint64_t most)
{
	const char *text = getenv(name);
	uint64_t number = text ? strtoull(text, NULL, 10) : 0;

	return !number ? otherwise : number < most ? number : most;
}

static int read_urls(struct debuginfod *debuginfod, const char *urls)
{
	static const char gaps[] = " \t\n";
	int err = 0;

	for (urls += strspn(urls, gaps); *urls && !err; urls += strspn(urls, gaps)) {
		size_t len = strcspn(urls, gaps);
		struct server server = { .url = strndup(urls, len) };

		urls += len;
		while (server.url && len && server.url[len - 1] == '/')
			server.url[--len] = '\0';
		err = server.url ? array_push(debuginfod, server, server) : -ENOMEM;
		if (err)
			free(server.url);
	}
	return err;
}

int debuginfod__open(struct debuginfod **ret, struct reason *why)
{
	const char *urls = getenv("DEBUGINFOD_URLS");
	struct debuginfod *debuginfod;
	struct reason unkept;
	int err;

	*ret = NULL;
	if (!urls || !urls[strspn(urls, " \t\n")])
		return 0;
	debuginfod = calloc(1, sizeof(*debuginfod));
	if (!debuginfod)
		return reason_set(why, -ENOMEM, "out of memory");
	debuginfod->fetcher = (struct debug_fetcher){ fetch_file, debuginfod };
	debuginfod->stall_s = number_of("DEBUGINFOD_TIMEOUT", STALL_S, FILE_S);
	debuginfod->most_s = number_of("DEBUGINFOD_MAXTIME", FILE_S, 86400);
	debuginfod->most_bytes = number_of("DEBUGINFOD_MAXSIZE", FILE_BYTES, ALL_BYTES);
	debuginfod->cache_fd = cache_open(&unkept);
	if (debuginfod->cache_fd < 0)
		add_trouble(debuginfod, "what comes is not kept: %s", unkept.text);
	err = read_urls(debuginfod, urls) ?: download_helper_start(&debuginfod->most_bytes, &debuginfod->helper);
	if (!err) {
		*ret = debuginfod;
		return 0;
	}
	debuginfod__close(debuginfod);
	return reason_set(why, err, "cannot start the process that asks debuginfod servers: %s", strerror(-err));
}

void debuginfod__close(struct debuginfod *debuginfod)
{
	if (!debuginfod)
		return;
	if (debuginfod->helper.pid)
		helper__end(&debuginfod->helper, SIGKILL);
	for (size_t i = 0; i < debuginfod->server_nr; i++)
		free(debuginfod->server[i].url);
	if (debuginfod->cache_fd >= 0)
		close(debuginfod->cache_fd);
	free(debuginfod->server);
	free(debuginfod->asked);
	free(debuginfod);
}

const struct debug_fetcher *debuginfod__fetcher(const struct debuginfod *debuginfod)
{
	return debuginfod ? &debuginfod->fetcher : NULL;
}

bool debuginfod__next_trouble(struct debuginfod *debuginfod, struct reason *ret)
{
	if (!debuginfod || debuginfod->told_nr == debuginfod->trouble_nr)
		return false;
	*ret = debuginfod->trouble[debuginfod->told_nr++];
	return true;
}

struct debuginfod_counts debuginfod__counts(const struct debuginfod *debuginfod)
{
	return debuginfod ? debuginfod->counts : (struct debuginfod_counts){};
}
