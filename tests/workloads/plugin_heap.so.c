// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A library with an allocator linked into it and hidden: no other file can call its malloc. */
#include <stdlib.h>

__attribute__((visibility("default"), noipa)) void *plugin_allocate(size_t size)
{
	return malloc(size);
}

__attribute__((visibility("default"), noipa)) void plugin_release(void *block)
{
	free(block);
}
