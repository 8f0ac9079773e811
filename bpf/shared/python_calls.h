/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PYTHON_CALLS_H
#define ALLOCSNAP_PYTHON_CALLS_H

/*
 * The loader describes a CPython to the kernel side: where its allocators' calls have their values, and where its
 * memory has what. The kernel side reports code objects to the loader.
 */

#include "shared/argument_types.h"
#include "shared/fixed_width.h"
#include "shared/python_types.h"

#define PYTHON_CALLS_MAX 1024 /* different ones, of all files */

/* Where a call has its values. Equal calls of different places share a row. */
struct python_call {
	struct argument_source size, count, pointer;
	bpf_u32 operation; /* enum python_operation */
	bpf_u32 domain;	   /* enum python_domain */
	bpf_u32 asks_zf;   /* the call takes place only if ZF is set at the probe */
	unsigned short is_used;
	unsigned short asks_letter; /* the call counts only if the context says that it is of the raw domain (debug hooks) */
};
_Static_assert(sizeof(struct python_call) == 64, "no padding");

/* A word of struct traceback that is a Python frame: code id, and the instruction as an offset in its code. */
#define PYTHON_FRAME (1ULL << 63)
#define PYTHON_FRAME_WORD(id, instruction) (PYTHON_FRAME | (bpf_u64)(id) << 32 | (bpf_u32)(instruction))
#define PYTHON_FRAME_CODE(word) ((bpf_u32)((word) >> 32) & 0x7fffffff)
#define PYTHON_FRAME_INSTRUCTION(word) ((int)(bpf_u32)(word))
#define PYTHON_CODE_UNKNOWN 0 /* there was no room to report the code object, or the thread has no frames */

/* Entries of the maps in front of python_codes, where Python is recorded. */
#define PYTHON_CACHE_SHIFT 13
#define PYTHON_MARKS_SHIFT 13 /* words */
#define PYTHON_MET_SHIFT 6

/* An address may belong to another code object later, so ids are given out once. */
struct python_code_key {
	bpf_u64 address;
	bpf_u64 memory; /* struct process */
};

struct python_code_known {
	bpf_u32 id;
	int first_traceable;
	bpf_u64 resumed_ns; /* struct process: in a gap of the recording its free may have been missed */
};

#define PYTHON_FILE_BYTES 512
#define PYTHON_NAME_BYTES 256
#define PYTHON_LINES_SMALL 512
#define PYTHON_LINES_MIDDLE (16 << 10)
#define PYTHON_LINES_LARGE (64 << 10)

/* A part of a code object. Parts that are not resident, or longer than their room, are not in the record. */
struct python_text {
	bpf_u64 address; /* of the characters */
	bpf_u64 bytes;	 /* in all; any number: the process may write what it wants */
	bpf_u32 state;	 /* of a string */
	bpf_u32 is_read;
};

/* A code object at its first sight. Followed by file name, name and line table. */
struct python_code_record {
	bpf_u64 memory, address;
	bpf_u32 id, pid;
	int first_line;
	bpf_u32 pad;
	struct python_text file, name, lines;
	unsigned char file_bytes[PYTHON_FILE_BYTES];
	unsigned char name_bytes[PYTHON_NAME_BYTES];
	unsigned char line_bytes[];
};
_Static_assert(sizeof(struct python_code_record) == 32 + 3 * 24 + PYTHON_FILE_BYTES + PYTHON_NAME_BYTES, "no padding");

#endif
