/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_SAMPLER_SOURCE_H
#define ALLOCSNAP_COLLECT_SOURCES_SAMPLER_SOURCE_H

/*
 * Processes that sample their own heap (bpf/account/calls.bpf.h). If a process maps a file with a sampler, the
 * sampler's probes are placed first. Then its heap needs no other probes: the accounting shows this to the kernel side.
 *
 * A process of its own probes (no children are followed) whose heap is probed already stays as it is, when a sampler
 * comes later: every block costs no more than before. With shared probes the sampler counts from its first sample on.
 */

#include <stdbool.h>
#include <stdint.h>

struct mappings;
struct sampler_info;
struct target;

/* Where a sampler has its first probe, and its struct sampler_info; 0: not known. */
struct sampler_place_in_memory {
	uint64_t code, info;
};

struct sampler_place_in_memory sampler_find_info(const struct mappings *mappings, uint32_t object);

/* Whether bytes of the process are such a struct, of a version that is known. */
bool sampler_info_is_sound(const struct sampler_info *info);

/* Reads what the samplers of a target say about themselves now, all together. False: nothing can be read. */
bool sampler_sum_infos(const struct target *target, struct sampler_info *ret);

#endif
