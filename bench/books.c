// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * books hold BLOCKS BYTES: a program that holds so many blocks of that size (0: of 16 to 200 bytes) of 4,096 stacks, and
 * prints "ready CPU_NS". From one line of its input to the next it makes pairs of malloc and free: prints "PAIRS CPU_NS
 * LONGEST_NS", the last one of wall time between two looks at the clock.
 *
 * books size FILE: memory of the parts of the books of a process (exact/books.h), a line each: NAME TAB BYTES; and the number
 * of nodes. capacity.py makes a table of it.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exact/books.h"
#include "stacks.h"

/* ---- the program ---- */

#define BATCH 1000 /* pairs between two looks at the clock */

static uint64_t block_bytes;
static uint64_t bytes_of(uint32_t path)
{
	return block_bytes ?: 16 + path % 185;
}

static uint64_t time_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A line; false: there are no more. */
static bool await_line(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) == 1)
		if (byte == '\n')
			return true;
	return false;
}

static void make_pairs(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	uint64_t pairs = 0, longest = 0, cpu = time_ns(CLOCK_PROCESS_CPUTIME_ID), was = time_ns(CLOCK_MONOTONIC), now;
	void *volatile block;

	while (!poll(&input, 1, 0)) {
		for (int i = 0; i < BATCH; i++) {
			block = malloc(block_bytes ?: 64);
			free(block);
		}
		pairs += BATCH;
		now = time_ns(CLOCK_MONOTONIC);
		longest = now - was > longest ? now - was : longest;
		was = now;
	}
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", pairs, time_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu, longest);
}

static int hold(uint64_t blocks)
{
	for (uint64_t i = 0; i < blocks; i++)
		keep_block(i);
	printf("ready %" PRIu64 "\n", time_ns(CLOCK_PROCESS_CPUTIME_ID));
	for (fflush(stdout); await_line(); fflush(stdout)) {
		make_pairs();
		if (!await_line())
			break;
	}
	return 0;
}

/* ---- the books ---- */

static const struct part {
	const char *name;
	uint64_t at, end;
} parts[] = {
	{ "threads", BOOKS_AT_HEAD, BOOKS_AT_DIRECTORY },
	{ "small blocks", BOOKS_AT_DIRECTORY, BOOKS_AT_LEVELS },
	{ "larger blocks", BOOKS_AT_LEVELS, BOOKS_AT_HANDED },
	{ "blocks handed over", BOOKS_AT_HANDED, BOOKS_AT_BUCKETS },
	{ "trie", BOOKS_AT_BUCKETS, BOOKS_AT_CODE_SLOTS },
	{ "code objects", BOOKS_AT_CODE_SLOTS, BOOKS_AT_KNOWN },
	{ "unwind tables", BOOKS_AT_KNOWN, BOOKS_AT_COPIES },
	{ "copies of stacks", BOOKS_AT_COPIES, BOOKS_BYTES },
};

/* Memory of [at, end) of a file. */
static uint64_t bytes_between(int fd, uint64_t at, uint64_t end)
{
	uint64_t bytes = 0;
	off_t data, hole;

	while (at < end && (data = lseek(fd, (off_t)at, SEEK_DATA)) >= 0 && (uint64_t)data < end) {
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			break;
		at = (uint64_t)hole < end ? (uint64_t)hole : end;
		bytes += at - (uint64_t)data;
	}
	return bytes;
}

static int print_size(const char *path)
{
	struct books_head head;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || pread(fd, &head, sizeof(head), BOOKS_AT_HEAD) != sizeof(head) || strcmp(head.magic, BOOKS_MAGIC)) {
		fprintf(stderr, "books: %s: no books\n", path);
		return 1;
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		printf("%s\t%" PRIu64 "\n", parts[i].name, bytes_between(fd, parts[i].at, parts[i].end));
	printf("nodes\t%" PRIu32 "\n", head.node_nr);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "hold")) {
		block_bytes = strtoull(argv[3], NULL, 10);
		return hold(strtoull(argv[2], NULL, 10));
	}
	if (argc == 3 && !strcmp(argv[1], "size"))
		return print_size(argv[2]);
	fprintf(stderr, "usage: books hold BLOCKS BYTES | size FILE\n");
	return 2;
}
