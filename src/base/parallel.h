/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_PARALLEL_H
#define ALLOCSNAP_BASE_PARALLEL_H

/* The number of processors that this process may run on; at least 1. */
unsigned int processor_nr(void);

/*
 * Runs run(what) in `nr` threads at once: in this one and in as many others as can be started.
 * Returns when all have returned.
 */
void run_by(unsigned int nr, void (*run)(void *what), void *what);

/* Runs run(a) and run(b), at once if a thread can be started. Returns when both have returned. */
void run_both(void (*run)(void *part), void *a, void *b);

#endif
