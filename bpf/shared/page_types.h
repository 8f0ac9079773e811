/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PAGE_TYPES_H
#define ALLOCSNAP_PAGE_TYPES_H

/*
 * Which code brought a page: the map of page leaves, which the kernel side fills and the loader joins with the pages
 * that are resident (src/collect/sources/page_join.h). A leaf is of 128 KiB of address space.
 *
 * With samples, one page of each unit of 2^shift pages is recorded, and a leaf has a place for each unit.
 */

#include "shared/fixed_width.h"

#define PAGE_BITS 12
#define LEAF_BITS 5
#define LEAF_PAGES (1 << LEAF_BITS)
#define PAGE_SHIFT_MOST 4 /* then a leaf is of 2 MiB, as a huge page */

struct page_key {
	bpf_u64 image; /* the process image */
	bpf_u64 leaf;  /* number of the unit / LEAF_PAGES */
};
_Static_assert(sizeof(struct page_key) == 16, "no padding");

/* In place of the key of a traceback. */
#define PAGE_UNSEEN 0	  /* no event brought it */
#define PAGE_BY_KERNEL 1  /* a thread without user code brought it */
#define PAGE_UNTRACED 2	  /* there was no room for the traceback */

/* The births fit into the kernel's 512 bytes for such an element, which it would take without them, too. */
struct page_leaf {
	bpf_u64 traceback[LEAF_PAGES]; /* key in the map of tracebacks, or PAGE_… */
	bpf_u32 birth[LEAF_PAGES];     /* since the recording was loaded, in units of 2^PAGE_BIRTH_BITS ns */
};
_Static_assert(sizeof(struct page_leaf) == 384, "no padding");

#define PAGE_BIRTH_BITS 24 /* 17 ms: 32 bits last for two years */

/* The page of a unit that is recorded; the seed makes it hard to avoid. */
static inline __attribute__((always_inline)) bpf_u64 chosen_page(bpf_u64 unit, bpf_u32 shift, bpf_u64 seed)
{
	bpf_u64 mixed = (unit ^ seed) * 0x9e3779b97f4a7c15ULL;

	return unit << shift | (mixed >> 40 & ((1ULL << shift) - 1));
}

#endif
