// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "push/push_endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "push/http_client.h"
#include "push/push_request.h"

#define ANSWER_MAX 200 /* bytes of an answer that are shown */

struct push_endpoint {
	const struct push_endpoint_options *options;
	const struct push_protocol *protocol;
	struct http_options http;
	struct http_client *client;
	struct push_batch *batch; /* instead of the client */
};

/* ---- the URL ---------------------------------------------------------------------------------------- */

static int refuse_path(const char *url, struct reason *why)
{
	char paths[256] = "";
	const char *path, *help;

	for (size_t i = 0; push_protocol_at(i, &path, &help); i++)
		strcat(strcat(paths, i ? ", " : ""), path);
	return reason_set(why, -EINVAL, "'%.100s' does not end with the path of an endpoint: %s", url, paths);
}

int push_url_check(const struct push_endpoint_options *options, struct reason *why)
{
	int err = http_url_check(options->url, why);

	return err || options->batch || push_protocol_of(options->url) ? err : refuse_path(options->url, why);
}

/* ---- requests --------------------------------------------------------------------------------------- */

struct push_answer {
	char text[ANSWER_MAX + 1];
	size_t len;
};

/* Takes all of the answer, and keeps its beginning. */
static int keep_answer(void *answer_, const void *bytes, size_t len)
{
	struct push_answer *answer = answer_;
	size_t room = ANSWER_MAX - answer->len;

	memcpy(answer->text + answer->len, bytes, len < room ? len : room);
	answer->len += len < room ? len : room;
	return 0;
}

/* Statuses that are about this profile; others are about the endpoint, the way to it, or who asks. */
static bool is_rejection(long status)
{
	return status == 400 || status == 413 || status == 415 || status == 422;
}

static enum push_result judge_answer(const char *url, long status, const struct push_answer *answer, struct reason *why)
{
	if (status >= 200 && status < 300)
		return PUSH_DONE;
	reason_set(why, 0, "%s: HTTP status %ld%s%s", url, status, answer->len ? ": " : "", answer->text);
	return is_rejection(status) ? PUSH_REJECTED : PUSH_FAILED;
}

static enum push_result send_request(struct push_endpoint *endpoint, const struct push_request *request,
				     struct reason *why)
{
	char type[256], tenant[1024];
	const char *const header[] = { type, tenant };
	struct push_answer answer = {};
	const struct http_request http = {
		.url = request->url, .header = header, .header_nr = endpoint->options->tenant ? 2 : 1,
		.body = request->body, .body_len = request->body_len, .take = keep_answer, .what = &answer,
	};
	struct reason line;
	long status = 0;

	snprintf(type, sizeof(type), "Content-Type: %s", request->content_type);
	snprintf(tenant, sizeof(tenant), "X-Scope-OrgID: %.900s", endpoint->options->tenant ?: "");
	if (!http_client__send(endpoint->client, &http, &status, &line))
		return judge_answer(endpoint->options->url, status, &answer, why);
	reason_set(why, 0, "%s: %s", endpoint->options->url, line.text);
	return PUSH_FAILED;
}

enum push_result push_endpoint__send(struct push_endpoint *endpoint, const struct push_profile *profile,
				     struct reason *why)
{
	struct push_request request = {};
	enum push_result result = PUSH_FAILED;

	if (endpoint->protocol->make(&request, endpoint->options->url, profile))
		reason_set(why, 0, "out of memory");
	else
		result = send_request(endpoint, &request, why);
	push_request_release(&request);
	return result;
}

bool push_endpoint__takes_files(const struct push_endpoint *endpoint)
{
	return endpoint->batch;
}

enum push_result push_endpoint__send_files(struct push_endpoint *endpoint, struct push_file *file, size_t nr,
					   struct reason *why)
{
	return endpoint->options->batch->push(endpoint->batch, file, nr, why);
}

/* ---- the whole -------------------------------------------------------------------------------------- */

static void open_http(struct push_endpoint *endpoint, struct reason *why)
{
	const struct push_endpoint_options *options = endpoint->options;

	endpoint->protocol = push_protocol_of(options->url);
	endpoint->http = (struct http_options){
		.url = options->url, .credentials = options->credentials, .environment = "ALLOCSNAP_PUSH",
		.ca_file = options->ca_file, .timeout_ns = options->timeout_ns ?: PUSH_TIMEOUT_NS,
	};
	endpoint->client = http_client__new(&endpoint->http, why);
}

struct push_endpoint *push_endpoint__new(const struct push_endpoint_options *options, struct reason *why)
{
	struct push_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int err = endpoint ? push_url_check(options, why) : reason_set(why, -ENOMEM, "out of memory");

	if (!err) {
		endpoint->options = options;
		if (options->batch)
			endpoint->batch = options->batch->open(options, why);
		else
			open_http(endpoint, why);
	}
	if (endpoint && (endpoint->client || endpoint->batch))
		return endpoint;
	push_endpoint__free(endpoint);
	return NULL;
}

void push_endpoint__free(struct push_endpoint *endpoint)
{
	if (!endpoint)
		return;
	http_client__free(endpoint->client);
	if (endpoint->batch)
		endpoint->options->batch->close(endpoint->batch);
	free(endpoint);
}

void push_endpoint__set_timeout(struct push_endpoint *endpoint, uint64_t timeout_ns)
{
	if (endpoint->batch)
		endpoint->options->batch->set_timeout(endpoint->batch, timeout_ns);
	else
		http_client__set_timeout(endpoint->client, timeout_ns);
}
