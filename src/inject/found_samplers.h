/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_FOUND_SAMPLERS_H
#define ALLOCSNAP_INJECT_FOUND_SAMPLERS_H

/* Finds injected samplers and hooks in a process by their sealed files. The process may have made such files itself. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "inject/inject.h"
#include "sampler/injected.h"

struct maps_line;
struct target_maps;
struct reason;

struct found_sampler {
	enum inject_kind kind;
	uint64_t dev, inode;
	bool is_active; /* a page of an allocator is replaced by one of its file, or a pointer leads to a hook */
	struct injected_table table; /* checked: addresses in the right order, numbers within limits */
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

/* A descriptor of an injected file, which no injector leaves but one that was killed. -1: none. */
int left_file(pid_t pid);

/* A pointer that hooks were put into. UINT64_MAX: it cannot be read. */
uint64_t found_sampler_word(pid_t pid, const struct found_sampler *sampler, uint32_t word);

/* Whether a mapping is of the books of hooks. */
bool is_books(const struct maps_line *line);

/* Whether the process at this address still has the copy of the sampler's file. */
bool found_sampler_has_page(const struct found_sampler *sampler, const struct target_maps *maps, uint32_t page);

#endif
