// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Queries: rows of ClickHouse's format RowBinary. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/cluster/cluster_private.h"

#define TEXT_LEN_MAX (64 << 20)

/* The bytes that are not a whole row yet. */
struct answer_rows {
	const struct cluster_query *query;
	struct row_bytes rest;
	struct row_bytes text; /* the texts of one row, each with a NUL */
};

/* ---- one row -------------------------------------------------------------------------------------------------- */

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
static int read_value(struct answer_rows *rows, enum row_type type, const uint8_t **at, const uint8_t *end,
		      union row_value *ret)
{
	int64_t len;

	if (type != ROW_TEXT) {
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
	for (size_t i = 0; i < query->column_nr && !err; i++)
		err = read_value(rows, query->type[i], &next, end, &value[i]);
	if (err)
		return err;
	for (size_t i = 0; i < query->column_nr; i++)
		if (query->type[i] == ROW_TEXT)
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
