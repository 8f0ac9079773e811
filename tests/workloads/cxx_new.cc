// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cxx.cc with its own operator new, as programs have that count or pool. */
#include <new>

#include "cxx.cc"

void *operator new(size_t size)
{
	void *block = malloc(size);

	if (!block)
		throw std::bad_alloc();
	return block;
}

void *operator new[](size_t size)
{
	return operator new(size);
}

void operator delete(void *block) noexcept
{
	free(block);
}

void operator delete(void *block, size_t) noexcept
{
	free(block);
}

void operator delete[](void *block) noexcept
{
	free(block);
}

void operator delete[](void *block, size_t) noexcept
{
	free(block);
}
