/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_LOOKUP_H
#define ALLOCSNAP_UNWIND_LOOKUP_H

/*
 * The row for an address. This header compiles for BPF and natively. A file that includes it first defines
 *
 *	struct unwind_rows;
 *	static unwind_row unwind_rows__at(const struct unwind_rows *rows, bpf_u32 index);
 *
 * which returns 0 for an index that cannot be read. 0 is a row of rule 0: no information.
 */

#include "shared/unwind_types.h"

#define UNWIND_INLINE static inline __attribute__((always_inline))

/*
 * Returns the last of rows [first, first + nr) at or below an address; 1 <= nr <= 65536. Only the place of the
 * address in its page counts. No branch depends on the contents of the rows: a bounded loop with such a branch
 * makes the verifier follow every path (this exceeded its limit on 6.4 and 6.8).
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
