/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_PARALLEL_H
#define ALLOCSNAP_BASE_PARALLEL_H

#include <stdbool.h>

/* May this process run on more than one processor? */
bool has_two_processors(void);

/* How many of them; at least 1. */
unsigned int processor_nr(void);

/* run(what) by `nr` threads at once, this one and as many more as can be had; returns when all have. */
void run_by(unsigned int nr, void (*run)(void *what), void *what);

/* run(a) and run(b), at once where a thread can be had; returns when both have. */
void run_both(void (*run)(void *part), void *a, void *b);

#endif
