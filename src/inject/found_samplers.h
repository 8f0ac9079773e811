/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_FOUND_SAMPLERS_H
#define ALLOCSNAP_INJECT_FOUND_SAMPLERS_H

/* Finds injected samplers in a process by their sealed files. The process may have made such files itself. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "sampler/injected.h"

struct inject_found;
struct target_maps;
struct reason;

struct found_sampler {
	uint64_t dev, inode;
	bool is_active; /* a page of an allocator is replaced by one of its file */
	struct injected_table table; /* checked: addresses of pages in the right order, numbers within limits */
};

struct found_samplers {
	struct found_sampler *sampler;
	size_t sampler_nr, sampler_alloc;
};

/*
 * Where a sampler's file has the copies of the allocator's pages, one behind the other, and where in the process the pages
 * themselves are meanwhile, likewise. False: it is no such file.
 */
bool read_injected_copies(int fd, uint64_t *ret_offset, uint64_t *ret_original);

/* 0, also if the process has no samplers; or an error as in inject.h, -E2BIG: more than any process has. */
int found_samplers_read(pid_t pid, const struct target_maps *maps, struct found_samplers *ret, struct reason *why);
void found_samplers_release(struct found_samplers *found);

/* inject_find() in mappings that were read. */
int find_in_maps(pid_t pid, const struct target_maps *maps, struct inject_found *ret, struct reason *why);

/* A descriptor of a sampler's file, which no injector leaves but one that was killed. -1: none. */
int left_file(pid_t pid);

/* Whether the process at this address still has the copy of the sampler's file. */
bool found_sampler_has_page(const struct found_sampler *sampler, const struct target_maps *maps, uint32_t page);

#endif
