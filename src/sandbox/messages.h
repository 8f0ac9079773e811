/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SANDBOX_MESSAGES_H
#define ALLOCSNAP_SANDBOX_MESSAGES_H

/*
 * The protocol between the recording process and the reader, the process that reads files for it. The
 * recording process asks, the reader answers; before its answer it may ask for debug files:
 *
 *	               ◄── READY
 *	ASK_… ──►
 *	               ◄── WANT_FILE        any number of times up to a limit,
 *	HERE_IS or HERE_IS_NONE ──►         each gets an answer
 *	               ◄── NAMES, TABLE, …
 *
 * Answers are checked like a file: the lengths first, then every number.
 */

#include <stdint.h>

#include "symbols/debug_file.h"

enum message_kind {
	READY = 1, /* a reader's first message, sent when it is confined */
	ASK_NAMES, /* struct names_question, its offsets; with the object */
	ASK_TABLE,   /* struct table_question; with the object */
	ASK_FACTS,   /* struct functions_wanted, with its functions; with the object */
	ASK_RETURNS, /* struct returns_question; with the object */
	ASK_SWITCH,  /* no data; with the object */
	ASK_TRAITS,  /* no data; with the object */
	ASK_ENTRIES, /* no data; with the object */
	HERE_IS,     /* a file */
	HERE_IS_NONE,
	WANT_FILE, /* struct file_wanted */
	NAMES,	   /* struct names_answer, then its arrays and text */
	TABLE,	   /* struct verdict; without an error struct unwind_table and its arrays follow */
	FACTS,	   /* struct verdict; likewise struct probe_info, its functions and its sampler */
	RETURNS,   /* struct verdict; likewise struct object_returns and its places */
	SWITCH,	   /* struct verdict; likewise uint32_t, the index of a row of stack_switches[] */
	TRAITS,	   /* struct verdict; likewise struct runtime_traits */
	ENTRIES,   /* struct verdict; likewise struct entry_patches and its patches */
	ASK_PYTHON, /* struct python_asked; with the object */
	PYTHON,	   /* struct verdict; likewise struct python_info and its places */
	ASK_LINES, /* struct lines_question, its instructions and its table; no object */
	LINES,	   /* struct verdict; likewise int32_t, a line for each instruction */
};

#define WANTS_MAX 8	      /* for one question, in each directory of debug files */
#define QUESTION_OFFSETS_MAX 512

struct names_question {
	uint32_t object; /* the same number means the same file */
	uint32_t offset_nr;
};

#define FILE_NAME_MAX 1024

struct file_wanted {
	uint32_t kind; /* enum debug_kind */
	uint32_t build_id_len;
	uint32_t nr; /* number of the candidate */
	uint8_t build_id[BUILD_ID_MAX];
	char name[FILE_NAME_MAX];
};

/*
 * Followed by uint32_t frames_of[answer_nr], struct wire_frame frame[frame_nr], char
 * text[text_bytes]. If there are fewer answers than questions, the rest must be asked again. If err
 * is set, the text is the reason.
 */
struct names_answer {
	int32_t err;
	uint32_t answer_nr;
	uint32_t frame_nr;
	uint32_t text_bytes;
};

struct wire_frame {
	uint32_t function; /* its offset in the text, + 1; 0: NULL */
	uint32_t filename;
	uint32_t lineno;
	uint32_t first_line; /* 0 if lineno is 0 */
};

#define TEXT_MAX (1u << 16)   /* for one name; a longer one counts as not known */
#define ANSWER_FULL (1u << 20) /* bytes of text after which the reader ends an answer */
#define ANSWER_MAX (16u << 20)

/* Pointers in the structs that follow it are meaningless. */
struct verdict {
	int32_t err; /* the reader's error for the file */
	char why[252];
};

struct table_question {
	uint32_t is_image; /* the object as it lies in memory, copied to a memory file: the vDSO */
};

struct returns_question {
	uint64_t vaddr; /* where the function begins */
};

/* Followed by int64_t instruction[nr], uint8_t table[bytes]. */
struct lines_question {
	uint32_t kind; /* enum python_lines */
	int32_t first_line;
	uint32_t bytes, nr;
};

#endif
