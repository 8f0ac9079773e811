/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_PRELOAD_SAMPLER_H
#define ALLOCSNAP_CLI_PRELOAD_SAMPLER_H

/* The environment of a program that is to load liballocsnap-sampler.so (src/sampler), or liballocsnap-exact.so (src/exact). */

#include <stdint.h>

struct reason;

/* The variables as they were; NULL: not set. */
struct preload {
	char *preloaded, *sample;
};

/*
 * Puts the library in front of LD_PRELOAD, where it comes before other allocators, and the interval into
 * ALLOCSNAP_SAMPLE. 0, or a negative errno with a line in *why and nothing changed.
 */
int preload_sampler(struct preload *ret_before, uint64_t interval_bytes, struct reason *why);

/* The same for liballocsnap-exact.so; collector__run() sets its variable. */
int preload_exact(struct preload *ret_before, struct reason *why);

/* Restores the environment. */
void preload_restore(struct preload *before);

#endif
