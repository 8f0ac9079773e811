/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_GUARD_H
#define ALLOCSNAP_SYMBOLS_GUARD_H

#include <stdbool.h>

/*
 * libdw maps the files that it reads. If another process truncates such a file meanwhile (`cp
 * new.so old.so`), the next access causes SIGBUS. That must cost names, not the recording.
 *
 * Runs work(job). Returns false if SIGBUS interrupted it: then the data that it was changing are in
 * an unknown state, and its memory is leaked. SIGBUS is caught only during the call, but in the
 * whole process: do not use this in a program whose other threads expect SIGBUS.
 */
bool guard_run(void (*work)(void *job), void *job);

#endif
