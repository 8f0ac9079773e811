// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Hooks that only pass on (python_hooks.h). */
#include "exact/python_hooks.h"

__attribute__((visibility("hidden"), section(".data"))) struct python_hooks python_hooks;
__attribute__((visibility("hidden"), aligned(PYTHON_HOOKS_ON_BYTES))) uint8_t python_hooks_on[PYTHON_HOOKS_ON_BYTES];

#define HOOKS(name, domain)                                                                                              \
	__attribute__((visibility("hidden"))) void *hook_##name##_malloc(void *context, uint64_t size)                   \
	{                                                                                                                \
		void *(*old)(void *, uint64_t) = (void *)python_hooks.old[domain][PYTHON_MALLOC];                        \
		return old(context, size);                                                                               \
	}                                                                                                                \
	__attribute__((visibility("hidden"))) void *hook_##name##_calloc(void *context, uint64_t count, uint64_t size)   \
	{                                                                                                                \
		void *(*old)(void *, uint64_t, uint64_t) = (void *)python_hooks.old[domain][PYTHON_CALLOC];              \
		return old(context, count, size);                                                                        \
	}                                                                                                                \
	__attribute__((visibility("hidden"))) void *hook_##name##_realloc(void *context, void *block, uint64_t size)     \
	{                                                                                                                \
		void *(*old)(void *, void *, uint64_t) = (void *)python_hooks.old[domain][PYTHON_REALLOC];               \
		return old(context, block, size);                                                                        \
	}                                                                                                                \
	__attribute__((visibility("hidden"))) void hook_##name##_free(void *context, void *block)                        \
	{                                                                                                                \
		void (*old)(void *, void *) = (void *)python_hooks.old[domain][PYTHON_FREE];                             \
		old(context, block);                                                                                     \
	}

HOOKS(raw, PYTHON_RAW)
HOOKS(mem, PYTHON_MEM)
HOOKS(object, PYTHON_OBJECT)
