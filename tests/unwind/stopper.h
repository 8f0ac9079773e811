/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_UNWIND_STOPPER_H
#define ALLOCSNAP_TESTS_UNWIND_STOPPER_H

#include <stdint.h>

/* The state of a program that stopper.so has stopped, in the file named by STOPPER. */
struct stop {
	uint64_t address; /* of the block that it has just got */
	uint64_t caller;  /* where the call of the allocator returns to */
	uint32_t tid;
	uint32_t every; /* how many calls it lets pass; 0: it stops no more */
	uint32_t is_taken; /* a thread is about to stop, stops, or has just stopped */
	uint32_t is_whole; /* the fields above are of that thread */
	uint32_t call_nr;
};

#endif
