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
	"&transfer_overflow_mode=throw&max_query_size=16777216&join_use_nulls=0" \
	"&enable_http_compression=1&http_zlib_compression_level=1"

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

/* ---- errors --------------------------------------------------------------------------------------------------- */

/* Numbers of ClickHouse's errors (its file ErrorCodes.cpp), and what they mean to a user. */
static const struct {
	int code, err;
	const char *text;
	bool has_detail; /* the server's own text follows */
} errors[] = {
	{ 16, -ENOENT, "its tables are not allocsnap's", true },
	{ 32, -EIO, "a connection to a shard broke off", true },
	{ 47, -ENOENT, "its tables are not allocsnap's", true },
	{ 60, -ENOENT, "it has no tables of allocsnap; 'allocsnap fleet init' makes them", false },
	{ 81, -ENOENT, "it has no such database; 'allocsnap fleet init' makes it", false },
	{ 158, -EIO, "the server's limit of rows", true },
	{ 159, -EIO, "the query took longer than the server allows", false },
	{ 160, -EIO, "the query would take longer than the server allows", false },
	{ 164, -EACCES, "the user may only read, and not change settings: questions need readonly = 2", false },
	{ 192, -EACCES, "it refuses the user or the password", false },
	{ 193, -EACCES, "it refuses the user or the password", false },
	{ 194, -EACCES, "it refuses the user or the password", false },
	{ 195, -EACCES, "it refuses this machine's address", false },
	{ 201, -EIO, "the user's quota is used up", false },
	{ 209, -EIO, "a shard does not answer", true },
	{ 210, -EIO, "a shard does not answer", true },
	{ 241, -EIO, "the query takes more memory than the server allows", false },
	{ 243, -ENOSPC, "its disk is full", true },
	{ 252, -EIO, "it has too many parts and cannot merge them in time; try again later", false },
	{ 279, -EIO, "a shard does not answer", true },
	{ 394, -EIO, "the query was killed", false },
	{ 497, -EACCES, "the user lacks the right", true },
	{ 516, -EACCES, "it refuses the user or the password", false },
};

/* The number in "Code: 60, e.displayText() = …" or "Code: 60. DB::Exception: …"; 0: none. */
static int error_code_of(const char *text)
{
	const char *at = strstr(text, "Code: ");

	return at ? atoi(at + strlen("Code: ")) : 0;
}

/* The text after the name of the exception; of several attempts, the first one's. */
static const char *exception_text(const char *text, char detail[256])
{
	static const char name[] = "Exception: ";
	const char *at = strstr(text, "Log: ") ?: text, *end;
	size_t len;

	at = strstr(at, name) ? strstr(at, name) + strlen(name) : at;
	len = strcspn(at, "\n");
	end = strstr(at, ", e.what()");
	len = end && (size_t)(end - at) < len ? (size_t)(end - at) : len;
	snprintf(detail, 256, "%.*s", len < 200 ? (int)len : 200, at);
	return detail;
}

int cluster_refuse_answer(const struct cluster *cluster, long status, struct reason *why)
{
	return reason_set(why, -EPROTO, "%s: no ClickHouse: HTTP status %ld with an answer that is not ClickHouse's",
			  cluster->options->url, status);
}

/* Turns what the server says into one line and an errno. text: the beginning of its answer. */
static int explain_status(const struct cluster *cluster, long status, const char *text, struct reason *why)
{
	const char *url = cluster->options->url;
	int code = error_code_of(text);
	char detail[256];

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].code == code)
			return reason_set(why, errors[i].err, "%s: %s%s%s", url, errors[i].text,
					  errors[i].has_detail ? ": " : "",
					  errors[i].has_detail ? exception_text(text, detail) : "");
	if (strstr(text, "errno: 28,")) /* ENOSPC, in the text of any error */
		return reason_set(why, -ENOSPC, "%s: its disk is full: %s", url, exception_text(text, detail));
	if (code)
		return reason_set(why, -EIO, "%s: error %d of the server: %s", url, code, exception_text(text, detail));
	if (status == 401 || status == 403)
		return reason_set(why, -EACCES, "%s: it refuses the user or the password", url);
	if (status < 500 && status != 408 && status != 429) /* later ones are of a server on the way, or pass */
		return cluster_refuse_answer(cluster, status, why);
	return reason_set(why, -EIO, "%s: HTTP status %ld%s%s", url, status, *text ? ": " : "", exception_text(text, detail));
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
		return explain_status(cluster, status, answer.text, why);
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

/* ---- queries: rows of ClickHouse's format RowBinary --------------------------------------------------------------- */

#define TEXT_LEN_MAX (64 << 20)

/* The bytes that are not a whole row yet. */
struct answer_rows {
	const struct cluster_query *query;
	struct row_bytes rest;
	struct row_bytes text; /* the texts of one row, each with a NUL */
};

/* Returns the length of a text's value at *at, and moves *at on to its bytes; -EAGAIN: it is not whole. */
static int64_t read_text_len(const uint8_t **at, const uint8_t *end)
{
	const uint8_t *last = *at;
	uint64_t len;

	while (last < end && *last & 128 && last - *at < 9)
		last++;
	if (last == end)
		return -EAGAIN;
	if (*last & 128)
		return -EBADMSG;
	len = row_bytes_length(at);
	if (len > TEXT_LEN_MAX)
		return -EBADMSG;
	return len <= (uint64_t)(end - *at) ? (int64_t)len : -EAGAIN;
}

/* Values of texts are offsets in rows->text until the row is whole: the memory may move. */
static int read_value(struct answer_rows *rows, char type, const uint8_t **at, const uint8_t *end,
		      union row_value *ret)
{
	int64_t len;

	if (type != 't') {
		if (end - *at < (ptrdiff_t)sizeof(ret->number))
			return -EAGAIN;
		memcpy(ret, *at, sizeof(ret->number));
		*at += sizeof(ret->number);
		return 0;
	}
	len = read_text_len(at, end);
	if (len < 0)
		return len;
	ret->number = rows->text.byte_nr;
	*at += len;
	return row_bytes_add(&rows->text, *at - len, len) ?: row_bytes_add(&rows->text, "", 1);
}

static int read_answer_row(struct answer_rows *rows, const uint8_t **at, const uint8_t *end)
{
	const struct cluster_query *query = rows->query;
	union row_value value[ROW_COLUMNS_MAX];
	const uint8_t *next = *at;
	int err = 0;

	rows->text.byte_nr = 0;
	for (size_t i = 0; query->types[i] && !err; i++)
		err = read_value(rows, query->types[i], &next, end, &value[i]);
	if (err)
		return err;
	for (size_t i = 0; query->types[i]; i++)
		if (query->types[i] == 't')
			value[i].text = (const char *)rows->text.byte + value[i].number;
	*at = next;
	return query->row(query->what, value);
}

static int take_rows(void *rows_, const void *bytes, size_t len)
{
	struct answer_rows *rows = rows_;
	const uint8_t *at, *end;
	int err = row_bytes_add(&rows->rest, bytes, len);

	if (err)
		return err;
	at = rows->rest.byte;
	end = at + rows->rest.byte_nr;
	while (at < end && !err)
		err = read_answer_row(rows, &at, end);
	rows->rest.byte_nr = end - at;
	memmove(rows->rest.byte, at, end - at);
	return err == -EAGAIN ? 0 : err;
}

/* ---- tables that are sent along -------------------------------------------------------------------------------- */

#define BOUNDARY "allocsnap-4f1c06e07f6d4b0c"

static const char *name_of_table(const struct cluster_table *table)
{
	return table->name ?: "chosen";
}

static int add_table(const struct cluster_table *table, struct row_bytes *body)
{
	char head[256];
	int len = snprintf(head, sizeof(head), "\r\n--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"%1$s\";"
			   " filename=\"%1$s\"\r\nContent-Type: application/octet-stream\r\n\r\n", name_of_table(table));

	return row_bytes_add(body, head, len) ?: row_bytes_add(body, table->number, table->nr * sizeof(*table->number));
}

/* Without tables, the query is the body. */
static int make_body(const struct cluster_query *query, struct row_bytes *body)
{
	static const char tail[] = "\r\n--" BOUNDARY "--\r\n", format[] = " FORMAT RowBinary";
	int err = 0;

	for (size_t i = 0; i < query->table_nr && !err; i++)
		err = add_table(&query->table[i], body);
	if (err)
		return err;
	return query->table_nr ? row_bytes_add(body, tail, sizeof(tail) - 1) :
				 row_bytes_add(body, query->sql, strlen(query->sql)) ?:
				 row_bytes_add(body, format, sizeof(format) - 1);
}

static char *make_query_parameters(const struct cluster_query *query)
{
	char *escaped = cluster_escape(query->sql), *parameters = NULL;
	size_t len;
	FILE *out = escaped ? open_memstream(&parameters, &len) : NULL;

	if (out)
		fprintf(out, "&query=%s+FORMAT+RowBinary", escaped);
	free(escaped);
	for (size_t i = 0; out && i < query->table_nr; i++) {
		char *columns = cluster_escape(query->table[i].columns ?: "chosen_id Int64");

		fprintf(out, "&%1$s_format=RowBinary&%1$s_structure=%2$s", name_of_table(&query->table[i]), columns ?: "");
		free(columns);
	}
	if (out && !fclose(out))
		return parameters;
	free(parameters);
	return NULL;
}

int cluster__ask(struct cluster *cluster, const struct cluster_query *query, struct reason *why)
{
	struct answer_rows rows = { .query = query };
	struct row_bytes body = {};
	char *parameters = query->table_nr ? make_query_parameters(query) : NULL;
	int err = query->table_nr && !parameters ? -ENOMEM : make_body(query, &body);

	if (err)
		err = reason_set(why, err, "out of memory");
	else
		err = cluster_send(cluster, &(struct cluster_request){
			.parameters = parameters, .is_in_database = !query->is_outside,
			.content_type = query->table_nr ? "Content-Type: multipart/form-data; boundary=" BOUNDARY : NULL,
			.body = body.byte, .body_len = body.byte_nr,
			.take = take_rows, .what = &rows,
		}, why);
	if (!err && rows.rest.byte_nr)
		err = cluster_refuse_answer(cluster, 200, why);
	free(parameters);
	free(body.byte);
	free(rows.rest.byte);
	free(rows.text.byte);
	return err;
}

static int add_asked_number(void *number, const union row_value *value)
{
	*(int64_t *)number += value[0].number;
	return 0;
}

int cluster__ask_number(struct cluster *cluster, const char *sql, const struct cluster_table *numbers, int64_t *number,
			struct reason *why)
{
	return cluster__ask(cluster, &(struct cluster_query){
		.sql = sql, .table = numbers, .table_nr = numbers != NULL, .types = "i", .row = add_asked_number, .what = number,
	}, why);
}
