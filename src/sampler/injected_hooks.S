/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the allocator's functions jump to, with all registers as their caller left them (injected.h). What is no sample
 * changes only rax, r10 and r11, and rdx in calloc: no arguments of the function, and a callee may change them.
 */
#include "sampler/injected.h"

	.text

/* rax = the slot of this thread, or jumps to `slow` */
.macro find_slot slow
	movq	%fs:0, %r10
	imulq	$INJECTED_SLOT_HASH - 0x100000000, %r10, %r11
	shrq	$32, %r11
	andl	$INJECTED_SLOTS - 1, %r11d
	shlq	$5, %r11
	leaq	injected_slots(%rip), %rax
	addq	%r11, %rax
	cmpq	%r10, (%rax)
	jne	\slow
.endm

/* Counts `bytes`, and jumps to `slow` without counting if a sample is due. */
.macro count_bytes bytes, slow
	movq	8(%rax), %r11
	subq	\bytes, %r11
	jb	\slow
	movq	%r11, 8(%rax)
.endm

.macro count_malloc slow
	find_slot \slow
	count_bytes %rdi, \slow
.endm

/* The product is in rdx, as rax is the slot's. A product that does not fit: the function says so itself. */
.macro count_calloc slow
	movq	%rdi, %rax
	mulq	%rsi
	jo	\slow
	movq	%rax, %rdx
	find_slot \slow
	count_bytes %rdx, \slow
.endm

.macro look_up_free slow
	movq	%rdi, %rax
	shrq	$12, %rax
	movzwl	%ax, %eax
	leaq	injected_filter(%rip), %r10
	cmpb	$0, (%r10, %rax)
	jne	\slow
.endm

.macro count_other slow
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
	jmp	slow
	.org	777b + INJECTED_HOOK_BYTES, 0xcc
	nr = nr + 1
	.endr
	.cfi_endproc
	.size	hook_\kind, . - hook_\kind
.endm

	hooks	malloc, count_malloc, INJECTED_MALLOC_SITES, 0
	hooks	calloc, count_calloc, INJECTED_CALLOC_SITES, INJECTED_MALLOC_SITES
	hooks	free, look_up_free, INJECTED_FREE_SITES, INJECTED_MALLOC_SITES + INJECTED_CALLOC_SITES
	hooks	other, count_other, INJECTED_OTHER_SITES, INJECTED_MALLOC_SITES + INJECTED_CALLOC_SITES + INJECTED_FREE_SITES

/* r10 = the site */
	.type	slow, @function
	.balign	32
slow:
	.cfi_startproc
	subq	$56, %rsp
	.cfi_adjust_cfa_offset 56
	movq	%rdi, (%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	%rcx, 24(%rsp)
	movq	%r8, 32(%rsp)
	movq	%r9, 40(%rsp)
	movq	%rsp, %rdi
	movq	%r10, %rsi
	call	injected_slow
	testq	%rdx, %rdx
	jnz	1f
	addq	$56, %rsp
	.cfi_adjust_cfa_offset -56
	ret
	.cfi_adjust_cfa_offset 56
1:	movq	%rdx, %r10
	movq	(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	movq	24(%rsp), %rcx
	movq	32(%rsp), %r8
	movq	40(%rsp), %r9
	addq	$56, %rsp
	.cfi_adjust_cfa_offset -56
	jmp	*%r10
	.cfi_endproc
	.size	slow, . - slow

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
