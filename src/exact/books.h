/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_BOOKS_H
#define ALLOCSNAP_EXACT_BOOKS_H

/*
 * The books of a process that records its own blocks: a sparse memory file that the process maps and writes
 * (python_hooks.c, exact_preload.c), and that the recorder reads (books_reader.h). The file outlives the process.
 *
 *	head			counts, and what the recorder says to the hooks
 *	threads			a slot for each thread: its memo of its last walk, and its totals
 *	directory, chunks	the shadow of the heap: a word for each 32 bytes of addresses; small blocks. Where two blocks begin
 *				there, the other one's word lies in the second half of the chunk
 *	seconds			64 bits for each chunk: which pages of its second half have words
 *	levels			a hash of addresses: larger blocks. A full neighbourhood makes the next level, of double size
 *	handed			blocks that were freed while a snapshot was read that they belong to
 *	buckets, nodes		the trie of tracebacks: a node is a frame and the node of its caller
 *	totals			of tracebacks that have blocks
 *	codes			Python: code objects: where each is now, by hash; contents, by hash; texts
 *	known, tables		malloc: code of the process and its unwind tables, and stacks, as the recorder has found them
 *	copies			malloc: stacks whose code was not known yet, which the recorder walks
 *
 * A block is in the books from after its allocator has returned until before the allocator has it back: so the
 * allocator's own hand-over orders threads, and a word has one writer at a time. Only the first word of 32 bytes may be wanted by
 * two threads that enter blocks there: an atomic instruction gives it to one of them.
 *
 * All of it may be written by the process at any time: the recorder trusts nothing in it.
 */

#include <stdint.h>

#include "shared/python_types.h"
#include "shared/unwind_types.h"

#define BOOKS_MAGIC "asbooks" /* with its NUL */
#define BOOKS_VERSION 2

/* The allocator whose blocks they have. */
enum books_kind {
	BOOKS_OF_PYTHON,
	BOOKS_OF_MALLOC,
};

/* ---- the word of a block ---- */

#define BLOCK_NODE_BITS 24	/* where its traceback ends in the trie */
#define BLOCK_IS_ODD (UINT64_C(1) << 24) /* a small block that begins in the second half of its 32 bytes */
#define BLOCK_SIZE_SHIFT 25
#define BLOCK_SIZE_BITS 10	/* small blocks only */
#define BLOCK_IS_LIVE (UINT64_C(1) << 35)
#define BLOCK_IS_CODE (UINT64_C(1) << 36) /* a known code object begins here; without IS_LIVE, one from before the recording */
#define BLOCK_THREAD_SHIFT 37
#define BLOCK_THREAD_BITS 12	/* the slot of the thread */
#define BLOCK_EPOCH_SHIFT 49
#define BLOCK_EPOCH_BITS 15

#define BLOCK_NODE(word) ((uint32_t)(word) & ((1u << BLOCK_NODE_BITS) - 1))
#define BLOCK_SIZE(word) ((uint32_t)((word) >> BLOCK_SIZE_SHIFT) & ((1u << BLOCK_SIZE_BITS) - 1))
#define BLOCK_THREAD(word) ((uint32_t)((word) >> BLOCK_THREAD_SHIFT) & ((1u << BLOCK_THREAD_BITS) - 1))
#define BLOCK_EPOCH(word) ((uint32_t)((word) >> BLOCK_EPOCH_SHIFT))

#define BOOKS_EPOCHS_MAX (1u << BLOCK_EPOCH_BITS)
#define BOOKS_SMALL_MAX 512 /* bytes of a block in the shadow: pymalloc's (SMALL_REQUEST_THRESHOLD, Objects/obmalloc.c) */

/* ---- the head ---- */

#define BOOKS_OFF UINT64_MAX

enum books_loss {
	BOOKS_LOST_THREADS,    /* blocks of threads without a slot */
	BOOKS_LOST_BLOCKS,     /* no room in the shadow or in the levels */
	BOOKS_LOST_TRACEBACKS, /* no room in the trie: blocks without a traceback */
	BOOKS_LOST_CODES,      /* frames of code objects for which there was no room */
	BOOKS_LOST_HANDED,     /* blocks that a snapshot lacks, as they were freed while it was read */
	BOOKS_UNSEEN_FREES,    /* blocks found in the books where the allocator has just given another: they were freed unseen */
	BOOKS_DEEP,	       /* walks without outer frames: they had more than BOOKS_DEEPEST, or there was no room for the stack's copy */
	BOOKS_LOST_AMID,       /* blocks of a signal handler that has interrupted a hook */
	BOOKS_LOSS_NR,
};

struct books_head {
	char magic[8];
	uint32_t version, kind; /* enum books_kind */
	/*
	 * By the recorder, in one store: the epoch that blocks get at their birth, below BOOKS_EPOCHS_MAX; in the upper half
	 * 0, or: blocks of epochs below this one are being read, and are handed over when they are freed. BOOKS_OFF: the hooks
	 * only pass on.
	 */
	uint64_t now;
	/* By the recorder, in one store: which struct books_known holds, by the last bit; how often code was replaced by other code. */
	union { struct { uint32_t known_nr, replaced_nr; }; uint64_t lists; };
	uint64_t pad2[4];
	/* By the hooks, on another line of the cache. */
	uint32_t chunk_nr, level_nr, node_nr, code_nr, handed_nr;
	uint32_t has_seconds; /* a second half of a chunk has words */
	uint64_t text_bytes;
	uint32_t codes_lock;
	uint32_t gone_nr; /* code objects that have ended */
	uint32_t totals_nr, pad3;
	uint64_t lost[BOOKS_LOSS_NR];
	uint64_t compared, differ; /* walks, by hooks that were built to compare each with one without its memo (tests) */
	uint64_t closed_nr;	   /* how often the process may have unmapped code: at the beginning and at the end of dlclose() */
	uint64_t wanted_code, wanted_stack; /* addresses of which the recorder has said nothing yet; 0: none */
	uint64_t copied_bytes;
	uint64_t walked_bytes; /* by the recorder: so many of them are done */
	uint64_t closed_ns; /* CLOCK_MONOTONIC: when closed_nr was first raised since the list that holds; 0: never */
};

/* ---- threads ---- */

#define BOOKS_THREADS (1u << BLOCK_THREAD_BITS)
#define BOOKS_THREAD_TRIES 16
#define BOOKS_TIMED_EACH 1024
#define BOOKS_TIMED_MOST 20000 /* cycles: more are of a thread that has lost its processor meanwhile */
#define BOOKS_DEEPEST 4096
#define BOOKS_PLACES 1024
#define BOOKS_CHILDREN 1024

struct books_frame {
	uint64_t frame, instruction;
	uint32_t node, pad;
};

/* A frame of native code. */
struct books_native_frame {
	uint64_t sp, pc, fp;
	uint64_t fp_at; /* where fp was read; 0: the frame that was called has the same one */
	uint32_t node;
	uint32_t flags; /* enum books_frame_flag */
};

/* A frame in the memo of a thread: what a walk compares first, and the rest. */
struct books_place {
	uint64_t sp, pc; /* pc lies just below sp */
};
struct books_frame_rest {
	uint64_t fp, fp_at;
	uint32_t node, flags;
};

enum books_frame_flag {
	BOOKS_FRAME_EXACT = 1,	    /* pc is where a signal came, not a return address */
	BOOKS_FRAME_UNCHECKED = 2,  /* it was found by words that the memo does not have */
	BOOKS_FRAME_NEEDS_FP = 4,   /* a frame further out was found by its fp */
	BOOKS_FRAME_FP_LOST = 8,
	BOOKS_FRAME_GUESSED = 16,   /* by the frame pointer of code without a table */
	BOOKS_FRAME_NONE = 32,	    /* pc is in no code, and ends the walk: the memo compares it, the traceback does not have it */
};

#define BOOKS_NATIVE_DEEPEST 512

/* How the caller of a return address is found, if by a common rule, and the node that the address had last. */
struct books_step {
	uint64_t pc;	 /* 0: none */
	uint32_t cfa_at; /* the caller's stack pointer, from the own one on */
	int32_t fp_at;	 /* where the caller's fp is saved, likewise; BOOKS_FP_SAME: nowhere */
	union {
		struct { uint32_t parent, node; };
		uint64_t node_below; /* both, written at once */
	};
	uint64_t pad;
};

#define BOOKS_STEPS_SHIFT 11
#define BOOKS_STEPS (1u << BOOKS_STEPS_SHIFT)
#define BOOKS_FP_SAME (-1)

/* Counts of a thread for a node, which are not added to its totals yet. */
struct books_count {
	uint32_t node, pad;
	uint64_t allocations, allocated_bytes, temporary, temporary_bytes;
};

#define BOOKS_COUNTS 512

#define BOOKS_TAIL_FRAMES 14

/*
 * The inner end of a walk that has come to a frame of the memo: from its first frame, which is at sp, pc, to that one. A thread
 * that comes by some paths in turns has a tail for each.
 */
struct books_tail {
	uint64_t sp, pc; /* sp 0: none */
	uint32_t node;
	uint32_t joined, joined_node; /* the frame in the memo, and its node */
	uint32_t frame_nr;
	struct {
		uint64_t pc;
		uint64_t at; /* its stack pointer, from the first frame's on */
	} frame[BOOKS_TAIL_FRAMES]; /* the last one is the memo's */
};

#define BOOKS_TAILS 512

struct books_native {
	uint64_t stack_low, stack_high; /* can be read */
	uint64_t own_low, own_high;	 /* the thread's own stack; 0, 0: not known */
	uint64_t known_nr, closed_nr, replaced_nr; /* of the head, when the memo was made; the last one with closed_nr above */
	struct books_place place[BOOKS_NATIVE_DEEPEST]; /* the memo; [0] is the outermost frame */
	struct books_frame_rest rest[BOOKS_NATIVE_DEEPEST];
	uint64_t special[BOOKS_NATIVE_DEEPEST / 64]; /* bit i: to compare place[i] is not enough */
	struct books_native_frame walk[BOOKS_NATIVE_DEEPEST + 1]; /* [0] is the innermost frame */
	struct books_count count[BOOKS_COUNTS];
	struct books_step step[BOOKS_STEPS]; /* by pc */
	struct books_tail tail[BOOKS_TAILS]; /* by the first frames */
	struct { uint64_t address, word, size; } given; /* the block of the realloc() that the thread is in; address 0: none */
};

struct books_child {
	uint64_t instruction; /* of a function; + 1: of a generator */
	uint32_t parent, node;
};

struct books_thread {
	uint32_t tid;	 /* as the C library has it; 0: a free slot */
	uint32_t gone_nr; /* of the head, when the memo was last looked through */
	uint64_t inside; /* the stack pointer of the hook that the thread is in; 0: none */
	uint64_t left; /* hooks that it has left: two looks say whether it is in another one */
	uint64_t latest; /* the address of the block that it entered last */
	uint64_t allocations, frees, unknown_frees;
	uint64_t steps; /* frames that were not in the memo */
	uint64_t cycles; /* of the time stamp counter, in one of BOOKS_TIMED_EACH blocks that were entered, or freed */
	uint64_t pointer; /* the thread pointer of thread pointer_tid */
	uint32_t pointer_tid, pad;
	uint64_t created; /* allocations when an object last began in the latest block: objects that begin there later are of a free list */
	uint64_t recreations; /* objects that began in blocks that were there */
	uint64_t passed; /* a larger block that the object domain frees: the raw domain's free of it is not another one */
	uint32_t frame_nr; /* of the last walk: frame[1] is the outermost one */
	uint32_t slot; /* its own number */
	struct books_child child[BOOKS_CHILDREN];
	union {
		struct {
			uint16_t place[BOOKS_PLACES]; /* of frames in frame[], by address */
			struct books_frame frame[BOOKS_DEEPEST + 1];
			struct { uint64_t frame, instruction; } pending[BOOKS_DEEPEST + 1];
		};
		struct books_native native;
	};
};

/* ---- blocks ---- */

#define BOOKS_CHUNK_SHIFT 20 /* of addresses */
#define BOOKS_CHUNK_LINES (1u << (BOOKS_CHUNK_SHIFT - 5)) /* of 32 bytes */
#define BOOKS_CHUNK_WORDS (2 * BOOKS_CHUNK_LINES)
#define BOOKS_CHUNK_PAGE_SHIFT 14 /* of addresses: of a page of the second half, for which there is a bit */
#define BOOKS_CHUNKS_MAX (1u << 14) /* 16 GiB of small blocks */
#define BOOKS_ADDRESS_BITS 47
#define BOOKS_DIRECTORY_NR (1u << (BOOKS_ADDRESS_BITS - BOOKS_CHUNK_SHIFT))

#define BOOKS_LEVEL_SHIFT 12 /* entries of the first level */
#define BOOKS_LEVELS_MAX 14
#define BOOKS_NEIGHBOURS 8
#define BOOKS_LEVEL_AT(level) ((UINT64_C(1) << (BOOKS_LEVEL_SHIFT + (level))) - (UINT64_C(1) << BOOKS_LEVEL_SHIFT)) /* entries before it */

/* address: 0: free; the word has no size. */
struct books_large {
	uint64_t address, word, size;
};

#define BOOKS_HANDED_MAX (1u << 22)
#define BOOKS_HANDED_SHIFT 48 /* the size of one has the epoch of its snapshot from here on: a call may be late for one, and too early for the next */

/* ---- tracebacks ---- */

#define BOOKS_BUCKETS (1u << 18)
#define BOOKS_NODES_MAX (1u << BLOCK_NODE_BITS)
#define BOOKS_NO_NODE (BOOKS_NODES_MAX - 1) /* there was no room for the traceback */

/* No frame: the blocks were allocated without the GIL, by the raw domain. */
#define BOOKS_RAW_WORD UINT64_MAX

/*
 * Malloc's books: the child of the root. How the walk ended (enum unwind_end), and of which code: replaced_nr of the head.
 * BOOKS_END_COPIED: there are no frames below it, and the number is where the copy of the stack begins, in units of 8 bytes
 * (BOOKS_COPY_NUMBER()): of all copies so far, so that no number comes twice.
 * Other words are addresses of code, with these marks.
 */
#define BOOKS_END (UINT64_C(1) << 63)
#define BOOKS_END_WORD(end, number) (BOOKS_END | (uint64_t)(end) << 48 | (uint32_t)(number))
#define BOOKS_END_OF(word) ((uint32_t)((word) >> 48) & 0xff)
#define BOOKS_END_NUMBER(word) ((uint32_t)(word))
#define BOOKS_END_COPIED 0x80
#define BOOKS_COPY_NUMBER(word) ((word) & ((UINT64_C(1) << 48) - 1))
#define BOOKS_COPY_WORD(number) (BOOKS_END | (uint64_t)BOOKS_END_COPIED << 48 | BOOKS_COPY_NUMBER(number))
#define BOOKS_PC_GUESSED (UINT64_C(1) << 62)
#define BOOKS_PC_EXACT (UINT64_C(1) << 61)
#define BOOKS_PC(word) ((word) & ((UINT64_C(1) << BOOKS_ADDRESS_BITS) - 1))

/*
 * Node 0 is the root; parents have smaller numbers. Python's word is PYTHON_FRAME_WORD(), without its top bit: code, instruction.
 */
struct books_node {
	uint64_t word;
	uint32_t parent, next; /* next: in its bucket */
	uint32_t totals;       /* 0: no block has had this traceback */
} __attribute__((packed, aligned(4)));

/*
 * As in struct churn, of the blocks whose traceback ends at a node. They have one writer at a time, which holds the GIL; below a
 * node of BOOKS_RAW_WORD they are added up by atomic instructions. [0] is of nodes for which there was no room.
 */
struct books_totals {
	uint64_t allocations, allocated_bytes, temporary, temporary_bytes;
};

/* ---- code objects ---- */

#define BOOKS_CODE_SHIFT 17
#define BOOKS_CODE_SLOTS (1u << BOOKS_CODE_SHIFT)
#define BOOKS_CODES_MAX (1u << 20)
#define BOOKS_TEXT_BYTES (UINT64_C(1) << 29)
#define BOOKS_CODE_GONE 1 /* the address in a slot whose code object has ended */

struct books_code_slot {
	uint64_t address;
	uint32_t id;
	int32_t first_traceable;
};

/* Followed by file name, name and line table, then zeros to a multiple of 8 bytes. */
struct books_code {
	uint32_t id;
	int32_t first_line;
	uint32_t file_state, name_state;
	uint64_t file_bytes, name_bytes, line_bytes;
};

#define BOOKS_GONE_NR 16

/* Addresses of a code object that has ended; the latest ones, by gone_nr % BOOKS_GONE_NR. */
struct books_gone {
	uint64_t from, to;
};

/* ---- native code ---- */

#define BOOKS_REGIONS_MAX 8192
#define BOOKS_RANGES_MAX 4096

/* Code of the process. Its members are as in struct unwind_object; words lie in the tables of the books. */
struct books_region {
	uint64_t start, end;
	uint64_t delta; /* address in the file - address in the process */
	uint64_t first_page;
	uint32_t page_nr; /* 0: there is no table, and there will be none: first_page says why (enum unwind_end) */
	uint32_t page_at, rule_at, row_at;
	uint64_t entry, entry_end;
};

/* Code and stacks that the recorder has found, by address. There are two; the recorder writes the one that does not hold. */
struct books_known {
	uint64_t closed_nr; /* of the head, before the recorder looked: with another one now, its code does not hold */
	uint32_t region_nr, range_nr;
	struct books_region region[BOOKS_REGIONS_MAX];
	struct { uint64_t start, end; } range[BOOKS_RANGES_MAX]; /* stacks that hooks have asked for */
};

#define BOOKS_TABLE_WORDS (1u << 27) /* of 8 bytes */

/* A stack, from sp on. Copies lie one behind another in a ring; so does one that reaches its end. */
struct books_copy {
	uint64_t bytes; /* of the stack; written last */
	uint64_t pc, sp, fp;
};

#define BOOKS_COPY_MOST (UINT64_C(64) << 10) /* of one stack */
#define BOOKS_COPIES_WAITING (UINT64_C(64) << 20) /* that the recorder has not walked: the process has no more memory for them */
#define BOOKS_COPIES_BYTES (UINT64_C(1) << 29) /* of the ring */

/* ---- where everything is ---- */

#define BOOKS_PAGE UINT64_C(4096)
#define BOOKS_AT_HEAD UINT64_C(0)
#define BOOKS_AT_GONE (BOOKS_AT_HEAD + BOOKS_PAGE)
#define BOOKS_AT_THREADS (BOOKS_AT_GONE + BOOKS_PAGE)
#define BOOKS_THREAD_BYTES (UINT64_C(288) << 10)
#define BOOKS_AT_DIRECTORY (BOOKS_AT_THREADS + BOOKS_THREADS * BOOKS_THREAD_BYTES)
#define BOOKS_AT_SECONDS (BOOKS_AT_DIRECTORY + UINT64_C(4) * BOOKS_DIRECTORY_NR)
#define BOOKS_AT_CHUNKS (BOOKS_AT_SECONDS + UINT64_C(8) * BOOKS_CHUNKS_MAX)
#define BOOKS_AT_LEVELS (BOOKS_AT_CHUNKS + UINT64_C(8) * BOOKS_CHUNK_WORDS * BOOKS_CHUNKS_MAX)
#define BOOKS_AT_HANDED (BOOKS_AT_LEVELS + sizeof(struct books_large) * BOOKS_LEVEL_AT(BOOKS_LEVELS_MAX))
#define BOOKS_AT_BUCKETS (BOOKS_AT_HANDED + sizeof(struct books_large) * BOOKS_HANDED_MAX)
#define BOOKS_AT_NODES (BOOKS_AT_BUCKETS + UINT64_C(4) * BOOKS_BUCKETS)
#define BOOKS_AT_TOTALS (BOOKS_AT_NODES + sizeof(struct books_node) * BOOKS_NODES_MAX)
#define BOOKS_AT_CODE_SLOTS (BOOKS_AT_TOTALS + sizeof(struct books_totals) * BOOKS_NODES_MAX)
#define BOOKS_AT_CONTENTS (BOOKS_AT_CODE_SLOTS + sizeof(struct books_code_slot) * BOOKS_CODE_SLOTS) /* uint32_t: ids, by hash of the text */
#define BOOKS_AT_CODES (BOOKS_AT_CONTENTS + UINT64_C(4) * BOOKS_CODE_SLOTS) /* uint32_t: the place of a text, in units of 8 bytes, by id */
#define BOOKS_AT_TEXT (BOOKS_AT_CODES + UINT64_C(4) * BOOKS_CODES_MAX)
#define BOOKS_KNOWN_BYTES (UINT64_C(1) << 20)
#define BOOKS_AT_KNOWN (BOOKS_AT_TEXT + BOOKS_TEXT_BYTES)
#define BOOKS_AT_TABLES (BOOKS_AT_KNOWN + 2 * BOOKS_KNOWN_BYTES)
#define BOOKS_AT_COPIES (BOOKS_AT_TABLES + UINT64_C(8) * BOOKS_TABLE_WORDS)
#define BOOKS_BYTES (BOOKS_AT_COPIES + BOOKS_COPIES_BYTES)

_Static_assert(sizeof(struct books_thread) <= BOOKS_THREAD_BYTES, "a slot has room for a thread");
_Static_assert(sizeof(struct books_head) <= BOOKS_PAGE, "a page");
_Static_assert(sizeof(struct books_known) <= BOOKS_KNOWN_BYTES, "room for all of it");
_Static_assert(BOOKS_BYTES % BOOKS_PAGE == 0, "whole pages");
_Static_assert(BOOKS_COPIES_WAITING + (BOOKS_THREADS + 1) * BOOKS_COPY_MOST < BOOKS_COPIES_BYTES, "no copy is written over before it is walked");
_Static_assert(!(BOOKS_COPIES_BYTES & (BOOKS_COPIES_BYTES - 1)), "a power of two");

#endif
