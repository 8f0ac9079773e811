/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RETURN_ADDRESS_H
#define ALLOCSNAP_COLLECT_RETURN_ADDRESS_H

/*
 * Could this be a return address? A walk by frame pointers through code that has none takes
 * whatever rbp points at for a frame. Such junk hardly ever points right behind a call
 * instruction, so a frame that does not ends the traceback: better short than made up.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes before the address, and from it on, that the decision may look at. */
#define RETURN_ADDRESS_BEFORE 7
#define RETURN_ADDRESS_AFTER 9

/*
 * code points at the address itself and has before readable bytes in front of it and after
 * from it on. True where a call ends right there, or where a signal handler returns to
 * (x86-64: mov $15,%rax; syscall). On machines that are not known: true.
 */
bool is_return_address(const uint8_t *code, size_t before, size_t after, uint16_t elf_machine);

#endif
