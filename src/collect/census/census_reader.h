/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_CENSUS_CENSUS_READER_H
#define ALLOCSNAP_COLLECT_CENSUS_CENSUS_READER_H

/*
 * The process that reads the memory of another one. It has no privileges, as the file reader (sandbox/seccomp.h): only
 * descriptors of /proc/PID/mem, pagemap and maps, and of Python's file, which were opened for it, and a socket for its
 * answer.
 */

#include <stdint.h>

struct census_order {
	uint64_t cpu_ns;
	uint64_t python_start; /* where the file of CENSUS_FD_PYTHON is mapped from its begin on */
};

enum census_fd {
	CENSUS_FD_MEMORY,
	CENSUS_FD_PAGES,
	CENSUS_FD_MAPS,
	CENSUS_FD_PYTHON, /* the program or library that may be CPython; -1: none */
	CENSUS_FD_NR,
};

/* An answer is JSON (census_json.h), or a message without bytes: out of memory. */
#define CENSUS_ORDER 1
#define CENSUS_ANSWER 2

/* Reads the descriptors and the order from the socket, and answers. */
void census_read_and_answer(int socket);

#endif
