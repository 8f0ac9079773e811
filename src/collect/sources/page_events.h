/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_PAGE_EVENTS_H
#define ALLOCSNAP_COLLECT_SOURCES_PAGE_EVENTS_H

/*
 * The kernel's event of a page fault (PERF_COUNT_SW_PAGE_FAULTS), with a BPF program. An event of a thread is inherited by
 * the threads and children that it starts. Other processes pay nothing then.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Zeroed: none. */
struct page_events {
	int *fd;
	size_t fd_nr, fd_alloc;
};

/*
 * Opens the events of all threads of a process. of_children: its children inherit them, as its threads do. A thread that
 * begins meanwhile may get two, of which the second changes nothing. 0 or a negative errno.
 */
int page_events_open(struct page_events *events, pid_t pid, bool of_children, int program_fd);

/* Opens the events of every process. 0 or a negative errno. */
int page_events_open_all(struct page_events *events, int program_fd);

/* Whether a process of ours could have such events: 0 or a negative errno. */
int trial_page_events(void);

void page_events_close(struct page_events *events);

#endif
