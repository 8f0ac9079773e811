/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_WRAPPERS_H
#define ALLOCSNAP_ENGINE_WRAPPERS_H

#include <stdbool.h>

struct engine_options;

/*
 * Does the function belong to an allocator, so that its caller is who asked for the memory?
 * malloc and its kin of the C library, jemalloc, tcmalloc and mimalloc; the global operator new,
 * demangled or not; what a `skip` pattern matches. NULL, a function that is not known, never
 * does. A class's own operator new and std::allocator do not either: they are C++ code that
 * calls an allocator, and a user can skip them.
 */
bool function_is_wrapper(const char *function, const struct engine_options *options);

#endif
