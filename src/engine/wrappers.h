/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_WRAPPERS_H
#define ALLOCSNAP_ENGINE_WRAPPERS_H

#include <stdbool.h>

struct engine_options;

/*
 * Whether the function belongs to an allocator, so that its caller requested the memory. These are
 * malloc and related functions of the C library, jemalloc, tcmalloc and mimalloc; the global
 * operator new, demangled or not; and functions that match a `skip` pattern. NULL, an unknown
 * function, never does. Neither do a class's own operator new and std::allocator: they are C++ code
 * that calls an allocator, and a user can skip them.
 */
bool function_is_wrapper(const char *function, const struct engine_options *options);

#endif
