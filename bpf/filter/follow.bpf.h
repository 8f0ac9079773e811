/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FOLLOW_BPF_H
#define ALLOCSNAP_FOLLOW_BPF_H

/*
 * Decides whether a call whose block is not recorded is still followed to its return. A session can save the return
 * trap of such a call. But then a call inside it (calloc of musl calls malloc) is not seen as nested, and could be
 * sampled a second time. So the first calls of each function in each process image are followed. If one of them
 * contains another call, all later calls of the function are followed, too.
 */

#include "account/sample.bpf.h"

#define FOLLOWED_CALLS 64
#define FOLLOWED_FOR_GOOD (1u << 31)
#define FOLLOWED_SITES 4096 /* a power of two; enough to distinguish 64 sites of 32 images */

extern __u32 followed_sites[FOLLOWED_SITES]; /* number of calls followed, and FOLLOWED_FOR_GOOD */

/* realloc(NULL, n) counts as another function than realloc(p, n): in glibc only the first one calls malloc. */
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

/* Notes that a call contains another call. */
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

/* Calls that make mappings are always followed: they are few, and a new mapping removes the old blocks in its range. */
static __always_inline bool unwanted_is_followed(__u64 image, __u64 cookie, bool is_realloc,
						 __u64 pointer)
{
	if (!(cookie & COOKIE_IN_SESSION) || is_mapping(COOKIE_LAYER(cookie)))
		return true;
	if (is_realloc && pointer && may_be_known(COOKIE_LAYER(cookie), pointer))
		return true;
	return site_is_followed(image, COOKIE_SITE(cookie), pointer);
}

#endif
