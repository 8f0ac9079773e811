/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_PAGE_WAYS_H
#define ALLOCSNAP_COLLECT_SOURCES_PAGE_WAYS_H

/*
 * How a recording hears of new pages (bpf/pages.bpf.c). The first way is taken that the kernel permits; src/snapshot/pages_by.h
 * says what each one lacks.
 *
 *	rmap	the kernel's functions, traced: each new page of any process, whatever brought it
 *	faults	the tracepoints of page faults, which x86-64 has; or else the kernel's event, for which only the recorded
 *		processes pay, two to four times as much
 */

#include <stdbool.h>
#include <stdint.h>

struct allocsnap_bpf;
struct bpf_link;
struct late_programs;
struct reason;

struct page_way {
	const char *name, *by;
	unsigned int program[3]; /* enum late_program; attached once, for all processes */
	uint32_t program_nr;
	bool has_events; /* page_events.h */
};

/* Zeroed: not begun. */
struct page_hearing {
	const struct page_way *way;
	struct bpf_link *link[3];
	int fd[3]; /* of their programs */
};

/* spares_others: a way that costs other processes nothing comes first. Does nothing if it has begun. 0 or a negative errno. */
int page_hearing_begin(struct page_hearing *hearing, struct late_programs *late, const struct allocsnap_bpf *bpf,
		       bool spares_others);

/*
 * How many mremaps, or rooms for mappings, the kernel has passed over, as one was preempted on the same CPU
 * (bpf_prog_info.recursion_misses). New pages are never passed over, since the page table is locked meanwhile.
 */
uint64_t page_hearing_missed(const struct page_hearing *hearing);

void page_hearing_end(struct page_hearing *hearing);

/* Tries the ways, and the list of pages, briefly. The way that a recording would take, or NULL; *ret_err: why not the first one. */
const struct page_way *trial_page_ways(int *ret_err);

#endif
