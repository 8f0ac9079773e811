/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RETURNS_BPF_H
#define ALLOCSNAP_RETURNS_BPF_H

/*
 * Where a pending call has its return address: on arm64 in the link register, and wherever the function saves it before it
 * calls another one.
 */

static __always_inline void note_link(struct pt_regs *ctx, struct thread *thread)
{
	if (thread)
		thread->entry_link = UNWIND_UNSIGNED(LINK_REGISTER(ctx));
}

/* The return address at an entry; 0: not known. */
static __always_inline __u64 return_address_at_entry(const struct thread *thread, __u64 sp)
{
	return thread->entry_link;
}

#define SAVED_WORDS 64 /* the largest frame of an allocator's function; glibc's realloc has 14 */

/* Whether a word below the call's stack pointer is its return address. Memory that cannot be read does not show it. */
__weak __noinline int return_is_saved(struct thread *thread, __u64 call_sp, __u64 return_address)
{
	__u64 *word;

	if (!thread)
		return 1;
	word = thread->walk.window;
	thread->walk.window_words = 0;
	if (bpf_probe_read_user(word, SAVED_WORDS * 8, (void *)(call_sp - SAVED_WORDS * 8)))
		return 1;
	for (int i = 0; i < SAVED_WORDS; i++)
		if (UNWIND_UNSIGNED(word[i]) == return_address)
			return 1;
	return 0;
}

/*
 * Whether the call is under way, at an entry or a return with stack pointer sp. A return probe has hijacked the return
 * address of its call, and the kernel knows that. Otherwise, with the same stack pointer the link register has the address:
 * the function returns, or has jumped to another one. With a lower one the function has called another one, and so has
 * saved the address. Dead memory may still have it, as on x86-64.
 */
static __always_inline bool return_is_kept(struct thread *thread, const struct call *call, __u64 sp)
{
	if (!call->return_address)
		return hijacked_return(call->sp) != 0;
	if (sp == call->sp)
		return thread->entry_link == call->return_address;
	return return_is_saved(thread, call->sp, call->return_address);
}

#endif
