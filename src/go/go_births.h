/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_GO_GO_BIRTHS_H
#define ALLOCSNAP_GO_GO_BIRTHS_H

/*
 * When the live samples of a bucket were born, which Go's profile does not say. Readings see how many there are: sample number n
 * was not born before the last reading that has seen n samples or fewer.
 *
 *	live: 3 ──► 5 ──► 4 ──► 6		samples 0 1 2 │ 3   │ 4 5
 *	                                        born    start │ 1st │ 3rd reading
 */

#include <stddef.h>
#include <stdint.h>

#define GO_BIRTH_RUNS 256 /* times that are kept of a bucket; of more, older ones hold for their neighbours, too */

/* The samples from `upto` of the run before on were not born before birth_ns. */
struct go_birth_run {
	uint64_t upto, birth_ns;
};

/* Zeroed: no sample so far. */
struct go_births {
	struct go_birth_run *run; /* both members ascend */
	size_t run_nr, run_alloc;
};

/* Notes how many samples there are. since_ns: the reading before, or the program's start. 0 or -ENOMEM. */
int go_births_note(struct go_births *births, uint64_t live, uint64_t since_ns);

void go_births_release(struct go_births *births);

#endif
