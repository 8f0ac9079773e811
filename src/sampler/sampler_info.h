/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SAMPLER_INFO_H
#define ALLOCSNAP_SAMPLER_INFO_H

/*
 * liballocsnap-sampler.so describes itself by the symbol `allocsnap_sampler` of its dynamic symbol table, in the memory
 * of the process. A recorder finds it through the file that has the probes, checks `magic` and `bytes`, and
 * treats all of it as hostile. A later version only adds members at the end.
 *
 * A recorder that listens may write `interval`, all eight bytes at once, if `interval_chosen` is not 0, and never less
 * than that. It first brings `interval_most` and `interval_changes` up to date. Each thread goes on to its next sample
 * with the interval that it has, and the weight of that sample is of that interval, so the estimates stay exact. When no
 * program listens any more, because the recorder was killed, the sampler itself returns to `interval_chosen`.
 */

#include <stdint.h>

#define SAMPLER_INFO_SYMBOL "allocsnap_sampler"
#define SAMPLER_INFO_MAGIC "asampler" /* eight characters, no NUL */
#define SAMPLER_INFO_VERSION 1

#define SAMPLER_INTERVAL_DEFAULT (UINT64_C(512) << 10)
#define SAMPLER_INTERVAL_MAX (UINT64_C(1) << 40)

/* The environment variable with the interval: digits and an optional K, M or G. */
#define SAMPLER_INTERVAL_VARIABLE "ALLOCSNAP_SAMPLE"

enum sampler_flag {
	SAMPLER_BYPASSED = 1, /* malloc of the program is not the library's: nothing is sampled */
	SAMPLER_OPERATORS_UNSEEN = 2, /* the allocator has its own operator new, which is not sampled */
	SAMPLER_EXTENSIONS_UNSEEN = 4, /* the allocator has dallocx(): a free by it is not seen */
	SAMPLER_BAD_INTERVAL = 8, /* the variable cannot be read: the default is in force */
};

struct sampler_info {
	char magic[8];
	uint32_t version;
	uint32_t bytes; /* of this struct */
	uint64_t interval; /* mean bytes between two samples, of distances drawn from now on */
	uint64_t interval_most; /* the largest one since the process began */
	uint64_t interval_changes;
	uint64_t samples; /* alloc probes fired */
	uint64_t dropped; /* samples that found no room, and were not fired */
	uint32_t flags; /* enum sampler_flag */
	uint32_t reserved;
	uint64_t interval_chosen; /* by the user; what `interval` returns to when no program listens. 0: it is never changed */
};

_Static_assert(sizeof(struct sampler_info) == 72, "other programs read it");

#endif
