/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_LOOKUP_H
#define ALLOCSNAP_UNWIND_LOOKUP_H

/*
 * The row for an address. Compiles for BPF and natively: who includes this defines first
 *
 *	struct unwind_rows;
 *	static unwind_row unwind_rows__at(const struct unwind_rows *rows, bpf_u32 index);
 *
 * where an index that can't be read gives 0: the row of rule 0, which is "nothing known".
 */

#include "shared/unwind_types.h"

#define UNWIND_INLINE static inline __attribute__((always_inline))

/*
 * The last of rows [first, first + nr) at or below an address, of which only the place in its page
 * counts; 1 <= nr <= 65536. No branch depends on what the rows say: a bounded loop that does makes
 * the verifier follow every path (its limit has been hit so, on 6.4 and 6.8).
 */
UNWIND_INLINE unwind_row unwind_find_row(const struct unwind_rows *rows, bpf_u32 first, bpf_u32 nr,
					 bpf_u64 address)
{
	unwind_row last = UNWIND_ROW(address & UNWIND_PAGE_MASK, UNWIND_PAGE_MASK);

	for (int step = 0; step < UNWIND_SEARCH_STEPS; step++) {
		bpf_u32 half = nr >> 1;
		bpf_u32 is_below = unwind_rows__at(rows, first + half) <= last;

		first += half & -is_below;
		nr -= half;
	}
	return unwind_rows__at(rows, first);
}

#endif
