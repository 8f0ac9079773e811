// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Plugins of walks.c: plug() of each one has a frame of another size (NR). */
#include <stdlib.h>
#include <string.h>

__attribute__((noipa)) static void *descend(int depth, int nr)
{
	volatile char local[NR * 48];
	void *block;

	local[0] = nr;
	block = depth ? descend(depth - 1, nr) : malloc(16 + nr);
	local[1] = local[0];
	return block;
}

void *plug(int depth, int nr)
{
	volatile char local[NR * 80];
	void *block;

	local[0] = nr;
	block = descend(depth, nr);
	local[1] = local[0];
	return block;
}
