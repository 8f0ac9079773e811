// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/perf_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/idmap.h"

#define HASHED_BYTES 4096
#define BLOCK_BYTES (1u << 16) /* a longer line does not count */

/* Where the name of an address is in the map. 0 bytes: it has none. */
struct map_name {
	uint64_t at;
	size_t bytes;
	bool is_several;
};

struct map_search {
	int fd;
	struct perf_map_part part;
	const uint64_t *address;
	size_t nr;
	struct map_name *name; /* of each address */
};

/* Reads 1 to 16 digits and the space behind them. */
static bool read_hex(const char **at, const char *end, uint64_t *ret)
{
	const char *digit = *at;

	*ret = 0;
	for (; digit < end && digit - *at < 16; digit++) {
		int value = *digit >= '0' && *digit <= '9' ? *digit - '0' :
			    (*digit | 0x20) >= 'a' && (*digit | 0x20) <= 'f' ? (*digit | 0x20) - 'a' + 10 : -1;

		if (value < 0)
			break;
		*ret = *ret << 4 | value;
	}
	if (digit == *at || digit == end || *digit != ' ')
		return false;
	*at = digit + 1;
	return true;
}

/* The map may have been written to meanwhile, so the name may be another text now. It has no NUL and no line's end. */
static size_t read_map_name(int fd, const struct map_name *name, char text[PERF_MAP_NAME_MAX])
{
	size_t bytes = name->bytes < PERF_MAP_NAME_MAX ? name->bytes : PERF_MAP_NAME_MAX - 1;
	ssize_t got = bytes ? pread(fd, text, bytes, name->at) : 0;

	text[got > 0 ? got : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return strlen(text);
}

static bool is_same_map_name(int fd, const struct map_name *a, const struct map_name *b)
{
	char text[2][PERF_MAP_NAME_MAX];

	return read_map_name(fd, a, text[0]) == read_map_name(fd, b, text[1]) && !strcmp(text[0], text[1]);
}

/* Code that is not settled may have run under the name that it had before. An empty name takes that name away. */
static void name_code(const struct map_search *search, uint64_t start, uint64_t bytes, struct map_name name, uint64_t offset)
{
	for (size_t i = array_first(search->nr, i, search->address[i] >= start);
	     i < search->nr && search->address[i] - start < bytes; i++) {
		struct map_name *known = &search->name[i];
		char text[PERF_MAP_NAME_MAX];

		if (offset < search->part.settled)
			*known = name;
		else if (!read_map_name(search->fd, &name, text) ||
			 (known->bytes && !is_same_map_name(search->fd, known, &name)))
			known->is_several = true;
		else
			known->at = name.at, known->bytes = name.bytes;
	}
}

/* A line without its end; it begins at this offset of the map. */
static void take_map_line(const struct map_search *search, const char *line, const char *end, uint64_t offset)
{
	const char *at = line;
	uint64_t start, bytes;

	if (!read_hex(&at, end, &start) || !read_hex(&at, end, &bytes) || at == end)
		return;
	name_code(search, start, bytes, (struct map_name){ offset + (at - line), end - at }, offset);
}

/* *ret_end: where to begin; then where the first line without an end begins. */
static int read_map_lines(const struct map_search *search, uint64_t *ret_end, struct reason *why)
{
	char *block = malloc(BLOCK_BYTES), *end;
	size_t kept = 0, bytes, line;
	bool is_too_long = false;
	uint64_t offset = *ret_end;
	ssize_t got = 0;

	while (block && offset <= PERF_MAP_BYTES_MAX &&
	       (got = pread(search->fd, block + kept, BLOCK_BYTES - kept, offset + kept)) > 0) {
		bytes = kept + got;
		for (line = 0; (end = memchr(block + line, '\n', bytes - line)); line = end + 1 - block) {
			if (!is_too_long)
				take_map_line(search, block + line, end, offset + line);
			is_too_long = false;
			*ret_end = offset + (end + 1 - block);
		}
		if (!line && bytes == BLOCK_BYTES) {
			is_too_long = true;
			line = bytes;
		}
		kept = bytes - line;
		offset += line;
		memmove(block, block + line, kept);
	}
	free(block);
	if (!block)
		return -ENOMEM;
	return got > 0 ? reason_set(why, -E2BIG, "it has more than %u MiB", PERF_MAP_BYTES_MAX >> 20) : 0;
}

/* ---- a jitdump (tools/perf/Documentation/jitdump-specification.txt of the kernel) ---- */

#define DUMP_MAGIC 0x4a695444
#define DUMP_RECORDS_MAX (1u << 22)

struct dump_header {
	uint32_t magic, version, bytes;
};

enum dump_record_id {
	DUMP_LOAD = 0,
	DUMP_MOVE = 1,
};

struct dump_record {
	uint32_t id, bytes;
	uint64_t time_ns;
	uint32_t pid, tid;
	uint64_t vma;
	uint64_t address, code_bytes, index; /* DUMP_MOVE: the old address, the new one, bytes */
}; /* followed by the name */

/* Code that has moved gets no name: that is in another record. */
static void take_dump_record(const struct map_search *search, const struct dump_record *record, uint64_t offset)
{
	if (record->id == DUMP_LOAD)
		name_code(search, record->address, record->code_bytes,
			  (struct map_name){ offset + sizeof(*record), record->bytes - sizeof(*record) }, offset);
	else if (record->id == DUMP_MOVE)
		name_code(search, record->code_bytes, record->index, (struct map_name){}, offset);
}

static bool is_dump(int fd, struct dump_header *ret)
{
	return pread(fd, ret, sizeof(*ret), 0) == sizeof(*ret) && ret->magic == DUMP_MAGIC;
}

static int read_dump_records(const struct map_search *search, uint64_t *ret_end, struct reason *why)
{
	struct dump_record record = {};
	uint64_t offset = *ret_end;
	struct stat st;

	if (fstat(search->fd, &st))
		return -errno;
	for (unsigned int i = 0; i < DUMP_RECORDS_MAX; i++, *ret_end = offset += record.bytes) {
		if (pread(search->fd, &record, sizeof(record), offset) < (ssize_t)offsetof(struct dump_record, pid) ||
		    record.bytes < offsetof(struct dump_record, pid) || offset > (uint64_t)st.st_size || record.bytes > st.st_size - offset)
			return 0;
		if (record.bytes > sizeof(record))
			take_dump_record(search, &record, offset);
	}
	return reason_set(why, -E2BIG, "it has more than %u records", DUMP_RECORDS_MAX);
}

/* ---- the names ---- */

static int add_map_names(const struct map_search *search, struct perf_map_names *ret)
{
	char text[PERF_MAP_NAME_MAX];
	size_t alloc = 0;
	int err = 0;

	for (size_t i = 0; i < search->nr && !err; i++) {
		size_t bytes = read_map_name(search->fd, &search->name[i], text);

		if (search->name[i].is_several)
			bytes = strlen(strcpy(text, PERF_MAP_SEVERAL));
		if (!bytes)
			continue;
		err = array_reserve(&ret->text, &alloc, ret->text_bytes + bytes + 1);
		if (err)
			break;
		memcpy(ret->text + ret->text_bytes, text, bytes + 1);
		ret->name[i] = ret->text_bytes + 1;
		ret->text_bytes += bytes + 1;
	}
	return err;
}

/* A map whose hash has changed is not the one any more that was read up to there. */
static uint64_t hash_before(int fd, uint64_t end)
{
	size_t bytes = end < HASHED_BYTES ? end : HASHED_BYTES;
	char tail[HASHED_BYTES];

	return pread(fd, tail, bytes, end - bytes) == (ssize_t)bytes ? hash_bytes(tail, bytes, end) : 0;
}

static int search_map(struct map_search *search, uint64_t *ret_end, struct reason *why)
{
	struct dump_header header;
	bool has_records = is_dump(search->fd, &header);

	if (search->part.from && hash_before(search->fd, search->part.from) != search->part.hash)
		search->part = (struct perf_map_part){};
	*ret_end = search->part.from;
	if (!has_records)
		return read_map_lines(search, ret_end, why);
	*ret_end = *ret_end ?: header.bytes;
	return read_dump_records(search, ret_end, why);
}

int perf_map_read(int fd, const struct perf_map_part *part, const uint64_t *address, size_t nr, struct perf_map_names *ret,
		  struct reason *why)
{
	struct map_search search = { fd, *part, address, nr, calloc(nr + 1, sizeof(*search.name)) };
	int err;

	*ret = (struct perf_map_names){ .nr = nr, .name = calloc(nr + 1, sizeof(*ret->name)) };
	err = search.name && ret->name ? search_map(&search, &ret->end, why) : -ENOMEM;
	err = err ?: add_map_names(&search, ret);
	ret->hash = hash_before(fd, ret->end);
	free(search.name);
	if (err) {
		free(ret->name);
		free(ret->text);
		*ret = (struct perf_map_names){};
	}
	return err;
}
