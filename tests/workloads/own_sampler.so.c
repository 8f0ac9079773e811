// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A library with a sampler of its own, which own_sampler loads. */
#include "own_sampler.h"

void *library_malloc(size_t size)
{
	return own_malloc(size);
}

void library_free(void *block)
{
	own_free(block);
}
