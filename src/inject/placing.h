/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_PLACING_H
#define ALLOCSNAP_INJECT_PLACING_H

/*
 * Maps one sampler into a stopped process, and makes its allocator call it. Each step can be taken back while the threads
 * are stopped.
 *
 * If the injector is killed amid a remote call, the calling thread makes it while all the others run. So no remote call
 * changes code: the copies that are mapped over the allocator's pages have the same bytes. The jumps are written by this
 * process itself, in one word each. The thread then closes the file, and until pages are exchanged it also unmaps the
 * sampler (remote_caller_undo()).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "inject/sampler_image.h"

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

/*
 * Before pages are exchanged: if the injector is killed from here on, the samplers of these nr allocators stay mapped, with
 * the allocators' pages. 0 or -EIO
 */
int keep_mapped(const struct placing *placing, uint32_t nr, struct remote_caller *caller);

/* Maps the copies over the allocator's pages. Each page is exchanged at once: there is never a hole. */
int exchange_pages(struct placing *placing, struct remote_caller *caller, struct reason *why);

/* No thread may be amid the bytes that the jumps replace. */
int write_jumps(const struct placing *placing, const struct remote_caller *caller, struct reason *why);

/* After an error: gives the allocator its own pages back. False: it could not have all of them. */
bool unexchange_pages(struct placing *placing, struct remote_caller *caller);

/*
 * Gives the allocator its own page back. Where that was parked, nothing else may be mapped: all of the sampler's room is
 * unmapped at once. 0 or -errno
 */
int give_page_back(struct remote_caller *caller, uint64_t address, uint64_t parked);

/*
 * Closes the files in the process. After an error it also unmaps the samplers, if the allocators have all their own pages.
 * False: something is left.
 */
bool end_placing(struct placing *placing, uint32_t nr, struct remote_caller *caller, bool unmaps);

#endif
