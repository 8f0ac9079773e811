/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PARSER_MESSAGES_H
#define ALLOCSNAP_PARSER_MESSAGES_H

/*
 * What the recording process and the one that reads files for it tell each other. One asks, the
 * other answers; it may want debug files before:
 *
 *	               ◄── READY
 *	ASK_… ──►
 *	               ◄── WANT_FILE        any number of times up to a limit,
 *	HERE_IS or HERE_IS_NONE ──►         each answered
 *	               ◄── NAMES, TABLE, …
 *
 * What comes back is checked like a file: by lengths first, then every number.
 */

#include <stdint.h>

#include "symbols/debug_file.h"

enum message_kind {
	READY = 1, /* the first that a reader says, when it is confined */
	ASK_NAMES, /* struct names_question, its offsets; with the object */
	ASK_TABLE,   /* struct table_question; with the object */
	ASK_FACTS,   /* struct functions_wanted, as many as there are; with the object */
	ASK_RETURNS, /* struct returns_question; with the object */
	ASK_SWITCH,  /* nothing more; with the object */
	ASK_TRAITS,  /* nothing more; with the object */
	HERE_IS,     /* a file */
	HERE_IS_NONE,
	WANT_FILE, /* struct file_wanted */
	NAMES,	   /* struct names_answer, then what it says that there is */
	TABLE,	   /* struct verdict, and without an error struct unwind_table, then its arrays */
	FACTS,	   /* struct verdict, likewise struct object_facts, then its functions */
	RETURNS,   /* struct verdict, likewise struct object_returns, then its places */
	SWITCH,	   /* struct verdict, likewise uint32_t, the index of a row of stack_switches[] */
	TRAITS,	   /* struct verdict, likewise struct object_traits */
};

struct message {
	uint32_t kind;
	uint32_t bytes; /* that follow */
};

#define WANTS_MAX 8	      /* for one question, in each directory of debug files */
#define QUESTION_OFFSETS_MAX 512

struct names_question {
	uint32_t object; /* the same number stands for the same file */
	uint32_t offset_nr;
};

#define FILE_NAME_MAX 1024

struct file_wanted {
	uint32_t kind; /* enum debug_kind */
	uint32_t build_id_len;
	uint32_t nr; /* of the candidates that there are */
	uint8_t build_id[BUILD_ID_MAX];
	char name[FILE_NAME_MAX];
};

/*
 * Then uint32_t frames_of[answer_nr], struct wire_frame frame[frame_nr], char text[text_bytes].
 * Fewer answers than questions: the rest is to be asked again. With an err the text is why.
 */
struct names_answer {
	int32_t err;
	uint32_t answer_nr;
	uint32_t frame_nr;
	uint32_t text_bytes;
};

struct wire_frame {
	uint32_t function; /* where it begins in text, + 1; 0: NULL */
	uint32_t filename;
	uint32_t lineno;
	uint32_t first_line; /* 0 where lineno is */
};

#define TEXT_MAX (1u << 16)   /* a name; a longer one counts as not known */
#define ANSWER_FULL (1u << 20) /* bytes of text at which an answer ends */
#define ANSWER_MAX (16u << 20)

/* Pointers in what follows it mean nothing. */
struct verdict {
	int32_t err; /* what the reader says of the file */
	char why[252];
};

struct table_question {
	uint32_t is_image; /* the object as it lies in memory, in a file of our own: the vDSO */
};

struct returns_question {
	uint64_t vaddr; /* where the function begins */
};

#endif
