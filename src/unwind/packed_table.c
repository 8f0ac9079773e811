// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/packed_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/idmap.h"

static const char magic[8] = "ASUNWIND";

static uint64_t checksum_of(const struct packed_table *packed)
{
	size_t from = offsetof(struct packed_table, key);

	return hash_bytes((const char *)packed + from, packed->bytes - from, 0);
}

static uint64_t packed_bytes(const struct unwind_table *table)
{
	return sizeof(struct packed_table) + (table->page_nr + 1ull) * sizeof(*table->page) +
	       (uint64_t)table->rule_nr * sizeof(*table->rule) +
	       (uint64_t)table->row_nr * sizeof(*table->row);
}

static char *write_packed_bytes(char *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	return to + bytes;
}

int packed_table_make(const struct unwind_table *table, const uint64_t key[PACKED_TABLE_KEY_WORDS],
		      struct packed_table **ret)
{
	uint64_t bytes = packed_bytes(table);
	struct packed_table *packed = calloc(1, bytes);
	char *at = (char *)(packed + 1);

	if (!packed)
		return -ENOMEM;
	memcpy(packed->magic, magic, sizeof(magic));
	packed->version = PACKED_TABLE_VERSION;
	packed->head_bytes = sizeof(*packed);
	packed->bytes = bytes;
	memcpy(packed->key, key, sizeof(packed->key));
	packed->table = *table;
	packed->table.page = NULL;
	packed->table.rule = NULL;
	packed->table.row = NULL;
	at = write_packed_bytes(at, table->page, (table->page_nr + 1ull) * sizeof(*table->page));
	at = write_packed_bytes(at, table->rule, table->rule_nr * sizeof(*table->rule));
	write_packed_bytes(at, table->row, table->row_nr * sizeof(*table->row));
	packed->checksum = checksum_of(packed);
	*ret = packed;
	return 0;
}

static bool is_whole_packed_table(const struct packed_table *packed, size_t bytes,
				  const uint64_t key[PACKED_TABLE_KEY_WORDS])
{
	return bytes >= sizeof(*packed) && !memcmp(packed->magic, magic, sizeof(magic)) &&
	       packed->version == PACKED_TABLE_VERSION && packed->head_bytes == sizeof(*packed) &&
	       packed->bytes == bytes && bytes == packed_bytes(&packed->table) &&
	       !memcmp(packed->key, key, sizeof(packed->key)) &&
	       packed->checksum == checksum_of(packed);
}

static void *copy_packed_rows(const char **from, uint64_t nr, size_t size)
{
	void *to = malloc(nr * size + 1);

	if (to)
		memcpy(to, *from, nr * size);
	*from += nr * size;
	return to;
}

int packed_table_open(const void *from, size_t bytes, const uint64_t key[PACKED_TABLE_KEY_WORDS],
		      struct unwind_table **ret)
{
	const struct packed_table *packed = from;
	const char *at = (const char *)(packed + 1);
	struct unwind_table *table;
	int err = 0;

	if (!is_whole_packed_table(packed, bytes, key))
		return -EBADMSG;
	table = malloc(sizeof(*table));
	if (!table)
		return -ENOMEM;
	*table = packed->table;
	table->page = copy_packed_rows(&at, table->page_nr + 1ull, sizeof(*table->page));
	table->rule = copy_packed_rows(&at, table->rule_nr, sizeof(*table->rule));
	table->row = copy_packed_rows(&at, table->row_nr, sizeof(*table->row));
	if (!table->page || !table->rule || !table->row)
		err = -ENOMEM;
	else if (!unwind_table__is_sound(table))
		err = -EBADMSG;
	if (err)
		unwind_table__free(table);
	else
		*ret = table;
	return err;
}
