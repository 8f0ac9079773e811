/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_SAMPLER_USE_H
#define ALLOCSNAP_COLLECT_SESSION_SAMPLER_USE_H

/*
 * Processes that sample their own heap (bpf/account/calls.bpf.h). If a process maps a file with a sampler, the
 * sampler's probes are placed first. Then its heap needs no other probes, and the kernel side is told so.
 *
 * A process of its own probes (no children are followed) whose heap is probed already stays as it is, when a sampler
 * comes later: every block costs no more than before. With shared probes the sampler counts from its first sample on.
 */

#include <stdbool.h>
#include <stdint.h>

struct collector;
struct mappings;
struct reason;
struct sampler_info;
struct target;

/* Where a sampler has its first probe, and its struct sampler_info; 0: not known. */
struct sampler_place_in_memory {
	uint64_t code, info;
};

/* Decides whether the sampler of a target is used: target->sampler. 0 or a negative errno. */
int use_sampler(struct collector *collector, struct target *target, struct reason *why);

/* With options.run_interval_bytes: an error if the program that was started has no sampler that is used. */
int require_sampler(const struct collector *collector, const struct target *target, struct reason *why);

struct sampler_place_in_memory sampler_find_info(const struct mappings *mappings, uint32_t object);

/* Whether bytes of the process are such a struct, of a version that is known. */
bool sampler_info_is_sound(const struct sampler_info *info);

/* Reads what the samplers of a target say about themselves now, all together. False: nothing can be read. */
bool sampler_sum_infos(const struct target *target, struct sampler_info *ret);

/* Remembers that. */
void read_sampler_info(struct target *target);

#endif
