// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/row_tables.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* ---- the tables, with the columns of src/fleet/sql/sqlite.sql in their order ---------------------------------- */

#define INT(name_) { name_, ROW_INT }
#define REAL(name_) { name_, ROW_REAL }
#define TEXT(name_) { name_, ROW_TEXT }

static const struct row_column allocation[] = {
	INT("upload_id"), INT("time"), INT("traceback_id"), INT("domain"), INT("size"), INT("count"),
};

static const struct row_column sample[] = {
	INT("upload_id"), INT("time"), INT("traceback_id"), INT("domain"), REAL("size_beyond"), REAL("size_variance"),
	REAL("size_covariance"), REAL("count_beyond"), REAL("count_variance"), REAL("count_covariance"),
};

static const struct row_column label[] = { INT("upload_id"), INT("time"), TEXT("name"), TEXT("value") };

static const struct row_column loss[] = { INT("upload_id"), INT("time"), TEXT("name"), INT("value") };

static const struct row_column snapshot[] = {
	INT("upload_id"), INT("snapshot_id"), INT("process_id"), INT("time"), INT("moment"),
	INT("clock_ns"), INT("time_ns"), INT("monotonic_ns"), INT("recording_ns"), INT("interval_ns"), TEXT("host"),
	TEXT("comm"), TEXT("exe"), TEXT("exe_build_id"), TEXT("cgroup"), TEXT("container"), TEXT("boot_id"), TEXT("kernel"),
	TEXT("version"), TEXT("trigger"), TEXT("ending"), TEXT("path"), INT("pid"), INT("start_ticks"),
	INT("exec_count"), INT("size"), INT("count"), INT("gap_size"), INT("gap_count"), INT("row_nr"),
	INT("traceback_limit"), INT("is_sampled"), INT("sample_bytes_most"), INT("is_part"),
	INT("host_id"), INT("boot"), INT("task"),
};

static const struct row_column frame[] = {
	INT("frame_id"), INT("verify"), TEXT("func"), TEXT("file"), INT("line"), INT("first_line"), TEXT("module"),
	TEXT("build_id"), INT("offset"), INT("flags"),
};

static const struct row_column traceback_frame[] = { INT("traceback_id"), INT("position"), INT("frame_id") };

static const struct row_column traceback[] = {
	INT("traceback_id"), INT("verify"), INT("own_position"), INT("own_frame_id"), INT("stack"), INT("rules"),
};

static const struct row_column place[] = {
	INT("place"), INT("chain"), INT("traceback_id"), INT("position"), INT("frame_id"), INT("detail"), INT("outer_name"),
	INT("names"),
};

static const struct row_column domain[] = { INT("domain"), TEXT("name"), INT("number") };

#define TABLE(name_) { #name_, name_, ARRAY_SIZE(name_) }

static const struct row_table tables[ROW_TABLE_NR] = {
	[ROW_ALLOCATION] = TABLE(allocation),
	[ROW_SAMPLE] = TABLE(sample),
	[ROW_LABEL] = TABLE(label),
	[ROW_LOSS] = TABLE(loss),
	[ROW_SNAPSHOT] = TABLE(snapshot),
	[ROW_FRAME] = TABLE(frame),
	[ROW_TRACEBACK_FRAME] = TABLE(traceback_frame),
	[ROW_TRACEBACK] = TABLE(traceback),
	[ROW_PLACE] = TABLE(place),
	[ROW_DOMAIN] = TABLE(domain),
};

_Static_assert(ARRAY_SIZE(snapshot) <= ROW_COLUMNS_MAX, "a batch has room for each column");

const struct row_table *row_table(enum row_table_number number)
{
	return &tables[number];
}

/* ---- bytes ---------------------------------------------------------------------------------------------------- */

int row_bytes_add(struct row_bytes *bytes, const void *what, size_t len)
{
	int err = array_reserve(&bytes->byte, &bytes->byte_alloc, bytes->byte_nr + len);

	if (err)
		return err;
	memcpy(bytes->byte + bytes->byte_nr, what, len);
	bytes->byte_nr += len;
	return 0;
}

int row_bytes_add_length(struct row_bytes *bytes, uint64_t length)
{
	uint8_t leb[10];
	size_t nr = 0;

	do {
		leb[nr] = (length & 127) | (length > 127 ? 128 : 0);
		length >>= 7;
		nr++;
	} while (length);
	return row_bytes_add(bytes, leb, nr);
}

uint64_t row_bytes_length(const uint8_t **at)
{
	uint64_t length = 0;
	unsigned int shift = 0;

	for (; **at & 128; (*at)++, shift += 7)
		length |= (uint64_t)(**at & 127) << shift;
	return length | (uint64_t)*(*at)++ << shift;
}

/* ---- batches -------------------------------------------------------------------------------------------------- */

void row_batch_init(struct row_batch *batch, enum row_table_number number)
{
	*batch = (struct row_batch){ .table = &tables[number] };
}

void row_batch_release(struct row_batch *batch)
{
	for (size_t i = 0; i < ROW_COLUMNS_MAX; i++)
		free(batch->column[i].byte);
	*batch = (struct row_batch){};
}

void row_batch_clear(struct row_batch *batch)
{
	for (size_t i = 0; i < batch->table->column_nr; i++)
		batch->column[i].byte_nr = 0;
	batch->row_nr = 0;
}

uint64_t row_batch_bytes(const struct row_batch *batch)
{
	uint64_t byte_nr = 0;

	for (size_t i = 0; i < batch->table->column_nr; i++)
		byte_nr += batch->column[i].byte_nr;
	return byte_nr;
}

static int add_value(struct row_bytes *column, enum row_type type, const union row_value *value)
{
	size_t len = sizeof(value->number);

	if (type != ROW_TEXT && column->byte_alloc - column->byte_nr >= len) { /* nearly always */
		memcpy(column->byte + column->byte_nr, value, sizeof(value->number));
		column->byte_nr += len;
		return 0;
	}
	if (type != ROW_TEXT)
		return row_bytes_add(column, value, len);
	len = strlen(value->text);
	return row_bytes_add_length(column, len) ?: row_bytes_add(column, value->text, len);
}

int row_batch_add(struct row_batch *batch, const union row_value *value)
{
	const struct row_table *table = batch->table;
	int err = 0;

	for (size_t i = 0; i < table->column_nr && !err; i++)
		err = add_value(&batch->column[i], table->column[i].type, &value[i]);
	batch->row_nr += !err;
	return err;
}

/* ---- statements ----------------------------------------------------------------------------- */

/* Hidden, as in report_page.c. */
#define X(part, file) \
	__asm__(".pushsection .rodata\nrow_sql_" #part ":\n.incbin \"src/fleet/sql/" file ".sql\"\n.byte 0\n.popsection\n"); \
	__attribute__((visibility("hidden"))) extern const char row_sql_##part[];
ROW_SQL(X)
#undef X

static const char *const texts[] = {
#define X(part, file) row_sql_##part,
	ROW_SQL(X)
#undef X
};

const char *row_sql_text(enum row_sql part)
{
	return texts[part];
}

/* Returns the length of the place at text, whose value is written; 0: text does not begin with a place. */
static size_t write_place(FILE *out, const char *text, const struct row_place *place, size_t place_nr)
{
	for (size_t i = 0; *text == '{' && i < place_nr; i++) {
		size_t len = strlen(place[i].name);

		if (strncmp(text + 1, place[i].name, len) || text[1 + len] != '}')
			continue;
		fputs(place[i].value, out);
		return len + 2;
	}
	return 0;
}

char *row_sql_fill(enum row_sql part, const struct row_place *place, size_t place_nr)
{
	const char *text = texts[part];
	char *filled = NULL;
	size_t all, len;
	FILE *out = open_memstream(&filled, &all);

	if (!out)
		return NULL;
	for (bool begins_line = true; *text; begins_line = text[-1] == '\n') {
		if (begins_line && !strncmp(text, "--", 2)) {
			text += strcspn(text, "\n") + 1;
			continue;
		}
		len = write_place(out, text, place, place_nr);
		if (!len)
			putc(*text, out);
		text += len ?: 1;
	}
	if (!fclose(out))
		return filled;
	free(filled);
	return NULL;
}
