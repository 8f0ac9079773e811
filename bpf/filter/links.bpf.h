/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_LINKS_BPF_H
#define ALLOCSNAP_LINKS_BPF_H

/*
 * Counts each event once while a shared link and a process's own link are at one probe. Then each hit runs both
 * programs, and the loader may begin the next phase between them (src/collect/limits/own_links.h).
 *
 * The kernel runs the newest link of a probe first (consumer_add() in kernel/events/uprobes.c). The newer link notes in
 * the thread the state that it saw. When it has begun to count, the older link counts only if the note is from before,
 * or if there is none because the newer link was not there yet: then the hit began before.
 */

#include "account/thread.bpf.h"
#include "shared/links_state.h"

extern __u64 links_state; /* a number that only grows; its phase is enum links_phase */

/* Whether the link with this cookie counts the event of the running thread. */
static __always_inline bool link_counts(struct thread *thread, __u64 cookie)
{
	__u64 state;
	bool own_count, counts, others_end;

	if (!settings.has_own_links)
		return true;
	state = *(volatile __u64 *)&links_state;
	own_count = LINKS_PHASE(state) == LINKS_TO_OWN || LINKS_PHASE(state) == LINKS_OWN;
	counts = own_count == !!(cookie & COOKIE_OWN_LINK);
	others_end = LINKS_PHASE(state) == LINKS_TO_OWN || LINKS_PHASE(state) == LINKS_TO_SHARED;
	if (!thread)
		return counts;
	if (!counts && others_end)
		return thread->links < state;
	thread->links = state;
	return counts;
}

#endif
