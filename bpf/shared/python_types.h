/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PYTHON_TYPES_H
#define ALLOCSNAP_PYTHON_TYPES_H

/*
 * Where things are in the memory of a CPython, by its version (src/elf/python/) and in a process. The kernel side walks
 * the frames of a thread with it, and predicts what the allocator will give.
 */

#include "shared/fixed_width.h"

struct python_version {
	unsigned char major, minor, micro;
	unsigned char level; /* as in Py_Version: 0xf0 a release; 0: not known */
};

#define PYTHON_NO_OFFSET 0xffff /* this version has no such field */

enum python_instruction {
	PYTHON_LASTI_BYTES = 0,	 /* an int: bytes from the first instruction; -1: not begun (until 3.9) */
	PYTHON_LASTI_UNITS,	 /* an int: units of two bytes (3.10) */
	PYTHON_POINTER,		 /* the address of the instruction (from 3.11 on) */
};

/* Offsets in bytes. The innermost frame: *(tstate + tstate_frame), and with cframe_frame one step more: *(that + cframe_frame). */
struct python_offsets {
	bpf_u64 code_mask; /* the code object's pointer in a frame, without its tag */
	unsigned short tstate_frame, cframe_frame; /* cframe_frame: PYTHON_NO_OFFSET except in 3.11 and 3.12 */
	unsigned short tstate_interp;
	unsigned short frame_code, frame_back, frame_instruction;
	unsigned short frame_owner;	 /* a byte; PYTHON_NO_OFFSET until 3.10 */
	unsigned short frame_bytes;	 /* bytes from the frame's begin that cover all of these: at most 128 */
	unsigned short instruction_kind; /* enum python_instruction */
	unsigned short owner_generator;	 /* frame_owner of a generator */
	unsigned short owner_shim;	 /* frame_owner from here on: no Python code runs in it; PYTHON_NO_OFFSET: none */
	unsigned short code_first_line;	 /* an int */
	unsigned short code_filename, code_name; /* strings; the name is the qualified one from 3.11 on */
	unsigned short code_lines;		 /* a bytes object */
	unsigned short code_instructions;	 /* where the instructions begin; PYTHON_NO_OFFSET until 3.10 */
	unsigned short code_first_traceable; /* an int, in units: frames before it are not complete; PYTHON_NO_OFFSET until 3.10 */
	unsigned short string_length, string_state; /* characters, 8 bytes; the state is 4 bytes */
	unsigned short string_ascii, string_compact; /* where the characters begin */
	unsigned short bytes_length, bytes_data;
	unsigned short type_name;     /* tp_name, in a type */
	unsigned short object_type;   /* ob_type, in an object */
	unsigned short object_header; /* bytes before an object with a PyGC_Head: 16 */
	unsigned short object_preheader; /* bytes more, before that, of a managed dict and weak references: 16 from 3.12 on (Py_TPFLAGS_PREHEADER) */
	unsigned short cframe_back;	 /* of a struct _PyCFrame, the next one: 3.11; PYTHON_NO_OFFSET in others */
};
_Static_assert(sizeof(struct python_offsets) == 64, "no padding");

/* In a type, the same from CPython 3.9 to 3.14: its flags, which say what is before an object in its block. */
#define PYTHON_TYPE_FLAGS 168
#define PYTHON_TYPE_HAS_GC (1ULL << 14)
#define PYTHON_TYPE_HAS_PREHEADER (3ULL << 3)

/* The state of a string (string_state). */
#define PYTHON_STRING_BYTES(state) ((state) >> 2 & 7) /* of a character: 1, 2, 4 */
#define PYTHON_STRING_IS_ASCII(state) ((state) >> 6 & 1)

/*
 * Where glibc keeps the values of pthread_setspecific() for a thread, by its key: in tables of 32 pairs of words, of which
 * the second one is the value. The first table is in struct pthread, to which the thread pointer points; pointers to all
 * of them follow.
 */
#define GLIBC_SPECIFIC_FIRST 0x310
#define GLIBC_KEYS_OF_TABLE 32
#define GLIBC_KEYS_MAX 1024
#define GLIBC_SPECIFIC_TABLE(thread, key) \
	((thread) + GLIBC_SPECIFIC_FIRST + 16 * GLIBC_KEYS_OF_TABLE + 8 * (bpf_u64)((key) / GLIBC_KEYS_OF_TABLE))
#define GLIBC_SPECIFIC_VALUE(table, key) ((table) + 16 * (bpf_u64)((key) % GLIBC_KEYS_OF_TABLE) + 8)

enum python_domain {
	PYTHON_RAW = 0,
	PYTHON_MEM,
	PYTHON_OBJECT,
	PYTHON_DOMAIN_NR,
};

enum python_operation {
	PYTHON_MALLOC = 0,
	PYTHON_CALLOC,
	PYTHON_REALLOC,
	PYTHON_FREE,
	PYTHON_OPERATION_NR, /* the number of an allocator's operations; others follow */
	PYTHON_TRACK = PYTHON_OPERATION_NR, /* PyTraceMalloc_Track(domain, pointer, size) */
	PYTHON_UNTRACK,			    /* PyTraceMalloc_Untrack(domain, pointer) */
	PYTHON_CREATION, /* an object begins: a new block, or one from a free list; the pointer is the object's */
	PYTHON_POOL_OPEN,  /* pymalloc takes a pool (the pointer) for a size class (the size) */
	PYTHON_POOL_CLOSE, /* the pool is empty, and free for any size class */
	PYTHON_CODE_END,   /* a code object (the pointer) is about to be freed */
	PYTHON_OPERATION_MAX,
};

/*
 * A block of a new arena, whose address is not known yet. The kernel side alone uses it. There is one at most: its thread
 * holds the GIL until it has it, and the next thread that comes by finds it.
 */
struct python_deferred {
	bpf_u64 size; /* 0: none */
	bpf_u64 birth_ns, traceback;
	bpf_u32 thread, rate;
};
_Static_assert(sizeof(struct python_deferred) == 32, "no padding");

/* The CPython that a recorded process runs. Addresses are those in the process. */
struct python_process {
	bpf_u64 memory;		  /* equal to struct process's if the rest is valid; the loader writes it last */
	bpf_u64 tss_key;	  /* 4 bytes there: the key of the thread state */
	bpf_u64 main_interpreter; /* 8 bytes there: the main interpreter */
	bpf_u64 main_at;	  /* in_interpreter: what is there; 0 until the kernel side has found it */
	bpf_u64 used_pools, usable_arenas, arenas, max_arenas; /* of pymalloc, from pools_at on */
	bpf_u64 pools_at; /* in_interpreter: 0 until the kernel side has found it */
	bpf_u64 pool_bytes, arena_bytes; /* powers of two */
	bpf_u32 in_interpreter; /* 0: pools_at is known; 1: main interpreter + state; 2: the pointer there */
	bpf_u32 state;
	bpf_u32 hook_bytes; /* debug hooks ask the allocators for so many bytes more; 0: no debug hooks */
	bpf_u32 hook_head;  /* so many of these are before what they give out */
	bpf_u64 code_nr; /* its entries of python_codes; the kernel side counts them */
	bpf_u64 code_ended_nr; /* code objects among them whose memory was freed */
	struct python_deferred deferred;
	struct python_offsets offsets;
};
_Static_assert(sizeof(struct python_process) == 152 + sizeof(struct python_offsets), "no padding");

#endif
