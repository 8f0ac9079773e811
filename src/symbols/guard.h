/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_GUARD_H
#define ALLOCSNAP_SYMBOLS_GUARD_H

#include <stdbool.h>

/*
 * libdw maps the files it reads. One that somebody cuts short meanwhile (`cp new.so old.so`) is
 * SIGBUS at the next touch, which must cost names and not a recording.
 *
 * Runs work(job). False if it was cut off by SIGBUS: then whatever it was about to change is in
 * no known state, and what it held is lost. SIGBUS is caught for that time only, for the whole
 * process: not for programs with other threads that expect it.
 */
bool guard_run(void (*work)(void *job), void *job);

#endif
