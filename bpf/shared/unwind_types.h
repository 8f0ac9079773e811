/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_TYPES_H
#define ALLOCSNAP_UNWIND_TYPES_H

/*
 * Unwind tables: for each address of an ELF file, the rule that finds the caller. src/unwind compiles them from
 * call frame information. unwind_lookup.h and unwind_step.h use them, also in the kernel.
 *
 *	vaddr ─┬─ >> 16 ──► page[] ──► the rows of 64 KiB ─┐
 *	       └─ & 0xffff ────────────────────────────────┴─ search ──► rule id ──► rule[]
 *
 * A row holds from its address to the address of the next row. Every page has a row at its first byte,
 * so a search never leaves its page: rows [page[i], page[i + 1]), at least 1 and at most 65536.
 */

#include "shared/bpf_types.h"

/* Tables use the addresses of the file. A place in a mapping gives a file offset, and the offset gives the address. */
struct unwind_segment {
	bpf_u64 offset, end; /* [offset, end) of the file is code */
	bpf_u64 delta;	     /* address - offset */
};
_Static_assert(sizeof(struct unwind_segment) == 24, "no padding");

#define UNWIND_SEGMENTS_MAX 8 /* executable segments of one object; usually 1, or 2 to 4 after BOLT */

/*
 * A row: the low 16 bits of an address in the upper half, the id of a rule in the lower half. So rows compare as
 * numbers, and two rows fill one value of a BPF array, whose stride is 8 bytes.
 */
typedef bpf_u32 unwind_row;
_Static_assert(sizeof(unwind_row) == 4, "two to a word");

#define UNWIND_PAGE_SHIFT 16
#define UNWIND_PAGE_MASK ((1u << UNWIND_PAGE_SHIFT) - 1)
#define UNWIND_ROW(address, rule) ((unwind_row)(address) << UNWIND_PAGE_SHIFT | (rule))
#define UNWIND_ROW_ADDRESS(row) ((row) >> UNWIND_PAGE_SHIFT) /* offset in its page */
#define UNWIND_ROW_RULE(row) ((row) & UNWIND_PAGE_MASK)

#define UNWIND_SEARCH_STEPS 16	   /* halvings that leave one row of a page */
#define UNWIND_RULES_MAX (1u << 16) /* per object; all of Debian 12 together has 4,800 */

/* The canonical frame address (CFA) is the caller's stack pointer. The first three kinds lead to no caller. */
enum unwind_cfa {
	UNWIND_CFA_NONE = 0,	/* the file has no information about this code */
	UNWIND_CFA_ROOT,	/* the function has no caller: the return address is undefined */
	UNWIND_CFA_UNSUPPORTED, /* the file has a rule of a kind that is not in this list */
	UNWIND_CFA_SP,		/* sp + cfa_off */
	UNWIND_CFA_FP,		/* fp + cfa_off */
	UNWIND_CFA_PLT,		/* sp + cfa_off; 8 more from byte `addend` of a 16-byte slot on */
	UNWIND_CFA_SP_DEREF,	/* *(sp + cfa_off) + addend */
	UNWIND_CFA_FP_DEREF,	/* *(fp + cfa_off) + addend */
	UNWIND_CFA_SIGNAL,	/* *(sp + cfa_off), pc is the word above, fp is *(sp + fp_off), the link register as the kind of return says */
	UNWIND_CFA_SWITCH,	/* on another stack: see UNWIND_SWITCH() */
	UNWIND_CFA_LEFT,	/* on the stack that the latest switch has left: its sp + cfa_off */
	UNWIND_CFA_NR,
};

/* Where the caller's frame pointer is. */
enum unwind_fp {
	UNWIND_FP_SAME = 0, /* still in the register */
	UNWIND_FP_AT_CFA,   /* *(cfa + fp_off) */
	UNWIND_FP_AT_FP,    /* *(fp + fp_off) */
	UNWIND_FP_AT_SP,    /* *(sp + fp_off) */
	UNWIND_FP_LOST,	    /* undefined, or a rule cannot express it */
	UNWIND_FP_NR,
};

/*
 * Where the return address is. x86-64's call pushes it. arm64's call puts it into the link register; a function that calls
 * others saves this register, mostly as a pair with the frame pointer. A saved address may be signed (PAC).
 */
enum unwind_return {
	UNWIND_RETURN_BELOW_CFA = 0, /* *(cfa - 8) */
	UNWIND_RETURN_ABOVE_FP,	     /* the word above the one that has the caller's frame pointer */
	UNWIND_RETURN_AT_CFA,	     /* *(cfa + fp_off); the frame pointer is the same or lost */
	UNWIND_RETURN_IN_LINK,	     /* still in the link register */
	UNWIND_RETURN_NR,
};

#define UNWIND_OFFSET_MAX ((1 << 23) - 1)
#define UNWIND_OFFSET_MIN (-(1 << 23))
#define UNWIND_FP_OFFSET_MAX ((1 << 21) - 1)
#define UNWIND_FP_OFFSET_MIN (-(1 << 21))
#define UNWIND_ADDEND_MAX 255

/* Addresses of user space have 48 bits, unless a program asks for more; arm64's signature of a pointer lies above them. */
#define UNWIND_UNSIGNED(address) ((address) & ((1ULL << 48) - 1))

/*
 * cfa_off of a switch of stacks. The CFA is *(*(sp + state) + end) - *(sp + addend) + above: the other stack's end, and
 * how far below it the thread was.
 */
#define UNWIND_SWITCH(state, end, above) ((above) << 16 | (end) << 8 | (state))
#define UNWIND_SWITCH_STATE(cfa_off) ((cfa_off) & 0xff)
#define UNWIND_SWITCH_END(cfa_off) ((cfa_off) >> 8 & 0xff)
#define UNWIND_SWITCH_ABOVE(cfa_off) ((cfa_off) >> 16)

/* All zero: UNWIND_CFA_NONE. Fields that its kinds do not use are 0, so equal rules are equal words. */
struct unwind_rule {
	bpf_u32 cfa_kind : 4;
	bpf_u32 fp_kind : 4;
	int cfa_off : 24;
	int fp_off : 22;
	bpf_u32 return_kind : 2;
	bpf_u32 addend : 8;
};
_Static_assert(sizeof(struct unwind_rule) == 8, "a word");
_Static_assert(UNWIND_CFA_NR <= 15 && UNWIND_FP_NR <= 16 && UNWIND_RETURN_NR <= 4, "a kind has 4 or 2 bits; the last one of a CFA is no rule's");

/* A word in the kernel's rule cache that is not a rule says why an address has no rule (enum unwind_end). */
#define UNWIND_MISS(end) ((bpf_u64)(end) << 4 | 15)
#define UNWIND_IS_MISS(word) (((word) & 15) == 15)
#define UNWIND_MISS_END(word) ((int)((word) >> 4))

/*
 * In the kernel all tables share one space of words, made of consecutive slabs. The loader adds slabs as tables
 * come. The three arrays of a table begin at a word each; a word holds two pages or two rows.
 */
#define UNWIND_SLAB_WORDS (1u << 17) /* 1 MiB */
#define UNWIND_SLABS_MAX 512 /* the loader makes them on demand; about 3 MiB hold the files of one container */

/*
 * Identity of a file inside the kernel. The numbers of stat() are no identity: files of several btrfs subvolumes
 * may share device and inode number. The inode address identifies a file as long as the loader has the file open.
 * All zero: the vDSO.
 */
struct unwind_file {
	bpf_u64 inode;	/* address of the struct inode that the mapping leads to */
	bpf_u64 number; /* low half of the inode number, and a hash of generation, size and modification time */
};
_Static_assert(sizeof(struct unwind_file) == 16, "no padding");

/*
 * The map unwind_places has the code mappings of processes, with one entry for each 64 KiB of code. The kernel's
 * own list of mappings is locked while another thread changes it.
 */
#define UNWIND_REGION_SHIFT 16
#define UNWIND_REGIONS_MAX (1u << 16) /* per mapping, from its start on: 4 GiB */

struct place_key {
	bpf_u64 image;
	bpf_u64 region; /* address >> UNWIND_REGION_SHIFT */
};
_Static_assert(sizeof(struct place_key) == 16, "no padding");

/* Argument of file_find(), which finds the file at an address of the calling process. */
struct file_request {
	bpf_u64 address;
	struct unwind_file file; /* the answer; all zero: no file */
};
_Static_assert(sizeof(struct file_request) == 24, "no padding");

struct unwind_place {
	struct unwind_file file;
	bpf_u64 start, end; /* bounds of the mapping; 0, 0: no code */
	bpf_u64 offset;	    /* file offset of start */
	bpf_u64 is_anonymous;
};
_Static_assert(sizeof(struct unwind_place) == 48, "no padding");

/*
 * A file may hold pages of code that are mapped in place of another file's: from this offset on they are those that lie at
 * `original` in the process. 0, 0: it has none.
 */
struct unwind_copies {
	bpf_u64 offset, original;
};

struct unwind_object {
	/* A file without a table, or without one under these numbers: a process that maps it, and where. */
	bpf_u64 wanted_by, wanted_at; /* TGID or 0; address */
	bpf_u64 first_page;
	bpf_u32 page_nr; /* 0: no table */
	bpf_u32 page_at, rule_at, row_at; /* first word of each array */
	bpf_u32 segment_nr, reserved;
	bpf_u64 entry, entry_end; /* code without a rule in this range is the start of the program */
	struct unwind_copies copies;
	struct unwind_segment segment[UNWIND_SEGMENTS_MAX];
};
_Static_assert(sizeof(struct unwind_object) == 80 + 24 * UNWIND_SEGMENTS_MAX, "no padding");

/* The current frame of an unwinder, and the results of its steps (unwind_step.h). */

/*
 * Results of a step: X(name, meaning). The last three come from the search for the rule, not from unwind_step().
 */
#define UNWIND_ENDS(X) \
	X(GOES_ON, "the frame is the caller's now") \
	X(ROOT, "the stack begins here: this function has no caller") \
	X(NO_RULE, "code without call frame information") \
	X(UNSUPPORTED, "call frame information of a kind that is not followed") \
	X(UNREADABLE, "the stack could not be read") \
	X(BACKWARDS, "the caller's frame would not lie above this one") \
	X(NO_FP, "the frame pointer or the link register is needed, and was lost on the way") \
	X(NO_TABLE, "code of a file whose unwind table was not there, or made at run time") \
	X(NO_CODE, "the return address is not in code") \
	X(BUSY, "the mappings could not be looked at just then")

enum unwind_end {
#define X(name, meaning) UNWIND_##name,
	UNWIND_ENDS(X)
#undef X
	UNWIND_END_NR,
};

struct unwind_frame {
	bpf_u64 pc, sp, fp;
	bpf_u32 is_exact; /* pc is where a signal interrupted the thread, not a return address */
	unsigned short is_fp_lost;
	unsigned short is_sp_lost; /* sp is only below the frame's end: a guess by frame pointer on arm64 */
	bpf_u64 link;	 /* arm64's link register, if it is known, which it is of exact frames; else 0 */
	bpf_u64 left_sp; /* where the latest UNWIND_CFA_SWITCH left its stack; 0: the walk is there again */
};

#endif
