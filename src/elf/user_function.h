/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_USER_FUNCTION_H
#define ALLOCSNAP_ELF_USER_FUNCTION_H

/* A function of a custom allocator, as --probe describes it: "alloc=SYM(size=1)". */

#include "elf/user_allocators.h"

/* Whether the item begins like a function. */
bool user_function_is_item(const char *item);

/*
 * Parses a function. Cuts the item after SYM, so that it is the function's name in messages. The
 * caller frees ret->symbol. 0, -ENOMEM, or -EINVAL with a line in *why.
 */
int user_function_read(char *item, struct user_function *ret, struct reason *why);

/* Where the kernel side finds the arguments. */
struct user_call user_call_of(const struct user_arguments *arguments);

#endif
