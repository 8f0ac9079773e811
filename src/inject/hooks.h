/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_HOOKS_H
#define ALLOCSNAP_INJECT_HOOKS_H

/* The sealed memory file of hooks (injected_file.h), and what must hold in the process that they are put into. */

#include <stdbool.h>
#include <stdint.h>

#include "inject/injected_file.h"

struct reason;
struct stopped_threads;
struct target_maps;

/* Bytes of addresses for the hooks, and the books behind them. */
uint64_t hooks_image_room(const struct injected_file *file);

/* Fills in which hook each pointer gets. 0; -EIO: the file was built wrongly; -ENOMEM. */
int hooks_image_build(const struct injected_file *file, struct inject_python *python, uint64_t start,
		      struct injected_image *ret, struct reason *why);

/* Fills in the members of a table that say where the books are. */
void fill_books(struct injected_table *table, uint64_t books_start);

/* The word that switches them on: it has a page of its own, of memory that is no file's. start: of the file that has it. 0 or -EIO. */
int fill_on(const struct injected_file *file, const char *symbol, uint64_t start, struct injected_table *table);

/* Whether an address is in memory that a program has for its own data: private, writable, of the file or behind it (.bss). */
bool is_table_memory(const struct target_maps *maps, const struct inject_python *python, uint64_t address);

/*
 * While the threads stand still: the pointers are what they were, and the C library keeps the numbers of threads where hooks
 * look for them. 0; -EAGAIN: a pointer has changed; -ENOTSUP.
 */
int check_hooks_hold(const struct inject_python *python, const struct stopped_threads *threads, const struct target_maps *maps,
		     int mem_fd, struct reason *why);

/* Whether seccomp may forbid a system call to a thread, or end it there; looks at files in /proc only. */
bool is_any_thread_filtered(pid_t pid);

/* The same for hooks of malloc; finds where the C library keeps the numbers of threads. */
int check_malloc_hooks_hold(const struct stopped_threads *threads, int mem_fd, uint64_t *ret_tid_at, struct reason *why);

#endif
