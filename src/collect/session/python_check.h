/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_PYTHON_CHECK_H
#define ALLOCSNAP_COLLECT_SESSION_PYTHON_CHECK_H

/*
 * A standing check of Python's books: at each pass the lists of CPython's own allocator tell which small blocks are live.
 * The result is exact or there is none: it counts only if all threads were asleep, if no call of the allocators was
 * seen from before the cut until the lists were read, and if every block is recorded.
 */

struct collector;
struct target;

/* Before the cut. */
void python_check_begin(struct collector *collector);

/* After the blocks were read, and when a recording begins (no blocks are read then). 0 or -ENOMEM. */
int python_check(struct collector *collector);
int python_check_first(struct collector *collector, struct target *target);

#endif
