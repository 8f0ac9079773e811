/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_PERF_MAP_H
#define ALLOCSNAP_SYMBOLS_PERF_MAP_H

/*
 * A perf map: the text in which a runtime writes down the code that it makes (/tmp/perf-PID.map). A line is "START SIZE
 * NAME", both numbers in hexadecimal. Or a jitdump (jit-PID.dump): binary records with the code itself, of which only the
 * names are read. Nothing in either is trusted: a line or record that has another form does not count, nor does a last one
 * that is being written.
 *
 * Lines of a jitdump are not read: they may be of a function that was inlined, which has no name there.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"

#define PERF_MAP_BYTES_MAX (256u << 20) /* a larger map is refused; a jitdump has a limit of records */
#define PERF_MAP_NAME_MAX 512		/* a longer name is cut */
#define PERF_MAP_ADDRESSES_MAX 16384	/* of one question */

/* It stands for names of which nothing says when the code had which. */
#define PERF_MAP_SEVERAL "[code that was replaced]"

/*
 * Which part of a map is to be read. A map only grows, so what was read is not read again. If the map does not have the
 * same bytes before `from` as then, it was written anew, and all of it is read, as not settled.
 */
struct perf_map_part {
	uint64_t from, hash; /* where the last reading ended, and the hash that it gave; 0: all is read */
	uint64_t settled;    /* lines that begin before it were written before any code that is asked for ran */
};

/* Names of addresses, in their order. The caller frees both arrays. */
struct perf_map_names {
	uint64_t end, hash; /* for the next reading */
	uint32_t nr, text_bytes;
	uint32_t *name; /* where its text begins, + 1; 0: no line has the address */
	char *text;
};

/*
 * Finds the names of addresses, which are sorted. If several settled lines or records have the address, the last one counts.
 * A later one with another name makes the name PERF_MAP_SEVERAL. 0, -ENOMEM, or -E2BIG with a line in *why.
 */
int perf_map_read(int fd, const struct perf_map_part *part, const uint64_t *address, size_t nr, struct perf_map_names *ret,
		  struct reason *why);

#endif
