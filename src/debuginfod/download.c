// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "debuginfod/download.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/reason.h"
#include "push/libcurl.h"
#include "sandbox/seccomp.h"

#define CONNECT_S 10l
#define REDIRECTS_MAX 5l
#define STALL_BYTES (100 << 10)

struct download {
	const struct download_order *order;
	struct channel channel;
	int fd;
	uint64_t done;
	bool is_too_large;
	int write_error;
};

/* ---- libcurl's calls -------------------------------------------------------------------------------- */

static size_t write_download(char *bytes, size_t size, size_t nr, void *download_)
{
	struct download *download = download_;
	size_t len = size * nr, written = 0;

	download->is_too_large = len > download->order->most_bytes - download->done;
	while (!download->is_too_large && !download->write_error && written < len) {
		ssize_t n = write(download->fd, bytes + written, len - written);

		if (n < 0)
			download->write_error = errno;
		else
			written += n;
	}
	download->done += written;
	return written;
}

/* At least once a second, also when nothing comes. A recorder that is gone ends the transfer. */
static int tell_progress(void *download_, curl_off_t all, curl_off_t, curl_off_t, curl_off_t)
{
	struct download *download = download_;
	struct download_progress progress = { download->done, all > 0 ? all : 0 };

	return channel__send(&download->channel, DOWNLOADING, &(struct iovec){ &progress, sizeof(progress) }, 1, -1);
}

/* ---- one file --------------------------------------------------------------------------------------- */

static void set_options(CURL *curl, struct download *download)
{
	const struct download_order *order = download->order;
	bool is_https = !strncmp(order->url, "https:", strlen("https:"));

	libcurl.curl_easy_setopt(curl, CURLOPT_URL, order->url);
	libcurl.curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	libcurl.curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, is_https ? "https" : "http,https");
	libcurl.curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1l);
	libcurl.curl_easy_setopt(curl, CURLOPT_MAXREDIRS, REDIRECTS_MAX);
	libcurl.curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1l);
	libcurl.curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1l);
	libcurl.curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	libcurl.curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)order->most_s);
	libcurl.curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)order->stall_s);
	libcurl.curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, (long)(STALL_BYTES / order->stall_s) + 1);
	libcurl.curl_easy_setopt(curl, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)order->most_bytes);
	libcurl.curl_easy_setopt(curl, CURLOPT_USERAGENT, "allocsnap/" ALLOCSNAP_VERSION);
	libcurl.curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, write_download);
	libcurl.curl_easy_setopt(curl, CURLOPT_WRITEDATA, download);
	libcurl.curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0l);
	libcurl.curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, tell_progress);
	libcurl.curl_easy_setopt(curl, CURLOPT_XFERINFODATA, download);
}

/* The reader of the file checks it again. This check keeps what is wrong out of the cache. */
static void check_download(const struct download *download, struct download_result *ret)
{
	const struct download_order *order = download->order;
	char magic[4] = "";

	if (debug_file__has_build_id(download->fd, order->build_id, order->build_id_len))
		return;
	ret->end = DOWNLOAD_FAILED;
	if (pread(download->fd, magic, sizeof(magic), 0) != sizeof(magic) || memcmp(magic, "\177ELF", sizeof(magic)))
		snprintf(ret->why, sizeof(ret->why), "what it sent is no ELF file");
	else
		snprintf(ret->why, sizeof(ret->why), "what it sent does not have the build-id that was asked for");
}

static void describe_failure(const struct download *download, CURL *curl, CURLcode code, struct download_result *ret)
{
	long status = 0;

	libcurl.curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	ret->end = DOWNLOAD_FAILED;
	if (download->is_too_large || code == CURLE_FILESIZE_EXCEEDED)
		ret->end = DOWNLOAD_TOO_LARGE;
	else if (code == CURLE_HTTP_RETURNED_ERROR && (status == 404 || status == 410))
		ret->end = DOWNLOAD_NONE;
	else if (code == CURLE_HTTP_RETURNED_ERROR)
		snprintf(ret->why, sizeof(ret->why), "it answers with status %ld", status);
	else if (download->write_error)
		snprintf(ret->why, sizeof(ret->why), "the file cannot be written: %s", strerror(download->write_error));
	else if (code == CURLE_OPERATION_TIMEDOUT && download->done)
		snprintf(ret->why, sizeof(ret->why), "too slow: %" PRIu64 " KiB came in the time that a file has",
			 download->done >> 10);
	else
		snprintf(ret->why, sizeof(ret->why), "%s", libcurl.curl_easy_strerror(code));
}

static void download_file(struct download *download, struct download_result *ret)
{
	struct reason why;
	CURL *curl = libcurl_load(&why) ? NULL : libcurl.curl_easy_init();
	CURLcode code;

	if (!curl) {
		ret->end = DOWNLOAD_FAILED;
		snprintf(ret->why, sizeof(ret->why), "%.240s", libcurl.curl_easy_init ? "out of memory" : why.text);
		return;
	}
	set_options(curl, download);
	code = libcurl.curl_easy_perform(curl);
	if (code)
		describe_failure(download, curl, code, ret);
	else
		check_download(download, ret);
	libcurl.curl_easy_cleanup(curl);
}

/* ---- the process ------------------------------------------------------------------------------------ */

static int serve_downloads(void *most_bytes, int)
{
	const struct channel channel = { .fd = CHILD_FD };
	int err = confine_to_downloads(*(const uint64_t *)most_bytes), fd;
	struct download_order order;

	elf_version(EV_CURRENT);
	while (!err && !channel__answer(&channel, DOWNLOAD, &order, sizeof(order), &fd)) {
		struct download download = { .order = &order, .channel = channel, .fd = fd };
		struct download_result result = {};

		if (*order.url)
			download_file(&download, &result);
		else
			check_download(&download, &result);
		close(fd);
		err = channel__send(&channel, DOWNLOADED, &(struct iovec){ &result, sizeof(result) }, 1, -1);
	}
	return err;
}

int download_helper_start(const uint64_t *most_bytes, struct helper *ret)
{
	return helper__start(&(struct helper_plan){
		.name = "allocsnap-fetch",
		.shown = "allocsnap: asks debuginfod servers, without privileges",
		.is_killed = true,
		.give_up = confine_drop_rights,
		.work = serve_downloads,
		.self = (void *)most_bytes,
	}, ret);
}
