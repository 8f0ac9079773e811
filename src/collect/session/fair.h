/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_FAIR_H
#define ALLOCSNAP_COLLECT_FAIR_H

/*
 * Where several processes may be recorded none takes the room of the others: of blocks, of notes of dropped
 * ones and of tracebacks it may hold SHARE_OF_FREE times as many as are free. The kernel side compares, at an
 * insertion; what is free is found here, as often as the books are looked at.
 */

#include <stdint.h>

struct allocsnap_bpf;
struct collector;

/*
 * The most that one may hold of so many while all together hold `held`: never more than one that is alone
 * would come to, since much can be taken between two looks; nor less than a 64th, since what is held is not
 * known to the last one.
 */
uint64_t fair_most(uint64_t capacity, uint64_t held);

/* Before the programs are loaded. */
void fair_begin(struct allocsnap_bpf *bpf);

/* By the books as they are now. Nothing where one process is recorded, or some by their PIDs. */
void fair_look(struct collector *collector);

/* So many tracebacks were taken out of the map; of an image that is in no slot any more: BOOKS_NONE. */
void fair_taken_out(struct collector *collector, uint32_t slot, uint64_t image, uint64_t nr);

#endif
