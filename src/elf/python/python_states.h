/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_PYTHON_STATES_H
#define ALLOCSNAP_ELF_PYTHON_STATES_H

/* Whether a thread's state is where the kernel side looks for it: among the values that glibc keeps for the thread. */

#include "elf/python/python_info.h"
#include "elf/python/python_layers.h"

/*
 * Looks for one thread of the main interpreter whose state is found so. NULL: there is one, or Python has no thread yet;
 * otherwise what is in the way.
 */
const char *python_states_check(const struct python_info *info, uint64_t bias, const struct python_memory *memory);

#endif
