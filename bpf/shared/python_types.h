/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PYTHON_TYPES_H
#define ALLOCSNAP_PYTHON_TYPES_H

/*
 * Where things are in the memory of a CPython. src/elf/python/ fills it by version; the programs in the kernel walk
 * the frames of a thread with it.
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

/* The state of a string (string_state). */
#define PYTHON_STRING_BYTES(state) ((state) >> 2 & 7) /* of a character: 1, 2, 4 */
#define PYTHON_STRING_IS_ASCII(state) ((state) >> 6 & 1)

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
	PYTHON_OPERATION_NR, /* those of an allocator; others follow */
	PYTHON_TRACK = PYTHON_OPERATION_NR, /* PyTraceMalloc_Track(domain, pointer, size) */
	PYTHON_UNTRACK,			    /* PyTraceMalloc_Untrack(domain, pointer) */
	PYTHON_CREATION, /* an object begins: a new block, or one from a free list; the pointer is the object's */
	PYTHON_POOL_OPEN,  /* pymalloc takes a pool (the pointer) for a size class (the size) */
	PYTHON_POOL_CLOSE, /* the pool is empty, and free for any size class */
	PYTHON_CODE_END,   /* a code object (the pointer) is about to be freed */
	PYTHON_OPERATION_MAX,
};

#endif
