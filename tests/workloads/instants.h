/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INSTANTS_H
#define ALLOCSNAP_INSTANTS_H

/*
 * The blocks of instants.c at every instant. The size of a block encodes its worker, slot and generation.
 * A worker goes through its slots again and again, and lifts one after the other from generation g to
 * g + 1:
 *
 *	slots before it		one block, of g + 1; where another thread frees, one of g besides
 *	the slot itself		of g, of both, or of g + 1; inside realloc() of either one
 *	slots behind it		one block, of g
 */

#define WORKERS 2
#define SLOTS 48
#define GENERATIONS 8 /* then from 0 again */
#define BALLAST 20000 /* blocks that stay: they make the map longer to read */
#define BALLAST_BYTES 24
#define FIRST_BYTES 1000

#define SIZE_OF(worker, slot, generation) \
	(FIRST_BYTES + ((worker) * SLOTS + (slot)) * GENERATIONS + (generation) % GENERATIONS)

/* How a slot is lifted. */
enum way { WAY_FREE, WAY_REALLOC, WAY_FREE_ELSEWHERE, WAYS };
#define WAY_OF(slot) ((slot) % WAYS)

#endif
