// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/perf_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"

#define BLOCK_BYTES (1u << 16) /* a longer line does not count */

/* Where the name of an address is in the map. 0 bytes: it has none. */
struct map_name {
	uint64_t at;
	size_t bytes;
};

struct map_search {
	int fd;
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

/* A line without its end; it begins at this offset of the map. */
static void take_map_line(const struct map_search *search, const char *line, const char *end, uint64_t offset)
{
	const char *at = line;
	uint64_t start, bytes;

	if (!read_hex(&at, end, &start) || !read_hex(&at, end, &bytes) || at == end)
		return;
	for (size_t i = array_first(search->nr, i, search->address[i] >= start);
	     i < search->nr && search->address[i] - start < bytes; i++)
		search->name[i] = (struct map_name){ offset + (at - line), end - at };
}

static int read_map_lines(const struct map_search *search, struct reason *why)
{
	char *block = malloc(BLOCK_BYTES), *end;
	size_t kept = 0, bytes, line;
	bool is_too_long = false;
	uint64_t offset = 0;
	ssize_t got = 0;

	while (block && offset <= PERF_MAP_BYTES_MAX &&
	       (got = pread(search->fd, block + kept, BLOCK_BYTES - kept, offset + kept)) > 0) {
		bytes = kept + got;
		for (line = 0; (end = memchr(block + line, '\n', bytes - line)); line = end + 1 - block) {
			if (!is_too_long)
				take_map_line(search, block + line, end, offset + line);
			is_too_long = false;
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

/* The map may have been written to meanwhile, so the name may be another text now. It has no NUL and no line's end. */
static size_t read_map_name(int fd, const struct map_name *name, char text[PERF_MAP_NAME_MAX])
{
	size_t bytes = name->bytes < PERF_MAP_NAME_MAX ? name->bytes : PERF_MAP_NAME_MAX - 1;
	ssize_t got = bytes ? pread(fd, text, bytes, name->at) : 0;

	text[got > 0 ? got : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return strlen(text);
}

static int add_map_names(const struct map_search *search, struct perf_map_names *ret)
{
	char text[PERF_MAP_NAME_MAX];
	size_t alloc = 0;
	int err = 0;

	for (size_t i = 0; i < search->nr && !err; i++) {
		size_t bytes = read_map_name(search->fd, &search->name[i], text);

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

int perf_map_read(int fd, const uint64_t *address, size_t nr, struct perf_map_names *ret, struct reason *why)
{
	struct map_search search = { fd, address, nr, calloc(nr + 1, sizeof(*search.name)) };
	int err;

	*ret = (struct perf_map_names){ .nr = nr, .name = calloc(nr + 1, sizeof(*ret->name)) };
	err = search.name && ret->name ? read_map_lines(&search, why) : -ENOMEM;
	err = err ?: add_map_names(&search, ret);
	free(search.name);
	if (err) {
		free(ret->name);
		free(ret->text);
		*ret = (struct perf_map_names){};
	}
	return err;
}
