/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_INJECT_PLACING_H
#define ALLOCSNAP_COLLECT_INJECT_PLACING_H

/*
 * Maps one sampler into a stopped process, and exchanges its allocator's pages. Each step can be taken back while the
 * threads are stopped.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "collect/inject/sampler_image.h"

struct remote_caller;

struct placing {
	struct inject_allocator *allocator;
	struct sampler_image image;
	long remote_fd;	   /* in the process; negative: none */
	bool is_mapped;
	uint32_t exchanged_nr; /* pages */
};

/* Makes the memory file in the process, and maps the sampler from it. No code of the process changes. */
int place_sampler(struct placing *placing, const struct injected_file *file, struct remote_caller *caller, pid_t pid,
		  struct reason *why);

/* Maps the copies over the allocator's pages. Each page is exchanged at once: there is never a hole. */
int exchange_pages(struct placing *placing, struct remote_caller *caller, struct reason *why);

/* Gives the allocator its own page back. 0 or -errno */
int give_page_back(struct remote_caller *caller, uint64_t address, uint64_t parked);

/* Closes the file in the process; after an error, takes all back. */
void end_placing(struct placing *placing, struct remote_caller *caller, bool has_failed);

#endif
