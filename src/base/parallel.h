/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_PARALLEL_H
#define ALLOCSNAP_BASE_PARALLEL_H

#include <stdbool.h>

/* May this process run on more than one processor? */
bool has_two_processors(void);

/* run(a) and run(b), at once where a thread can be had; returns when both have. */
void run_both(void (*run)(void *part), void *a, void *b);

#endif
