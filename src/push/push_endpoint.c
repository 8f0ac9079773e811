// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "push/push_endpoint.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "formats/otlp.h"
#include "push/http_client.h"
#include "push/libcurl.h"

#define METRIC_NAME "memory" /* what Go's agents call heap profiles */
#define TEXT_MAX 256

/* ---- texts ------------------------------------------------------------------------------------------ */

static char *base64(const uint8_t *bytes, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = malloc((len + 2) / 3 * 4 + 1), *at = text;

	for (size_t i = 0; text && i < len; i += 3) {
		uint32_t three = bytes[i] << 16 | (i + 1 < len ? bytes[i + 1] << 8 : 0) | (i + 2 < len ? bytes[i + 2] : 0);

		*at++ = digits[three >> 18];
		*at++ = digits[three >> 12 & 63];
		*at++ = i + 1 < len ? digits[three >> 6 & 63] : '=';
		*at++ = i + 2 < len ? digits[three & 63] : '=';
	}
	if (text)
		*at = '\0';
	return text;
}

/* Names of labels have letters, digits and underscores. */
static const char *label_name(char name[TEXT_MAX], const char *text)
{
	snprintf(name, TEXT_MAX, "%s%s", isdigit((unsigned char)*text) ? "_" : "", text);
	for (char *c = name; *c; c++)
		if (!isalnum((unsigned char)*c))
			*c = '_';
	return name;
}

/* Servers refuse a series with two labels of one name: of the profile's the first stays, and none that is the service's. */
static bool is_label_used(const struct push_profile *profile, size_t at)
{
	char name[TEXT_MAX], other[TEXT_MAX];
	bool is_used;

	label_name(name, profile->label[at].name);
	is_used = !*name || !strcmp(name, "service_name") || !strcmp(name, "__name__");
	for (size_t i = 0; i < at && !is_used; i++)
		is_used = !strcmp(name, label_name(other, profile->label[i].name));
	return is_used;
}

/* A version 4 UUID. */
static const char *random_uuid(char uuid[37])
{
	uint8_t b[16] = {};

	if (getrandom(b, sizeof(b), 0) < 0)
		b[0] = 0; /* the id tells profiles of one request apart: there is one */
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	snprintf(uuid, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
		 b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
	return uuid;
}

/* ---- JSON ------------------------------------------------------------------------------------------- */

static json_t *label_json(const char *name, const char *value)
{
	char clean_name[TEXT_MAX], clean[TEXT_MAX];

	return json_pack("{s:s,s:s}", "name", label_name(clean_name, name), "value",
			 clean_text(clean, sizeof(clean), value));
}

static json_t *labels_json(const struct push_profile *profile)
{
	json_t *labels = json_array();
	int failed = json_array_append_new(labels, json_pack("{s:s,s:s}", "name", "__name__", "value", METRIC_NAME));

	failed |= json_array_append_new(labels, label_json("service_name", profile->service));
	for (size_t i = 0; i < profile->label_nr; i++)
		if (!is_label_used(profile, i))
			failed |= json_array_append_new(labels, label_json(profile->label[i].name, profile->label[i].value));
	if (!failed)
		return labels;
	json_decref(labels);
	return NULL;
}

/* Takes the body, also on failure. */
static int set_json(struct push_request *request, const char *url, json_t *body)
{
	request->own_body = body ? json_dumps(body, JSON_COMPACT) : NULL;
	request->url = strdup(url);
	json_decref(body);
	if (!request->own_body || !request->url)
		return -ENOMEM;
	request->content_type = "application/json";
	request->body = request->own_body;
	request->body_len = strlen(request->own_body);
	return 0;
}

/* Pyroscope: its Connect API, with JSON. */
static int make_connect(struct push_request *request, const char *url, const struct push_profile *profile)
{
	char *raw = base64(profile->bytes, profile->len), uuid[37];
	json_t *labels = labels_json(profile);
	json_t *body = raw && labels ? json_pack("{s:[{s:O,s:[{s:s,s:s}]}]}", "series", "labels", labels, "samples",
						 "ID", random_uuid(uuid), "rawProfile", raw) : NULL;

	free(raw);
	json_decref(labels);
	return set_json(request, url, body);
}

/* Parca: WriteRaw, by its HTTP mapping. Addresses are offsets in files ("normalized"). */
static int make_writeraw(struct push_request *request, const char *url, const struct push_profile *profile)
{
	char *raw = base64(profile->bytes, profile->len);
	json_t *labels = labels_json(profile);
	json_t *body = raw && labels ? json_pack("{s:[{s:{s:O},s:[{s:s}]}],s:b}", "series", "labels", "labels", labels,
						 "samples", "rawProfile", raw, "normalized", 1) : NULL;

	free(raw);
	json_decref(labels);
	return set_json(request, url, body);
}

/* ---- /ingest ---------------------------------------------------------------------------------------- */

/* The service, then names and values of labels, a line each. */
static char *series_name(const struct push_profile *profile)
{
	char name[TEXT_MAX], clean[TEXT_MAX], *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	fputs(clean_text(clean, sizeof(clean), profile->service), out);
	for (size_t i = 0; i < profile->label_nr; i++)
		if (!is_label_used(profile, i))
			fprintf(out, "\n%s\n%s", label_name(name, profile->label[i].name),
				clean_text(clean, sizeof(clean), profile->label[i].value));
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

/*
 * Turns these lines into "shopd{host=web-1,version=1.3}". Characters that would end a name or a value become '_'. Frees
 * the lines.
 */
static char *join_series_name(char *lines)
{
	char *text = lines && asprintf(&text, "%s}", lines) >= 0 ? text : NULL;
	size_t line = 0;

	free(lines);
	for (char *c = text; c && c[1]; c++) {
		if (*c == '\n')
			*c = !line++ ? '{' : line % 2 ? ',' : '=';
		else if (strchr("{},=\"\\&\r", *c))
			*c = '_';
	}
	if (text && !line)
		text[strlen(text) - 1] = '\0';
	return text;
}

/* Pyroscope, the older API: the profile is the body, and the rest is in the URL. */
static int make_ingest(struct push_request *request, const char *url, const struct push_profile *profile)
{
	char *name = join_series_name(series_name(profile));
	char *escaped = name && !libcurl_load(NULL) ? libcurl.curl_easy_escape(NULL, name, 0) : NULL;
	int err = -ENOMEM;

	if (escaped && asprintf(&request->url, "%s?name=%s&from=%" PRIu64 "&until=%" PRIu64 "&format=pprof&spyName=allocsnap",
				url, escaped, profile->from_s, profile->until_s) >= 0)
		err = 0;
	else
		request->url = NULL;
	free(name);
	if (escaped)
		libcurl.curl_free(escaped);
	request->content_type = "application/octet-stream";
	request->body = (void *)profile->bytes;
	request->body_len = profile->len;
	return err;
}

/* ---- OTLP ------------------------------------------------------------------------------------------- */

/* The profiles signal of OpenTelemetry, by HTTP. */
static int make_otlp(struct push_request *request, const char *url, const struct push_profile *profile)
{
	struct byte_buffer pprof = {}, body = {};
	char service[TEXT_MAX];
	int err = gzip_expand(profile->bytes, profile->len, SIZE_MAX, &pprof) ?:
		  otlp_from_pprof(pprof.byte, pprof.byte_nr, clean_text(service, sizeof(service), profile->service), &body);

	buffer_release(&pprof);
	request->url = strdup(url);
	request->content_type = "application/x-protobuf";
	request->own_body = (char *)body.byte;
	request->body = body.byte;
	request->body_len = body.byte_nr;
	return request->url ? err : -ENOMEM;
}

/* ---- the protocols ---------------------------------------------------------------------------------- */

static const struct push_protocol protocols[] = {
	{ "/push.v1.PusherService/Push", make_connect },
	{ "/ingest", make_ingest },
	{ "/profiles/writeraw", make_writeraw },
	{ OTLP_PROFILES_PATH, make_otlp, .may_reject_in_answer = true },
};

const struct push_protocol *push_protocol_of(const char *url)
{
	size_t len = strlen(url);

	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		size_t path_len = strlen(protocols[i].path);

		if (len > path_len && !strcmp(url + len - path_len, protocols[i].path))
			return &protocols[i];
	}
	return NULL;
}

void push_request_release(struct push_request *request)
{
	free(request->url);
	free(request->own_body);
	*request = (struct push_request){};
}

/* ---- the URL ---------------------------------------------------------------------------------------- */

#define ANSWER_MAX (64 << 10) /* bytes of an answer that are read */
#define SHOWN_MAX 200	      /* of these, that are shown */

struct push_endpoint {
	const struct push_endpoint_options *options;
	const struct push_protocol *protocol;
	struct http_options http;
	struct http_client *client;
	struct push_batch *batch; /* instead of the client */
};

static int refuse_path(const char *url, struct reason *why)
{
	char paths[256] = "";

	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++)
		strcat(strcat(paths, i ? ", " : ""), protocols[i].path);
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

/* A server that has accepted the request may still reject its profiles. */
static enum push_result judge_rejected(const char *url, const struct push_answer *answer, struct reason *why)
{
	const char *text;
	size_t len;

	if (!otlp_rejected(answer->text, answer->len, &text, &len))
		return PUSH_DONE;
	reason_set(why, 0, "%s: the server rejects it: %.*s", url, len < SHOWN_MAX ? (int)len : SHOWN_MAX, text);
	return PUSH_REJECTED;
}

static enum push_result judge_answer(const struct push_endpoint *endpoint, long status, const struct push_answer *answer,
				     struct reason *why)
{
	const char *url = endpoint->options->url;

	if (status >= 200 && status < 300)
		return endpoint->protocol->may_reject_in_answer ? judge_rejected(url, answer, why) : PUSH_DONE;
	reason_set(why, 0, "%s: HTTP status %ld%s%.*s", url, status, answer->len ? ": " : "", SHOWN_MAX, answer->text);
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
		return judge_answer(endpoint, status, &answer, why);
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
