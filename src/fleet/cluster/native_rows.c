// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Inserts: a batch of rows is one block of ClickHouse's format Native, compressed by zstd. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/cluster/cluster_private.h"

#define LEVEL 1
#define METHOD_ZSTD 0x90
#define CHECKSUM_LEN 16 /* a hash that we do not make: the settings tell the server to expect none */

static int add_native_text(struct row_bytes *bytes, const char *text)
{
	return row_bytes_add_length(bytes, strlen(text)) ?: row_bytes_add(bytes, text, strlen(text));
}

/* The bytes before a column's values; before the first column, the numbers of columns and rows, too. */
static int make_column_head(const struct row_batch *batch, size_t at, struct row_bytes *head)
{
	static const char *const type[] = { [ROW_INT] = "Int64", [ROW_REAL] = "Float64", [ROW_TEXT] = "String" };
	const struct row_column *column = &batch->table->column[at];
	int err = 0;

	head->byte_nr = 0;
	if (!at)
		err = row_bytes_add_length(head, batch->table->column_nr) ?: row_bytes_add_length(head, batch->row_nr);
	return err ?: add_native_text(head, column->name) ?: add_native_text(head, type[column->type]);
}

static int pack_bytes(ZSTD_CCtx *zstd, const struct row_bytes *bytes, ZSTD_EndDirective how, struct row_bytes *packed)
{
	ZSTD_inBuffer in = { bytes->byte, bytes->byte_nr, 0 };
	ZSTD_outBuffer out = { packed->byte, packed->byte_alloc, packed->byte_nr };
	size_t left = ZSTD_compressStream2(zstd, &out, &in, how);

	packed->byte_nr = out.pos;
	return ZSTD_isError(left) || in.pos < in.size || (how == ZSTD_e_end && left) ? -ENOMEM : 0;
}

static int pack_columns(ZSTD_CCtx *zstd, const struct row_batch *batch, struct row_bytes *head, uint64_t *ret_len,
			struct row_bytes *packed)
{
	static const struct row_bytes nothing;
	int err = 0;

	for (size_t i = 0; i < batch->table->column_nr && !err; i++) {
		err = make_column_head(batch, i, head) ?: pack_bytes(zstd, head, ZSTD_e_continue, packed) ?:
		      pack_bytes(zstd, &batch->column[i], ZSTD_e_continue, packed);
		*ret_len += head->byte_nr + batch->column[i].byte_nr;
	}
	return err ?: pack_bytes(zstd, &nothing, ZSTD_e_end, packed);
}

static uint64_t most_of_block(const struct row_batch *batch)
{
	uint64_t len = 4096;

	for (size_t i = 0; i < batch->table->column_nr; i++)
		len += batch->column[i].byte_nr;
	return ZSTD_compressBound(len) + 4096;
}

/* A compressed block: its checksum; then method, length from here on, and length of the content; then zstd's frame. */
int native_block_make(const struct row_batch *batch, struct row_bytes *head, struct row_bytes *packed)
{
	struct {
		uint8_t checksum[CHECKSUM_LEN], method;
		uint32_t packed_len, len;
	} __attribute__((packed)) mark = { .method = METHOD_ZSTD };
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	uint64_t len = 0;
	int err = zstd ? array_reserve(&packed->byte, &packed->byte_alloc, sizeof(mark) + most_of_block(batch)) : -ENOMEM;

	packed->byte_nr = sizeof(mark);
	if (!err && ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, LEVEL)))
		err = -ENOMEM;
	err = err ?: pack_columns(zstd, batch, head, &len, packed);
	ZSTD_freeCCtx(zstd);
	if (err || len > UINT32_MAX || packed->byte_nr > UINT32_MAX)
		return err ?: -E2BIG;
	mark.len = len;
	mark.packed_len = packed->byte_nr - CHECKSUM_LEN;
	memcpy(packed->byte, &mark, sizeof(mark));
	return 0;
}

static char *make_insert_parameters(const struct row_table *table)
{
	char *sql = NULL, *escaped, *parameters = NULL;

	if (asprintf(&sql, "INSERT INTO %s FORMAT Native", table->name) < 0)
		return NULL;
	escaped = cluster_escape(sql);
	free(sql);
	if (escaped && asprintf(&parameters, "&decompress=1&query=%s", escaped) < 0)
		parameters = NULL;
	free(escaped);
	return parameters;
}

static int insert_into_cluster(struct row_sink *sink, const struct row_batch *batch, struct reason *why)
{
	struct cluster *cluster = (struct cluster *)sink;
	char *parameters = make_insert_parameters(batch->table);
	int err = parameters ? native_block_make(batch, &cluster->head, &cluster->packed) : -ENOMEM;
	const struct cluster_request request = {
		.parameters = parameters, .is_in_database = true, .content_type = "Content-Type: application/octet-stream",
		.body = cluster->packed.byte, .body_len = cluster->packed.byte_nr,
	};

	err = err ? reason_set(why, err, "%s", err == -E2BIG ? "too many bytes in one batch" : "out of memory") : cluster_send(cluster, &request, why);
	free(parameters);
	return err;
}

struct row_sink *cluster__sink(struct cluster *cluster)
{
	cluster->sink.insert = insert_into_cluster;
	return &cluster->sink;
}
