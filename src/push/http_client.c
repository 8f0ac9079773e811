// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "push/http_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/reason.h"
#include "push/libcurl.h"

#define CONNECT_TIMEOUT_MS 10000
#define CREDENTIALS_MAX 16384 /* bytes of the file */
#define CA_FILE_MAX (16 << 20)

struct http_client {
	const struct http_options *options;
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
	return 0;
}

int http_url_check(const char *url, struct reason *why)
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

static int set_credential(struct http_client *client, char *line)
{
	const struct {
		const char *key;
		char **field;
	} keys[] = {
		{ "token=", &client->token }, { "user=", &client->user }, { "password=", &client->password },
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

static int parse_credentials(struct http_client *client, FILE *file, const char *path, struct reason *why)
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
		err = set_credential(client, line);
	}
	explicit_bzero(line, sizeof(line));
	if (ferror(file))
		return reason_set(why, -EIO, "%s: %s", path, strerror(errno));
	if (err == -EINVAL)
		return reason_set(why, err, "%s: line %d is not token=…, user=… or password=…", path, nr);
	return err ? reason_set(why, err, "out of memory") : 0;
}

static int read_credentials(struct http_client *client, const char *path, struct reason *why)
{
	FILE *file = fopen(path, "re");
	int err;

	if (!file)
		return reason_set(why, -errno, "%s: %s", path, strerror(errno));
	err = parse_credentials(client, file, path, why);
	fclose(file);
	return err;
}

static int copy_environment(const struct http_client *client, char **field, const char *what)
{
	char name[64];
	const char *value;

	snprintf(name, sizeof(name), "%s_%s", client->options->environment, what);
	value = getenv(name);
	*field = value && *value ? strdup(value) : NULL; /* an empty one is none */
	return value && *value && !*field ? -ENOMEM : 0;
}

static int find_credentials(struct http_client *client, struct reason *why)
{
	if (client->options->credentials)
		return read_credentials(client, client->options->credentials, why);
	if (copy_environment(client, &client->token, "TOKEN") || copy_environment(client, &client->user, "USER") ||
	    copy_environment(client, &client->password, "PASSWORD"))
		return reason_set(why, -ENOMEM, "out of memory");
	return 0;
}

/* Anyone on the way could read them. */
static int check_transport(struct http_client *client, struct reason *why)
{
	CURLU *parts = libcurl.curl_url();
	bool is_url = parts && !libcurl.curl_url_set(parts, CURLUPART_URL, client->options->url, 0);
	bool is_plain = !is_url || is_scheme(parts, "http");

	client->is_local = is_url && is_loopback(parts);
	libcurl.curl_url_cleanup(parts);
	if (client->password && !client->user)
		return reason_set(why, -EINVAL, "a password, but no user");
	if (is_plain && !client->is_local && (client->token || client->user))
		return reason_set(why, -EINVAL, "credentials go over https only, or to this machine");
	return 0;
}

/* ---- certificates ----------------------------------------------------------------------------------- */

/* They are read once: the process that pushes may lack the right to read them later. */
static int read_certificates(struct http_client *client, struct reason *why)
{
	const char *path = client->options->ca_file;
	FILE *file = path ? fopen(path, "re") : NULL;
	int err = 0;

	if (!path)
		return 0;
	if (!file)
		return reason_set(why, -errno, "%s: %s", path, strerror(errno));
	client->ca = malloc(CA_FILE_MAX);
	if (!client->ca)
		err = reason_set(why, -ENOMEM, "out of memory");
	else
		client->ca_len = fread(client->ca, 1, CA_FILE_MAX, file);
	if (!err && ferror(file))
		err = reason_set(why, -EIO, "%s: %s", path, strerror(errno));
	else if (!err && (!client->ca_len || client->ca_len == CA_FILE_MAX))
		err = reason_set(why, -EINVAL, "%s: %s", path, client->ca_len ? "too large for certificates" : "empty");
	fclose(file);
	return err;
}

/* ---- requests --------------------------------------------------------------------------------------- */

static void set_credentials(const struct http_client *client)
{
	CURL *curl = client->curl;

	if (client->token) {
		libcurl.curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
		libcurl.curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, client->token);
	} else if (client->user) {
		libcurl.curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		libcurl.curl_easy_setopt(curl, CURLOPT_USERNAME, client->user);
		libcurl.curl_easy_setopt(curl, CURLOPT_PASSWORD, client->password ?: "");
	}
}

/* A proxy of the environment is no part of this machine. */
static CURLcode set_transport(const struct http_client *client)
{
	struct curl_blob ca = { client->ca, client->ca_len, CURL_BLOB_NOCOPY };
	CURLcode code = CURLE_OK;

	if (client->is_local)
		code = libcurl.curl_easy_setopt(client->curl, CURLOPT_NOPROXY, "*");
	if (!code && client->ca)
		code = libcurl.curl_easy_setopt(client->curl, CURLOPT_CAINFO_BLOB, &ca);
	return code;
}

/* Hands on the answer; an error of take() ends the transfer. */
static size_t receive_answer(char *bytes, size_t size, size_t nr, void *request_)
{
	const struct http_request *request = request_;

	return request->take(request->what, bytes, size * nr) ? 0 : size * nr;
}

/* The connection stays open from one request to the next; the options do not. */
static CURLcode set_request(const struct http_client *client, const struct http_request *request)
{
	CURL *curl = client->curl;
	uint64_t timeout_ms = client->timeout_ns / 1000000;

	libcurl.curl_easy_reset(curl);
	libcurl.curl_easy_setopt(curl, CURLOPT_URL, request->url);
	libcurl.curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	libcurl.curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	libcurl.curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
	libcurl.curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
			 (long)(timeout_ms < CONNECT_TIMEOUT_MS ? timeout_ms : CONNECT_TIMEOUT_MS));
	libcurl.curl_easy_setopt(curl, CURLOPT_USERAGENT, "allocsnap/" ALLOCSNAP_VERSION);
	libcurl.curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "gzip");
	libcurl.curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
	libcurl.curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
	libcurl.curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive_answer);
	libcurl.curl_easy_setopt(curl, CURLOPT_WRITEDATA, request);
	set_credentials(client);
	return set_transport(client);
}

static struct curl_slist *make_headers(const struct http_request *request)
{
	struct curl_slist *headers = libcurl.curl_slist_append(NULL, "Expect:"); /* no round trip before the body */

	for (size_t i = 0; i < request->header_nr; i++)
		headers = libcurl.curl_slist_append(headers, request->header[i]);
	return headers;
}

int http_client__send(struct http_client *client, const struct http_request *request, long *ret_status,
		      struct reason *why)
{
	struct curl_slist *headers = make_headers(request);
	CURLcode code = set_request(client, request);

	libcurl.curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
	code = code ?: libcurl.curl_easy_perform(client->curl);
	libcurl.curl_slist_free_all(headers);
	if (code)
		return reason_set(why, -EIO, "%s", libcurl.curl_easy_strerror(code));
	libcurl.curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, ret_status);
	return 0;
}

/* ---- the whole -------------------------------------------------------------------------------------- */

struct http_client *http_client__new(const struct http_options *options, struct reason *why)
{
	struct http_client *client = calloc(1, sizeof(*client));
	int err = client ? http_url_check(options->url, why) : reason_set(why, -ENOMEM, "out of memory");

	if (!err) {
		client->options = options;
		client->timeout_ns = options->timeout_ns;
		err = find_credentials(client, why) ?: check_transport(client, why) ?: read_certificates(client, why);
	}
	if (!err) {
		client->curl = libcurl.curl_easy_init();
		err = client->curl ? 0 : reason_set(why, -ENOMEM, "out of memory");
	}
	if (!err)
		return client;
	http_client__free(client);
	return NULL;
}

void http_client__free(struct http_client *client)
{
	if (!client)
		return;
	if (client->curl)
		libcurl.curl_easy_cleanup(client->curl);
	forget(client->token);
	forget(client->user);
	forget(client->password);
	free(client->ca);
	free(client);
}

void http_client__set_timeout(struct http_client *client, uint64_t timeout_ns)
{
	client->timeout_ns = timeout_ns;
}
