// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "push/push_endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reason.h"
#include "push/libcurl.h"
#include "push/push_request.h"

#define CONNECT_TIMEOUT_MS 10000
#define CREDENTIALS_MAX 16384 /* bytes of the file */
#define CA_FILE_MAX (16 << 20)
#define ANSWER_MAX 200	      /* bytes of an answer that are shown */

#define ENV_TOKEN "ALLOCSNAP_PUSH_TOKEN"
#define ENV_USER "ALLOCSNAP_PUSH_USER"
#define ENV_PASSWORD "ALLOCSNAP_PUSH_PASSWORD"

struct push_endpoint {
	const struct push_endpoint_options *options;
	const struct push_protocol *protocol;
	char *token, *user, *password;
	char *ca; /* the bytes of ca_file */
	size_t ca_len;
	uint64_t timeout_ns;
	bool is_local;
	CURL *curl;
};

/* ---- the URL ---------------------------------------------------------------------------------------- */

/* Whether the host of a checked URL is this machine. A name may begin with "127.", too. */
static bool is_loopback(CURLU *parts)
{
	char *host = NULL;
	struct in_addr address;
	bool is_local = !libcurl.curl_url_get(parts, CURLUPART_HOST, &host, 0);

	if (is_local && inet_pton(AF_INET, host, &address) == 1)
		is_local = ntohl(address.s_addr) >> 24 == 127;
	else if (is_local)
		is_local = !strcasecmp(host, "localhost") || !strcmp(host, "[::1]");
	libcurl.curl_free(host);
	return is_local;
}

static bool has_url_part(CURLU *parts, CURLUPart what)
{
	char *part = NULL;
	bool has = !libcurl.curl_url_get(parts, what, &part, 0) && *part;

	libcurl.curl_free(part);
	return has;
}

static bool is_scheme(CURLU *parts, const char *wanted)
{
	char *scheme = NULL;
	bool is = !libcurl.curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) && !strcmp(scheme, wanted);

	libcurl.curl_free(scheme);
	return is;
}

static int refuse_path(const char *url, struct reason *why)
{
	char paths[256] = "";
	const char *path, *help;

	for (size_t i = 0; push_protocol_at(i, &path, &help); i++)
		strcat(strcat(paths, i ? ", " : ""), path);
	return reason_set(why, -EINVAL, "'%.100s' does not end with the path of an endpoint: %s", url, paths);
}

static int check_url_parts(CURLU *parts, const char *url, struct reason *why)
{
	/* The text is not shown: it has a secret in it. */
	if (has_url_part(parts, CURLUPART_USER) || has_url_part(parts, CURLUPART_PASSWORD))
		return reason_set(why, -EINVAL, "a URL with a user or a password: every user sees command lines; a file "
				  "of credentials is for that");
	if (!is_scheme(parts, "http") && !is_scheme(parts, "https"))
		return reason_set(why, -EINVAL, "'%.100s' begins with neither https:// nor http://", url);
	if (has_url_part(parts, CURLUPART_QUERY) || has_url_part(parts, CURLUPART_FRAGMENT))
		return reason_set(why, -EINVAL, "'%.100s' has a query or a fragment", url);
	return push_protocol_of(url) ? 0 : refuse_path(url, why);
}

int push_url_check(const char *url, struct reason *why)
{
	int err = libcurl_load(why);
	CURLU *parts;

	if (err)
		return err;
	parts = libcurl.curl_url();
	if (!parts)
		return reason_set(why, -ENOMEM, "out of memory");
	if (libcurl.curl_url_set(parts, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME))
		err = reason_set(why, -EINVAL, "not a URL");
	else
		err = check_url_parts(parts, url, why);
	libcurl.curl_url_cleanup(parts);
	return err;
}

/* ---- credentials ------------------------------------------------------------------------------------ */

static void forget(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

static int set_credential(struct push_endpoint *endpoint, char *line)
{
	const struct {
		const char *key;
		char **field;
	} keys[] = {
		{ "token=", &endpoint->token }, { "user=", &endpoint->user }, { "password=", &endpoint->password },
	};

	line[strcspn(line, "\r\n")] = '\0';
	if (!*line || *line == '#')
		return 0;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strncmp(line, keys[i].key, strlen(keys[i].key)))
			continue;
		if (!line[strlen(keys[i].key)])
			return -EINVAL;
		forget(*keys[i].field);
		*keys[i].field = strdup(line + strlen(keys[i].key));
		return *keys[i].field ? 0 : -ENOMEM;
	}
	return -EINVAL;
}

static int parse_credentials(struct push_endpoint *endpoint, FILE *file, const char *path, struct reason *why)
{
	char line[CREDENTIALS_MAX];
	struct stat st;
	int err = 0, nr = 0;

	if (fstat(fileno(file), &st))
		return reason_set(why, -errno, "%s: %s", path, strerror(errno));
	if (st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP))
		return reason_set(why, -EACCES, "%s: other users can read or change it: chmod 600", path);
	while (!err && fgets(line, sizeof(line), file)) {
		nr++;
		err = set_credential(endpoint, line);
	}
	explicit_bzero(line, sizeof(line));
	if (ferror(file))
		return reason_set(why, -EIO, "%s: %s", path, strerror(errno));
	if (err == -EINVAL)
		return reason_set(why, err, "%s: line %d is not token=…, user=… or password=…", path, nr);
	return err ? reason_set(why, err, "out of memory") : 0;
}

static int read_credentials(struct push_endpoint *endpoint, const char *path, struct reason *why)
{
	FILE *file = fopen(path, "re");
	int err;

	if (!file)
		return reason_set(why, -errno, "%s: %s", path, strerror(errno));
	err = parse_credentials(endpoint, file, path, why);
	fclose(file);
	return err;
}

static int copy_environment(char **field, const char *name)
{
	const char *value = getenv(name);

	*field = value && *value ? strdup(value) : NULL; /* an empty one is none */
	return value && *value && !*field ? -ENOMEM : 0;
}

static int find_credentials(struct push_endpoint *endpoint, struct reason *why)
{
	if (endpoint->options->credentials)
		return read_credentials(endpoint, endpoint->options->credentials, why);
	if (copy_environment(&endpoint->token, ENV_TOKEN) || copy_environment(&endpoint->user, ENV_USER) ||
	    copy_environment(&endpoint->password, ENV_PASSWORD))
		return reason_set(why, -ENOMEM, "out of memory");
	return 0;
}

/* Anyone on the way could read them. */
static int check_transport(struct push_endpoint *endpoint, struct reason *why)
{
	CURLU *parts = libcurl.curl_url();
	bool is_url = parts && !libcurl.curl_url_set(parts, CURLUPART_URL, endpoint->options->url, 0);
	bool is_plain = !is_url || is_scheme(parts, "http");

	endpoint->is_local = is_url && is_loopback(parts);
	libcurl.curl_url_cleanup(parts);
	if (endpoint->password && !endpoint->user)
		return reason_set(why, -EINVAL, "a password, but no user");
	if (is_plain && !endpoint->is_local && (endpoint->token || endpoint->user))
		return reason_set(why, -EINVAL, "credentials go over https only, or to this machine");
	return 0;
}

/* ---- certificates ----------------------------------------------------------------------------------- */

/* They are read once: the process that pushes may lack the right to read them later. */
static int read_certificates(struct push_endpoint *endpoint, struct reason *why)
{
	const char *path = endpoint->options->ca_file;
	FILE *file = path ? fopen(path, "re") : NULL;
	int err = 0;

	if (!path)
		return 0;
	if (!file)
		return reason_set(why, -errno, "%s: %s", path, strerror(errno));
	endpoint->ca = malloc(CA_FILE_MAX);
	if (!endpoint->ca)
		err = reason_set(why, -ENOMEM, "out of memory");
	else
		endpoint->ca_len = fread(endpoint->ca, 1, CA_FILE_MAX, file);
	if (!err && ferror(file))
		err = reason_set(why, -EIO, "%s: %s", path, strerror(errno));
	else if (!err && (!endpoint->ca_len || endpoint->ca_len == CA_FILE_MAX))
		err = reason_set(why, -EINVAL, "%s: %s", path, endpoint->ca_len ? "too large for certificates" : "empty");
	fclose(file);
	return err;
}

/* ---- requests --------------------------------------------------------------------------------------- */

struct push_answer {
	char text[ANSWER_MAX + 1];
	size_t len;
};

/* Takes all of the answer, and keeps its beginning. */
static size_t keep_answer(char *bytes, size_t size, size_t nr, void *answer_)
{
	struct push_answer *answer = answer_;
	size_t room = ANSWER_MAX - answer->len, len = size * nr;

	memcpy(answer->text + answer->len, bytes, len < room ? len : room);
	answer->len += len < room ? len : room;
	return len;
}

static struct curl_slist *make_headers(const struct push_endpoint *endpoint, const struct push_request *request)
{
	char line[1024];
	struct curl_slist *headers = NULL;

	snprintf(line, sizeof(line), "Content-Type: %s", request->content_type);
	headers = libcurl.curl_slist_append(headers, line);
	headers = libcurl.curl_slist_append(headers, "Expect:"); /* no round trip before the body */
	if (endpoint->options->tenant) {
		snprintf(line, sizeof(line), "X-Scope-OrgID: %.900s", endpoint->options->tenant);
		headers = libcurl.curl_slist_append(headers, line);
	}
	return headers;
}

static void set_credentials(const struct push_endpoint *endpoint)
{
	CURL *curl = endpoint->curl;

	if (endpoint->token) {
		libcurl.curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
		libcurl.curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, endpoint->token);
	} else if (endpoint->user) {
		libcurl.curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		libcurl.curl_easy_setopt(curl, CURLOPT_USERNAME, endpoint->user);
		libcurl.curl_easy_setopt(curl, CURLOPT_PASSWORD, endpoint->password ?: "");
	}
}

/* A proxy of the environment is no part of this machine. */
static CURLcode set_transport(const struct push_endpoint *endpoint)
{
	struct curl_blob ca = { endpoint->ca, endpoint->ca_len, CURL_BLOB_NOCOPY };
	CURLcode code = CURLE_OK;

	if (endpoint->is_local)
		code = libcurl.curl_easy_setopt(endpoint->curl, CURLOPT_NOPROXY, "*");
	if (!code && endpoint->ca)
		code = libcurl.curl_easy_setopt(endpoint->curl, CURLOPT_CAINFO_BLOB, &ca);
	return code;
}

/* The connection stays open from one request to the next; the options do not. */
static CURLcode set_request(const struct push_endpoint *endpoint, const struct push_request *request,
			struct push_answer *answer)
{
	CURL *curl = endpoint->curl;
	uint64_t timeout_ms = endpoint->timeout_ns / 1000000;

	libcurl.curl_easy_reset(curl);
	libcurl.curl_easy_setopt(curl, CURLOPT_URL, request->url);
	libcurl.curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	libcurl.curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	libcurl.curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
	libcurl.curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
			 (long)(timeout_ms < CONNECT_TIMEOUT_MS ? timeout_ms : CONNECT_TIMEOUT_MS));
	libcurl.curl_easy_setopt(curl, CURLOPT_USERAGENT, "allocsnap/" ALLOCSNAP_VERSION);
	libcurl.curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
	libcurl.curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
	libcurl.curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep_answer);
	libcurl.curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
	set_credentials(endpoint);
	return set_transport(endpoint);
}

/* Statuses that are about this profile; others are about the endpoint, the way to it, or who asks. */
static bool is_rejection(long status)
{
	return status == 400 || status == 413 || status == 415 || status == 422;
}

static enum push_result judge_answer(long status, const struct push_answer *answer, struct reason *why)
{
	if (status >= 200 && status < 300)
		return PUSH_DONE;
	reason_set(why, 0, "HTTP status %ld%s%s", status, answer->len ? ": " : "", answer->text);
	return is_rejection(status) ? PUSH_REJECTED : PUSH_FAILED;
}

static enum push_result send_request(struct push_endpoint *endpoint, const struct push_request *request,
				     struct reason *why)
{
	struct curl_slist *headers = make_headers(endpoint, request);
	struct push_answer answer = {};
	long status = 0;
	CURLcode code;

	code = set_request(endpoint, request, &answer);
	libcurl.curl_easy_setopt(endpoint->curl, CURLOPT_HTTPHEADER, headers);
	code = code ?: libcurl.curl_easy_perform(endpoint->curl);
	libcurl.curl_slist_free_all(headers);
	if (code) {
		reason_set(why, 0, "%s", libcurl.curl_easy_strerror(code));
		return PUSH_FAILED;
	}
	libcurl.curl_easy_getinfo(endpoint->curl, CURLINFO_RESPONSE_CODE, &status);
	return judge_answer(status, &answer, why);
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

/* ---- the whole -------------------------------------------------------------------------------------- */

struct push_endpoint *push_endpoint__new(const struct push_endpoint_options *options, struct reason *why)
{
	struct push_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	int err = endpoint ? push_url_check(options->url, why) : reason_set(why, -ENOMEM, "out of memory");

	if (!err) {
		endpoint->options = options;
		endpoint->protocol = push_protocol_of(options->url);
		endpoint->timeout_ns = options->timeout_ns ?: PUSH_TIMEOUT_NS;
		err = find_credentials(endpoint, why) ?: check_transport(endpoint, why) ?:
		      read_certificates(endpoint, why);
	}
	if (!err) {
		endpoint->curl = libcurl.curl_easy_init();
		err = endpoint->curl ? 0 : reason_set(why, -ENOMEM, "out of memory");
	}
	if (!err)
		return endpoint;
	push_endpoint__free(endpoint);
	return NULL;
}

void push_endpoint__free(struct push_endpoint *endpoint)
{
	if (!endpoint)
		return;
	if (endpoint->curl)
		libcurl.curl_easy_cleanup(endpoint->curl);
	forget(endpoint->token);
	forget(endpoint->user);
	forget(endpoint->password);
	free(endpoint->ca);
	free(endpoint);
}

void push_endpoint__set_timeout(struct push_endpoint *endpoint, uint64_t timeout_ns)
{
	endpoint->timeout_ns = timeout_ns;
}
