/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SANDBOX_MESSAGES_H
#define ALLOCSNAP_SANDBOX_MESSAGES_H

/*
 * The protocol between the recording process and the reader, the process that reads files for it. The
 * recording process asks, the reader answers; before its answer it may ask for debug files:
 *
 *	               ◄── READY
 *	NAMES, … ──►                        a question, with the file
 *	               ◄── WANT_FILE        any number of times up to a limit,
 *	HERE_IS or HERE_IS_NONE ──►         each gets an answer
 *	               ◄── NAMES, …         the answer: a message of the kind of its question
 *
 * Answers are checked like a file: the lengths first, then every number.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "symbols/debug_file.h"
#include "symbols/perf_map.h"

/*
 * In brackets: what a question has, and an answer. An answer begins with a struct verdict; without an error the struct
 * follows, and its arrays (file_questions[]).
 */
enum message_kind {
	READY = 1, /* a reader's first message, sent when it is confined */
	HERE_IS, /* a file */
	HERE_IS_NONE,
	WANT_FILE, /* struct file_wanted */
	NAMES,	 /* [struct names_question, its offsets, the file if the reader does not have it; struct names_answer] */
	TABLE,	 /* [struct table_question; struct unwind_table] */
	FACTS,	 /* [struct functions_wanted with its functions; struct probe_info] */
	RETURNS, /* [struct returns_question; struct object_returns] */
	SWITCH,	 /* [nothing; uint32_t, the index of a row of stack_switches[]] */
	TRAITS,	 /* [nothing; struct runtime_traits] */
	ENTRIES, /* [nothing; struct entry_patches] */
	PYTHON,	 /* [struct python_asked; struct python_info] */
	LINES,	 /* [struct lines_question, its instructions and its table, no file; struct lines_answer] */
	MADE,	 /* [struct made_question with its addresses; struct perf_map_names] */
	GO,	 /* [nothing; struct go_program] */
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

struct wire_frame {
	uint32_t function; /* its offset in the text, + 1; 0: NULL */
	uint32_t filename;
	uint32_t lineno;
	uint32_t first_line; /* 0 if lineno is 0 */
};

/* If there are fewer answers than questions, the rest must be asked again. */
struct names_answer {
	uint32_t answer_nr, frame_nr, text_bytes;
	uint32_t *frames_of; /* number of frames of each answer */
	struct wire_frame *frame;
	char *text;
};

#define TEXT_MAX (1u << 16)   /* for one name; a longer one counts as not known */
#define ANSWER_FULL (1u << 20) /* bytes of text after which the reader ends an answer */
#define ANSWER_MAX (16u << 20)

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

/* Followed by uint64_t address[nr], sorted. */
struct made_question {
	uint64_t nr;
	struct perf_map_part part;
};

/* Followed by int64_t instruction[nr], uint8_t table[bytes]. */
struct lines_question {
	uint32_t kind; /* enum python_lines */
	int32_t first_line;
	uint32_t bytes, nr;
};

struct lines_answer {
	uint64_t nr;
	int32_t *line; /* for each instruction */
};

/*
 * Runs in the process without privileges: answers questions until the other end is
 * closed. The files that it reads can take this process over, so the other end trusts no answer
 * unchecked.
 */
void serve_questions(int fd);

/* ---- questions about a file (questions.c) ---- */

/* An array of an answer: the struct has its number of items, and a pointer to it, which means nothing in a message. */
struct answer_array {
	size_t at, item_bytes; /* 0 bytes: there is no further array */
	size_t nr_at, nr_bytes;
	uint32_t more; /* so many items more than the number */
	uint32_t nr_most;
};

struct file_question {
	size_t bytes; /* of the struct that answers it */
	int (*read)(int fd, const void *asked, void *ret, struct reason *why); /* in the reader; *ret is zeroed before */
	bool (*is_sound)(const void *answer, const void *asked, uint64_t file_bytes); /* in the recording process */
	bool needs_new_reader;
	struct answer_array array[3];
};

extern const struct file_question file_questions[]; /* by message_kind */

/* Where an answer has its pointer to an array; the number that it claims. */
void **answer_array_of(const struct answer_array *array, const void *answer, uint64_t *ret_nr);

/* Frees the arrays. */
void file_answer_release(const struct file_question *question, void *answer);

#endif
