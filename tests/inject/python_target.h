/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_INJECT_PYTHON_TARGET_H
#define ALLOCSNAP_TESTS_INJECT_PYTHON_TARGET_H

#include "inject/inject.h"

/*
 * Finds what is needed to put hooks into a CPython, as a recorder would. Environment, for refusals: WRONG=file (another
 * one has the tables), tid (thread numbers are elsewhere), key (it is another one).
 */
int read_python_target(pid_t pid, struct inject_python *ret, uint64_t *ret_start_time, struct reason *why);

/* Writes the word `inside` of a thread's slot of the books, and prints their head. */
int visit_books(pid_t pid, const struct inject_books *books, unsigned int slot, uint64_t inside);

#endif
