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

/* ---- numbers, as a table that is sent along ------------------------------------------------------------------- */

#define BOUNDARY "allocsnap-4f1c06e07f6d4b0c"
#define PART_HEAD "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"chosen\"; filename=\"chosen\"\r\n" \
		  "Content-Type: application/octet-stream\r\n\r\n"
#define PART_TAIL "\r\n--" BOUNDARY "--\r\n"
#define CHOSEN "&chosen_format=RowBinary&chosen_structure=chosen_id%20Int64"

static int make_numbers_body(const struct cluster_numbers *numbers, struct row_bytes *body)
{
	return row_bytes_add(body, PART_HEAD, strlen(PART_HEAD)) ?:
	       row_bytes_add(body, numbers->number, numbers->nr * sizeof(*numbers->number)) ?:
	       row_bytes_add(body, PART_TAIL, strlen(PART_TAIL));
}

static char *make_query_parameters(const struct cluster_query *query)
{
	char *escaped = cluster_escape(query->sql), *parameters = NULL;

	if (escaped && asprintf(&parameters, "%s&query=%s%%20FORMAT%%20RowBinary", query->numbers ? CHOSEN : "", escaped) < 0)
		parameters = NULL;
	free(escaped);
	return parameters;
}

int cluster__ask(struct cluster *cluster, const struct cluster_query *query, struct reason *why)
{
	struct answer_rows rows = { .query = query };
	struct row_bytes body = {};
	char *parameters = make_query_parameters(query);
	int err = parameters ? 0 : -ENOMEM;

	if (!err && query->numbers)
		err = make_numbers_body(query->numbers, &body);
	if (err)
		err = reason_set(why, err, "out of memory");
	else
		err = cluster_send(cluster, &(struct cluster_request){
			.parameters = parameters, .is_in_database = !query->is_outside,
			.content_type = query->numbers ? "Content-Type: multipart/form-data; boundary=" BOUNDARY : NULL,
			.body = body.byte ? (const void *)body.byte : "", .body_len = body.byte_nr,
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
