// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A perf map or a jitdump. All names end, and each address has the name that a plain search of all lines finds.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "symbols/perf_map.h"

static const uint64_t address[] = { 0, 1, 0x10, 0x11, 0x1000, 0x7f0000001234, UINT64_MAX - 1, UINT64_MAX };

#define NR (sizeof(address) / sizeof(*address))

/* A number of 1 to 16 digits, a space behind it. */
static bool number_of(const char **at, uint64_t *ret)
{
	size_t digits = 0;

	while (isxdigit((unsigned char)(*at)[digits]))
		digits++;
	if (!digits || digits > 16 || (*at)[digits] != ' ')
		return false;
	*ret = strtoull(*at, NULL, 16);
	*at += digits + 1;
	return true;
}

/* The name of the last line with the address, as long as it is kept; NULL: none. */
static const char *plain_search(char *text, size_t size, uint64_t wanted)
{
	const char *name = NULL;

	for (char *line = text, *end; (end = memchr(line, '\n', text + size - line)); line = end + 1) {
		const char *at = line;
		uint64_t start, bytes;

		*end = '\0';
		if (number_of(&at, &start) && number_of(&at, &bytes) && at != end && wanted >= start && wanted - start < bytes)
			name = at;
	}
	return name && *name ? name : NULL;
}

static const char *name_of(const struct perf_map_names *names, size_t i)
{
	return names->name[i] ? names->text + names->name[i] - 1 : NULL;
}

static bool is_equal(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static void free_names(struct perf_map_names *names)
{
	free(names->name);
	free(names->text);
}

/* A map that was read when it had its first half, and then from there on, has the same names as if it was read once. */
static void read_in_two(const uint8_t *data, size_t size)
{
	int fd = memfd_create("map", MFD_CLOEXEC);
	struct perf_map_names whole, half, rest;

	MUST(fd >= 0 && write(fd, data, size / 2) == (ssize_t)(size / 2));
	MUST(!perf_map_read(fd, &(struct perf_map_part){}, address, NR, &half, NULL));
	MUST(write(fd, data + size / 2, size - size / 2) == (ssize_t)(size - size / 2));
	MUST(!perf_map_read(fd, &(struct perf_map_part){ .from = half.end, .hash = half.hash }, address, NR, &rest, NULL));
	MUST(!perf_map_read(fd, &(struct perf_map_part){}, address, NR, &whole, NULL));
	MUST(rest.end == whole.end && rest.hash == whole.hash);
	for (size_t i = 0; i < NR; i++) {
		const char *before = name_of(&half, i), *after = name_of(&rest, i);
		const char *want = before && after && strcmp(before, after) ? PERF_MAP_SEVERAL : after ?: before;

		MUST(is_equal(name_of(&whole, i), want));
	}
	free_names(&half);
	free_names(&rest);
	free_names(&whole);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("map", MFD_CLOEXEC);
	struct perf_map_names names;

	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	MUST(!perf_map_read(fd, &(struct perf_map_part){ .settled = UINT64_MAX }, address, NR, &names, NULL));
	MUST(names.nr == NR);
	for (size_t i = 0; i < NR; i++)
		MUST(!names.name[i] || strlen(names.text + names.name[i] - 1) < PERF_MAP_NAME_MAX);
	for (size_t i = 0; i < NR && (size < 12 || memcmp(data, "DTiJ", 4)); i++) {
		char *text = malloc(size + 1);
		const char *want;

		memcpy(text, data, size);
		text[size] = '\0';
		want = plain_search(text, size, address[i]);
		MUST(!want == !names.name[i]);
		MUST(!want || !strncmp(want, names.text + names.name[i] - 1, PERF_MAP_NAME_MAX - 1));
		free(text);
	}
	free_names(&names);
	close(fd);
	if (size < 12 || memcmp(data, "DTiJ", 4))
		read_in_two(data, size);
	return 0;
}
