/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_UNIT_COMPARED_HOOKS_H
#define TESTS_UNIT_COMPARED_HOOKS_H

/* The hooks of an exact recording (src/exact/python_hooks.c) in the test itself. Each walk is compared with a plain one. */

#include <stddef.h>

#include "exact/python_hooks.h"

#define HIDDEN_HOOK __attribute__((visibility("hidden")))

#define DECLARE_HOOKS(name) \
	HIDDEN_HOOK void *hook_##name##_malloc(void *ctx, size_t size); \
	HIDDEN_HOOK void *hook_##name##_calloc(void *ctx, size_t nr, size_t size); \
	HIDDEN_HOOK void *hook_##name##_realloc(void *ctx, void *was, size_t size); \
	HIDDEN_HOOK void hook_##name##_free(void *ctx, void *block);

DECLARE_HOOKS(raw)
DECLARE_HOOKS(mem)
DECLARE_HOOKS(object)

HIDDEN_HOOK int hook_reference(void *object, int event, void *data);

extern HIDDEN_HOOK struct python_hooks python_hooks;

/* The hooks pass on until they are on. */
void turn_compared_hooks(int on);

/* The state by which a hook would walk over the frames of the calling thread; 0: none. */
uint64_t own_state_of_hooks(void);

/* hook_raw_free() in two parts: between them, the thread is inside. */
void begin_late_free(void);
void end_late_free(void *block);

/* Where a variable of a thread is, behind the thread pointer. */
#define BEHIND_THREAD_POINTER(variable) \
	({ \
		uint64_t pointer_; \
		__asm__("movq %%fs:0, %0" : "=r"(pointer_)); \
		(uint64_t)&(variable) - pointer_; \
	})

#endif
