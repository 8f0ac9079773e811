// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Inserts: a batch of rows is one block of ClickHouse's format Native, compressed by zstd. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/array.h"
#include "base/reason.h"
#include "cluster/cluster_private.h"

#define LEVEL 1
#define METHOD_ZSTD 0x90
#define CHECKSUM_LEN 16 /* a hash that we do not make: the settings tell the server to expect none */

static int add_native_text(struct row_bytes *block, const char *text)
{
	return row_bytes_add_length(block, strlen(text)) ?: row_bytes_add(block, text, strlen(text));
}

static int add_native_columns(const struct row_batch *batch, struct row_bytes *block)
{
	static const char *const type[] = { [ROW_INT] = "Int64", [ROW_REAL] = "Float64", [ROW_TEXT] = "String" };
	int err = row_bytes_add_length(block, batch->table->column_nr) ?: row_bytes_add_length(block, batch->row_nr);

	for (size_t i = 0; i < batch->table->column_nr && !err; i++) {
		const struct row_column *column = &batch->table->column[i];

		err = add_native_text(block, column->name) ?: add_native_text(block, type[column->type]) ?:
		      row_bytes_add(block, batch->column[i].byte, batch->column[i].byte_nr);
	}
	return err;
}

/* A compressed block: its checksum; then method, length from here on, and length of the content; then zstd's frame. */
static int pack_block(const struct row_bytes *block, struct row_bytes *packed)
{
	struct {
		uint8_t checksum[CHECKSUM_LEN], method;
		uint32_t packed_len, len;
	} __attribute__((packed)) head = { .method = METHOD_ZSTD, .len = block->byte_nr };
	size_t most = ZSTD_compressBound(block->byte_nr), len;
	int err = array_reserve(&packed->byte, &packed->byte_alloc, sizeof(head) + most);

	if (err)
		return err;
	len = ZSTD_compress(packed->byte + sizeof(head), most, block->byte, block->byte_nr, LEVEL);
	if (ZSTD_isError(len))
		return -ENOMEM;
	head.packed_len = sizeof(head) - CHECKSUM_LEN + len;
	memcpy(packed->byte, &head, sizeof(head));
	packed->byte_nr = sizeof(head) + len;
	return 0;
}

int native_block_make(const struct row_batch *batch, struct row_bytes *block, struct row_bytes *packed)
{
	block->byte_nr = 0;
	return add_native_columns(batch, block) ?: pack_block(block, packed);
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
	int err = parameters ? native_block_make(batch, &cluster->block, &cluster->packed) : -ENOMEM;
	const struct cluster_request request = {
		.parameters = parameters, .is_in_database = true, .content_type = "Content-Type: application/octet-stream",
		.body = cluster->packed.byte, .body_len = cluster->packed.byte_nr,
	};

	err = err ? reason_set(why, err, "out of memory") : cluster_send(cluster, &request, why);
	free(parameters);
	return err;
}

struct row_sink *cluster__sink(struct cluster *cluster)
{
	cluster->sink.insert = insert_into_cluster;
	return &cluster->sink;
}
