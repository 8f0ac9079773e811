// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/cluster/cluster_private.h"

/*
 * A subquery over all shards runs once; a shard that does not answer is an error; shards' sums are added up; rows are on
 * their shards when an insert returns; and an error comes before the answer, not in the middle of it. A user's profile
 * may say that an answer ends where a limit is reached: for us that is an error. A selection may have long texts, several
 * times.
 */
#define SETTINGS \
	"distributed_product_mode=global&skip_unavailable_shards=0&distributed_group_by_no_merge=0" \
	"&insert_distributed_sync=1&wait_end_of_query=1&http_native_compression_disable_checksumming_on_decompress=1" \
	"&read_overflow_mode=throw&result_overflow_mode=throw&timeout_overflow_mode=throw&group_by_overflow_mode=throw" \
	"&sort_overflow_mode=throw&distinct_overflow_mode=throw&set_overflow_mode=throw&join_overflow_mode=throw" \
	"&transfer_overflow_mode=throw&max_query_size=16777216&enable_http_compression=1&http_zlib_compression_level=1"

#define ERROR_MAX 2000 /* bytes of an error's text */

/* ---- options -------------------------------------------------------------------------------------------------- */

static bool is_identifier(const char *text)
{
	size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

	return len && len < 64 && !text[len] && !isdigit((unsigned char)*text);
}

int cluster_options_check(const struct cluster_options *options, struct reason *why)
{
	if (!is_identifier(options->database))
		return reason_set(why, -EINVAL, "'%.100s' is no name of a database: letters, digits and _", options->database);
	return http_url_check(options->url, why);
}

int cluster__new(const struct cluster_options *options, struct cluster **ret, struct reason *why)
{
	struct cluster *cluster = calloc(1, sizeof(*cluster));

	if (!cluster)
		return reason_set(why, -ENOMEM, "out of memory");
	cluster->options = options;
	cluster->http = (struct http_options){
		.url = options->url, .credentials = options->credentials, .environment = "ALLOCSNAP_CLUSTER",
		.ca_file = options->ca_file, .timeout_ns = options->timeout_ns ?: CLUSTER_TIMEOUT_NS,
	};
	cluster->client = http_client__new(&cluster->http, why);
	if (!cluster->client) {
		cluster__free(cluster);
		return -EIO;
	}
	*ret = cluster;
	return 0;
}

void cluster__free(struct cluster *cluster)
{
	if (!cluster)
		return;
	http_client__free(cluster->client);
	free(cluster->head.byte);
	free(cluster->packed.byte);
	free(cluster);
}

const struct cluster_options *cluster__options(const struct cluster *cluster)
{
	return cluster->options;
}

void cluster__set_timeout(struct cluster *cluster, uint64_t timeout_ns)
{
	http_client__set_timeout(cluster->client, timeout_ns);
}

/* ---- requests ------------------------------------------------------------------------------------------------- */

/* SQL of our own: a line may end where spaces may be, and one is enough. */
char *cluster_escape(const char *text)
{
	char *escaped = malloc(3 * strlen(text) + 1), *at = escaped;

	for (; escaped && *text; text++) {
		if (isalnum((unsigned char)*text) || strchr("_-.~*(),", *text))
			*at++ = *text;
		else if (*text != ' ' && *text != '\n')
			at += sprintf(at, "%%%02X", (unsigned char)*text);
		else if (at == escaped || at[-1] != '+')
			*at++ = '+';
	}
	if (escaped)
		*at = '\0';
	return escaped;
}

/* The answer goes to take(). The beginning is kept, too: it may be an error's text. */
struct cluster_answer {
	const struct cluster_request *request;
	char text[ERROR_MAX + 1];
	size_t len;
	int err; /* of take() */
};

static int take_cluster_answer(void *answer_, const void *bytes, size_t len)
{
	struct cluster_answer *answer = answer_;
	size_t room = ERROR_MAX - answer->len;

	memcpy(answer->text + answer->len, bytes, len < room ? len : room);
	answer->len += len < room ? len : room;
	if (answer->request->take && !answer->err)
		answer->err = answer->request->take(answer->request->what, bytes, len);
	return 0;
}

static char *make_cluster_url(const struct cluster *cluster, const struct cluster_request *request)
{
	const struct cluster_options *options = cluster->options;
	size_t len = strlen(options->url);
	char *url;

	while (len && options->url[len - 1] == '/')
		len--;
	if (asprintf(&url, "%.*s/?database=%s&" SETTINGS "%s", (int)len, options->url,
		     request->is_in_database ? options->database : "system", request->parameters ?: "") < 0)
		return NULL;
	return url;
}

int cluster_send(struct cluster *cluster, const struct cluster_request *request, struct reason *why)
{
	const char *const header[] = { request->content_type };
	struct cluster_answer answer = { .request = request };
	char *url = make_cluster_url(cluster, request);
	const struct http_request http = {
		.url = url, .header = header, .header_nr = request->content_type != NULL,
		.body = request->body, .body_len = request->body_len, .take = take_cluster_answer, .what = &answer,
	};
	struct reason line;
	long status = 0;
	int err;

	if (!url)
		return reason_set(why, -ENOMEM, "out of memory");
	reason_set(why, 0, "%s", "");
	err = http_client__send(cluster->client, &http, &status, &line);
	free(url);
	if (err)
		return reason_set(why, err, "%s: %s", cluster->options->url, line.text);
	if (status != 200)
		return cluster_explain_status(cluster, status, answer.text, why);
	if (answer.err && why && *why->text) /* take() has left a line */
		return answer.err;
	if (answer.err == -ENOMEM)
		return reason_set(why, answer.err, "out of memory");
	return answer.err ? cluster_refuse_answer(cluster, status, why) : 0;
}

int cluster__run(struct cluster *cluster, const char *sql, bool is_in_database, struct reason *why)
{
	const struct cluster_request request = {
		.is_in_database = is_in_database, .body = sql, .body_len = strlen(sql),
	};

	return cluster_send(cluster, &request, why);
}
