/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_GO_SWITCH_H
#define ALLOCSNAP_COLLECT_SOURCES_GO_SWITCH_H

/*
 * Switches on the heap profile of a Go program that was linked without it (--go-profile on): its linker has set
 * runtime.MemProfileRate to 0, and the runtime has all else. One aligned store of 8 bytes into this variable begins it, as if the
 * program itself had set it. It is made only where the variable is certain: the file says so in three ways (symbols/go_program.h),
 * it lies in private memory that the program may write, and it is 0; or a recording that was killed has left it on. Since the file was read, the process may have begun another
 * program: the memory that is written must have a word that the loader has made of this file. Everything is checked before the store.
 */

#include <stdint.h>
#include <sys/types.h>

#include "base/reason.h"

#define GO_SWITCHED_RATE (512u << 10) /* Go's own */

/* Addresses in the process. */
struct go_switch_place {
	uint64_t rate; /* the variable; 0: not known */
	uint64_t module, table; /* the word at `module` is `table` */
};

/*
 * 0, and a descriptor of its memory for go_switch_off(); or a negative errno
 * with a line in *why, and nothing has changed.
 */
int go_switch_on(pid_t pid, const struct go_switch_place *place, int *ret_memory_fd, struct reason *why);

/* Sets it to 0 again, unless the program has set it meanwhile, and closes the descriptor. Samples that are live stay counted. */
void go_switch_off(int memory_fd, uint64_t address);

#endif
