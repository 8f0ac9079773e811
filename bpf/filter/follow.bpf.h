/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FOLLOW_BPF_H
#define ALLOCSNAP_FOLLOW_BPF_H

/*
 * Whether a call whose block is not wanted is followed to its return all the same. In a session the
 * return trap can be spared; but what such a call calls itself (musl's calloc calls malloc) is not known
 * as nested then, and would be chosen a second time. So the first calls of each function in each
 * process image are followed; if another call comes inside one, all are from then on.
 */

#include "account/sample.bpf.h"

#define FOLLOWED_CALLS 64
#define FOLLOWED_FOR_GOOD (1u << 31)
#define FOLLOWED_SITES 4096 /* a power of two; 64 sites of 32 images are told apart */

extern __u32 followed_sites[FOLLOWED_SITES]; /* calls followed, and FOLLOWED_FOR_GOOD */

/* realloc(NULL, n) is another function than realloc(p, n): the one calls malloc in glibc, the other not. */
static __always_inline __u32 *followed_site(__u64 image, __u32 site, __u64 pointer)
{
	return &followed_sites[(image * 128 + site * 2 + !pointer) & (FOLLOWED_SITES - 1)];
}

static __always_inline bool site_is_followed(__u64 image, __u32 site, __u64 pointer)
{
	__u32 *at = followed_site(image, site, pointer);
	__u32 seen = *(volatile __u32 *)at;

	if (seen >= FOLLOWED_CALLS)
		return seen & FOLLOWED_FOR_GOOD;
	__sync_fetch_and_add(at, 1);
	return true;
}

/* Another call was seen inside the call. */
static __always_inline void call_has_nested(struct process *process, const struct call *call)
{
	__u32 *at, seen;

	if (!is_selective())
		return;
	at = followed_site(call->image, call->site, call->pointer);
	seen = *(volatile __u32 *)at;
	if (seen & FOLLOWED_FOR_GOOD)
		return;
	if (seen >= FOLLOWED_CALLS)
		__sync_fetch_and_add(&process->loss[LOSS_nestings_late], 1);
	__sync_fetch_and_or(at, FOLLOWED_FOR_GOOD);
}

/* Mappings are few, and what lay where a new one is has gone, whether that is wanted or not. */
static __always_inline bool unwanted_is_followed(__u64 image, __u64 cookie, bool is_realloc,
						 __u64 pointer)
{
	if (!(cookie & COOKIE_IN_SESSION) || COOKIE_LAYER(cookie) == LAYER_MAPPING)
		return true;
	if (is_realloc && pointer && may_be_known(COOKIE_LAYER(cookie), pointer))
		return true;
	return site_is_followed(image, COOKIE_SITE(cookie), pointer);
}

#endif
