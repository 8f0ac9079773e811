// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A chain of up to 64 functions, each with a frame of its own, that ends in one of three probed functions. Reads
 * struct walk_order from standard input, writes the nanoseconds of this thread's processor time that a call took, as a
 * double. Built with and without frame pointers.
 */
#include <time.h>
#include <unistd.h>

#include "walk_target.h"

#define NOINLINE __attribute__((noinline, noclone))

static volatile unsigned int sink;

NOINLINE void probed_nothing(void) { sink++; }
NOINLINE void probed_tables(void) { sink += 2; }
NOINLINE void probed_kernel(void) { sink += 3; }

static void (*const probed[])(void) = { probed_nothing, probed_tables, probed_kernel };

/* The code after the call keeps it from becoming a jump; each link has a stack frame of a size of its own. */
#define LINK(nr, next)                                                                             \
	static NOINLINE void link_##nr(const struct walk_order *order, unsigned int left)          \
	{                                                                                          \
		volatile unsigned int local[nr % 7 * 4 + 1];                                       \
                                                                                                   \
		local[0] = left;                                                                   \
		if (left)                                                                          \
			next(order, left - 1);                                                     \
		else                                                                               \
			probed[order->which]();                                                    \
		sink += local[0];                                                                  \
	}

static NOINLINE void link_end(const struct walk_order *order, unsigned int left)
{
	probed[order->which]();
	sink += left;
}

#define LINKS(a, b, c, d, e, f, g, h, next)                                                        \
	LINK(h, next) LINK(g, link_##h) LINK(f, link_##g) LINK(e, link_##f)                        \
	LINK(d, link_##e) LINK(c, link_##d) LINK(b, link_##c) LINK(a, link_##b)

LINKS(56, 57, 58, 59, 60, 61, 62, 63, link_end)
LINKS(48, 49, 50, 51, 52, 53, 54, 55, link_56)
LINKS(40, 41, 42, 43, 44, 45, 46, 47, link_48)
LINKS(32, 33, 34, 35, 36, 37, 38, 39, link_40)
LINKS(24, 25, 26, 27, 28, 29, 30, 31, link_32)
LINKS(16, 17, 18, 19, 20, 21, 22, 23, link_24)
LINKS(8, 9, 10, 11, 12, 13, 14, 15, link_16)
LINKS(0, 1, 2, 3, 4, 5, 6, 7, link_8)

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

int main(void)
{
	struct walk_order order;

	while (read(STDIN_FILENO, &order, sizeof(order)) == sizeof(order)) {
		double begun = now_ns(), ns;

		for (unsigned int i = 0; i < order.calls; i++)
			link_0(&order, order.links - 1);
		ns = (now_ns() - begun) / order.calls;
		if (write(STDOUT_FILENO, &ns, sizeof(ns)) != sizeof(ns))
			return 1;
	}
	return 0;
}
