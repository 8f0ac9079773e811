/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The allocator's functions jump here, with all registers as their caller left them (injected.h).
 *
 * A compiler that sees malloc and its callers in one file lets the callers keep values in each register that malloc does
 * not change (gcc's -fipa-ra), and call it with any alignment of the stack (-fipa-stack-alignment). So a hook changes
 * rax only, and that only in functions that return a value there. It saves r10 below the stack pointer, where a function
 * that was just called may write: signal handlers leave 128 bytes alone.
 *
 * Flags are changed: no compiler keeps them over a call (to gcc each call changes them; clang has ordered its
 * instructions before it knows the function). Vector and x87 registers are not: the C code is compiled without them.
 */
#include "sampler/injected.h"

	.file "injected_hooks.S" /* else the linker takes the name of a temporary file */
	.text

/* rax = the slot of this thread, r10 = its thread pointer; or jumps to `slow` */
.macro find_slot slow
	movq	%r10, -INJECTED_SAVED_R10(%rsp)
	movq	%fs:0, %r10
	imulq	$INJECTED_SLOT_HASH - 0x100000000, %r10, %rax
	shrq	$32 - INJECTED_SLOT_SHIFT, %rax
	andl	$(INJECTED_SLOTS - 1) << INJECTED_SLOT_SHIFT, %eax
	addq	injected_common + INJECTED_COMMON_SLOTS(%rip), %rax
	cmpq	%r10, (%rax)
	jne	\slow
.endm

/*
 * Counts in one instruction: no signal handler comes in between. A count below 0 says to the slow path that the bytes
 * are counted; after a handler that jumped out just before it got there, the next call says so.
 */
.macro count_malloc slow
	find_slot \slow
	movq	-INJECTED_SAVED_R10(%rsp), %r10
	subq	%rdi, 8(%rax)
	js	\slow
	jb	\slow
.endm

/* A product that does not fit: the function says so itself. One with the highest bit is too large for any block. */
.macro count_calloc slow
	find_slot \slow
	movq	%rdi, %r10
	imulq	%rsi, %r10
	jo	\slow
	subq	%r10, 8(%rax)
	movq	-INJECTED_SAVED_R10(%rsp), %r10
	js	\slow
	jb	\slow
.endm

/* `nr` is the number of the site. */
.macro count_outer slow
	count_malloc \slow
	leaq	injected_sites + nr * INJECTED_SITE_BYTES(%rip), %r10
	jmp	*injected_common + INJECTED_COMMON_OUTER(%rip)
.endm

.macro look_up_free slow
	movq	%r10, -INJECTED_SAVED_R10(%rsp)
	movl	%edi, %r10d
	shrl	$12, %r10d
	movzwl	%r10w, %r10d
	addq	injected_common + INJECTED_COMMON_FILTER(%rip), %r10
	cmpb	$0, (%r10)
	jne	\slow
	movq	-INJECTED_SAVED_R10(%rsp), %r10
.endm

.macro count_other slow
	movq	%r10, -INJECTED_SAVED_R10(%rsp)
	jmp	\slow
.endm

/* `sites` hooks of a kind, from site `first` on */
.macro hooks kind, count, sites, first
	.globl	hook_\kind
	.hidden	hook_\kind
	.type	hook_\kind, @function
	.balign	32
hook_\kind:
	.cfi_startproc
	nr = \first
	.rept	\sites
777:	\count 778f
	jmp	trampolines + nr * INJECTED_TRAMPOLINE_BYTES
778:	leaq	injected_sites + nr * INJECTED_SITE_BYTES(%rip), %r10
	jmp	*injected_common + INJECTED_COMMON_SLOW(%rip)
	.org	777b + INJECTED_HOOK_BYTES, 0xcc
	nr = nr + 1
	.endr
	.cfi_endproc
	.size	hook_\kind, . - hook_\kind
.endm

#ifdef INJECTED_EXACT /* each call is recorded (exact/malloc_hooks.c) */
	hooks	malloc, count_other, INJECTED_MALLOC_SITES, 0
	hooks	calloc, count_other, INJECTED_CALLOC_SITES, INJECTED_MALLOC_SITES
	hooks	free, count_other, INJECTED_FREE_SITES, INJECTED_MALLOC_SITES + INJECTED_CALLOC_SITES
	hooks	outer, count_other, INJECTED_OUTER_SITES, INJECTED_MALLOC_SITES + INJECTED_CALLOC_SITES + INJECTED_FREE_SITES
	hooks	other, count_other, INJECTED_OTHER_SITES, INJECTED_MALLOC_SITES + INJECTED_CALLOC_SITES + INJECTED_FREE_SITES + INJECTED_OUTER_SITES
#else
	hooks	malloc, count_malloc, INJECTED_MALLOC_SITES, 0
	hooks	calloc, count_calloc, INJECTED_CALLOC_SITES, INJECTED_MALLOC_SITES
	hooks	free, look_up_free, INJECTED_FREE_SITES, INJECTED_MALLOC_SITES + INJECTED_CALLOC_SITES
	hooks	outer, count_outer, INJECTED_OUTER_SITES, INJECTED_MALLOC_SITES + INJECTED_CALLOC_SITES + INJECTED_FREE_SITES
	hooks	other, count_other, INJECTED_OTHER_SITES, INJECTED_MALLOC_SITES + INJECTED_CALLOC_SITES + INJECTED_FREE_SITES + INJECTED_OUTER_SITES
#endif

/*
 * r10 = the site; its own value is where find_slot has saved it. Goes on with all registers as they were, but rax if a
 * result is returned. The stack is aligned, as the function that is called may not be the one that the caller knows.
 */
	.type	slow, @function
	.balign	32
slow:
	.cfi_startproc
	pushq	%rbp
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rbp, -16
	movq	%rsp, %rbp
	.cfi_def_cfa_register %rbp
	subq	$96, %rsp
	andq	$-16, %rsp
	movq	%r11, -16(%rbp)
	movq	%rax, -24(%rbp)
	movq	%r9, -32(%rbp)
	movq	%r8, -40(%rbp)
	movq	%rcx, -48(%rbp)
	movq	%rdx, -56(%rbp)
	movq	%rsi, -64(%rbp)
	movq	%rdi, -(INJECTED_PLACE - 8)(%rbp)
	leaq	-(INJECTED_PLACE - 8)(%rbp), %rdi
	movq	%r10, %rsi
	call	injected_slow
	movq	%rdx, -80(%rbp)
	movq	-8(%rbp), %r10
	movq	-16(%rbp), %r11
	movq	-32(%rbp), %r9
	movq	-40(%rbp), %r8
	movq	-48(%rbp), %rcx
	movq	-56(%rbp), %rdx
	movq	-64(%rbp), %rsi
	movq	-72(%rbp), %rdi
	cmpq	$0, -80(%rbp)
	je	1f
	movq	-24(%rbp), %rax
	.cfi_remember_state
	leave
	.cfi_def_cfa %rsp, 8
	jmp	*-88(%rsp)
	.cfi_restore_state
1:	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size	slow, . - slow

/*
 * Calls the function as call_through() does (injected.c). r10 = the site, rax = the slot. Below the caller's stack
 * pointer lie: the slot, r10, left, interval, the trampoline.
 */
	.type	outer, @function
	.balign	32
outer:
	.cfi_startproc
	movq	(%r10), %r10
	movq	%r10, -40(%rsp)
	movq	%rax, -8(%rsp)
	movq	8(%rax), %r10
	movq	%r10, -24(%rsp)
	movq	16(%rax), %r10
	movq	%r10, -32(%rsp)
	movl	$INJECTED_PLACE, %r10d
	subq	%rsp, %r10
	shlq	$INJECTED_PLACE_SHIFT, %r10
	movq	%r10, 16(%rax)
	movq	$0, 8(%rax)
	lock incq 24(%rax)
	movq	-INJECTED_SAVED_R10(%rsp), %r10
	subq	$40, %rsp
	.cfi_adjust_cfa_offset 40
	call	*(%rsp)
	addq	$40, %rsp
	.cfi_adjust_cfa_offset -40
	movq	%r10, -INJECTED_SAVED_R10(%rsp)
	movq	-8(%rsp), %r10
	lock decq 24(%r10)
	pushq	-24(%rsp)
	popq	8(%r10)
	pushq	-32(%rsp)
	popq	16(%r10)
	movq	-INJECTED_SAVED_R10(%rsp), %r10
	ret
	.cfi_endproc
	.size	outer, . - outer

/* struct injected_common */
	.globl	injected_common
	.hidden	injected_common
	.type	injected_common, @object
	.balign	64
injected_common:
	.skip	INJECTED_COMMON_BYTES
	.size	injected_common, . - injected_common

/* Filled by the injector. They are code and constants to the process. */
	.globl	trampolines
	.hidden	trampolines
	.type	trampolines, @function
	.balign	INJECTED_TRAMPOLINE_BYTES
trampolines:
	.cfi_startproc
	.skip	INJECTED_SITES * INJECTED_TRAMPOLINE_BYTES, 0xcc
	.cfi_endproc
	.size	trampolines, . - trampolines

	.globl	injected_sites
	.hidden	injected_sites
	.type	injected_sites, @object
	.balign	INJECTED_SITE_BYTES
injected_sites:
	.skip	INJECTED_SITES * INJECTED_SITE_BYTES
	.size	injected_sites, . - injected_sites

	.section .note.GNU-stack, "", @progbits
