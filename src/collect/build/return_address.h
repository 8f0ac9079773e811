/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUILD_RETURN_ADDRESS_H
#define ALLOCSNAP_COLLECT_BUILD_RETURN_ADDRESS_H

/*
 * Decides whether an address can be a return address. A walk by frame pointers through code that has none takes
 * the memory that rbp points at for a frame. Such junk is hardly ever an address right behind a call instruction.
 * So a frame without a call in front of it ends the traceback: a short traceback is better than a made-up one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many bytes before the address, and from the address on, the decision may read. */
#define RETURN_ADDRESS_BEFORE 7
#define RETURN_ADDRESS_AFTER 9

/*
 * code points at the address itself, with `before` readable bytes in front of it and `after` from it on. True if
 * a call ends right there, or if it is where a signal handler returns to (x86-64: mov $15,%rax; syscall). Always
 * true on other machines.
 */
bool is_return_address(const uint8_t *code, size_t before, size_t after, uint16_t elf_machine);

#endif
