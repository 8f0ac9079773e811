/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_TYPES_H
#define ALLOCSNAP_UNWIND_TYPES_H

/*
 * How the caller of a function is found, for each address of an ELF file: what src/unwind compiles
 * from call frame information, and unwind_lookup.h and unwind_step.h use, in the kernel too.
 *
 *	vaddr ─┬─ >> 16 ──► page[] ──► the rows of 64 KiB ─┐
 *	       └─ & 0xffff ────────────────────────────────┴─ search ──► rule id ──► rule[]
 *
 * A row is in force from its address to the next row's. Every page has one at its first byte,
 * so a search never leaves its page: rows [page[i], page[i + 1]), at least 1 and at most 65536.
 */

#include "shared/bpf_types.h"

/* Addresses are as in the file: a place in a mapping is an offset in the file, and then one. */
struct unwind_segment {
	bpf_u64 offset, end; /* [offset, end) of the file is code */
	bpf_u64 delta;	     /* address - offset */
};
_Static_assert(sizeof(struct unwind_segment) == 24, "no padding");

#define UNWIND_SEGMENTS_MAX 8 /* executable ones of one object; 1, or 2 to 4 after a BOLT */

/*
 * The low 16 bits of an address above the id of a rule: rows compare as numbers do, and two fill
 * a value of a BPF array, whose stride is 8 bytes.
 */
typedef bpf_u32 unwind_row;
_Static_assert(sizeof(unwind_row) == 4, "two to a word");

#define UNWIND_PAGE_SHIFT 16
#define UNWIND_PAGE_MASK ((1u << UNWIND_PAGE_SHIFT) - 1)
#define UNWIND_ROW(address, rule) ((unwind_row)(address) << UNWIND_PAGE_SHIFT | (rule))
#define UNWIND_ROW_ADDRESS(row) ((row) >> UNWIND_PAGE_SHIFT) /* in its page */
#define UNWIND_ROW_RULE(row) ((row) & UNWIND_PAGE_MASK)

#define UNWIND_SEARCH_STEPS 16	   /* halve a page's rows to one */
#define UNWIND_RULES_MAX (1u << 16) /* of one object; all of Debian 12 has 4,800 */

/*
 * The canonical frame address (CFA) is the caller's stack pointer; the return address lies in the
 * word below. The first three have no caller to go to.
 */
enum unwind_cfa {
	UNWIND_CFA_NONE = 0,	/* the file says nothing of this code */
	UNWIND_CFA_ROOT,	/* nobody called this: the return address is undefined */
	UNWIND_CFA_UNSUPPORTED, /* the file says something that is not in this list */
	UNWIND_CFA_SP,		/* sp + cfa_off */
	UNWIND_CFA_FP,		/* fp + cfa_off */
	UNWIND_CFA_PLT,		/* sp + cfa_off, 8 more from byte `addend` of a 16-byte slot on */
	UNWIND_CFA_SP_DEREF,	/* *(sp + cfa_off) + addend */
	UNWIND_CFA_FP_DEREF,	/* *(fp + cfa_off) + addend */
	UNWIND_CFA_SIGNAL,	/* *(sp + cfa_off), pc is the word above, fp is *(sp + fp_off) */
	UNWIND_CFA_NR,
};

/* Where the caller's frame pointer is. */
enum unwind_fp {
	UNWIND_FP_SAME = 0, /* still in the register */
	UNWIND_FP_AT_CFA,   /* *(cfa + fp_off) */
	UNWIND_FP_AT_FP,    /* *(fp + fp_off) */
	UNWIND_FP_AT_SP,    /* *(sp + fp_off) */
	UNWIND_FP_LOST,	    /* undefined, or where a rule can't say */
	UNWIND_FP_NR,
};

#define UNWIND_OFFSET_MAX ((1 << 23) - 1)
#define UNWIND_OFFSET_MIN (-(1 << 23))
#define UNWIND_ADDEND_MAX 255

/* All zero: UNWIND_CFA_NONE. What its kinds do not use is 0, so equal rules are equal words. */
struct unwind_rule {
	bpf_u32 cfa_kind : 4;
	bpf_u32 fp_kind : 4;
	int cfa_off : 24;
	int fp_off : 24;
	bpf_u32 addend : 8;
};
_Static_assert(sizeof(struct unwind_rule) == 8, "a word");
_Static_assert(UNWIND_CFA_NR <= 15 && UNWIND_FP_NR <= 16, "a kind has 4 bits; the last one is no rule's");

/* In the kernel's cache of rules: a word that is no rule says why there is none (enum unwind_end). */
#define UNWIND_MISS(end) ((bpf_u64)(end) << 4 | 15)
#define UNWIND_IS_MISS(word) (((word) & 15) == 15)
#define UNWIND_MISS_END(word) ((int)((word) >> 4))

/*
 * In the kernel all tables lie in one space of words, slab behind slab; slabs are added as tables
 * come. A table's three arrays begin at a word each; pages and rows are two to a word.
 */
#define UNWIND_SLAB_WORDS (1u << 17) /* 1 MiB */
#define UNWIND_SLABS_MAX 512 /* made as they are needed; some 3 MiB hold the files of one container */

/*
 * A file as the kernel knows it, whatever stat() says of it: device and inode numbers are the same for
 * files of several btrfs subvolumes. An address is one file's as long as the loader has it open. All zero:
 * the vDSO.
 */
struct unwind_file {
	bpf_u64 inode;	/* address of the struct inode that the mapping leads to */
	bpf_u64 number; /* the low half of the inode's number, and a hash of generation, size and modification time */
};
_Static_assert(sizeof(struct unwind_file) == 16, "no padding");

/*
 * What a process maps as code, for each 64 KiB of it: the kernel's own books are locked while others
 * change them.
 */
#define UNWIND_REGION_SHIFT 16
#define UNWIND_REGIONS_MAX (1u << 16) /* of one mapping, from its start on: 4 GiB */

struct place_key {
	bpf_u64 image;
	bpf_u64 region; /* address >> UNWIND_REGION_SHIFT */
};
_Static_assert(sizeof(struct place_key) == 16, "no padding");

/* find_file(): which file lies at an address of the process that asks. */
struct file_request {
	bpf_u64 address;
	struct unwind_file file; /* the answer; all zero: none */
};
_Static_assert(sizeof(struct file_request) == 24, "no padding");

struct unwind_place {
	struct unwind_file file;
	bpf_u64 start, end; /* of the mapping; 0, 0: there is no code */
	bpf_u64 offset;	    /* of start, in the file */
	bpf_u64 is_anonymous;
};
_Static_assert(sizeof(struct unwind_place) == 48, "no padding");

struct unwind_object {
	/* Of a file that the loader has no table of yet, or not under these numbers: who maps it, where. */
	bpf_u64 wanted_by, wanted_at; /* TGID or 0; address */
	bpf_u64 first_page;
	bpf_u32 page_nr; /* 0: there is no table */
	bpf_u32 page_at, rule_at, row_at; /* words */
	bpf_u32 segment_nr, reserved;
	bpf_u64 entry, entry_end; /* code without a rule here is where the program begins */
	struct unwind_segment segment[UNWIND_SEGMENTS_MAX];
};
_Static_assert(sizeof(struct unwind_object) == 64 + 24 * UNWIND_SEGMENTS_MAX, "no padding");

#endif
