/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PARSER_ASK_FILE_H
#define ALLOCSNAP_PARSER_ASK_FILE_H

/*
 * Inside the parser: one question about one file, and an answer that is a struct and then arrays, as
 * long as the struct says. take() reads it, with file_answer__*(), and checks it.
 */

#include "sandbox/conversation.h"

struct file_answer {
	struct parser *parser;
	int fd; /* of the file */
	uint64_t left; /* bytes of the message that are not read yet */
};

struct file_question {
	enum message_kind question, answer;
	const void *asked; /* may be NULL */
	size_t asked_bytes;
	int fd;
	uint64_t answer_max; /* bytes behind struct verdict */
	int (*take)(struct file_answer *answer, void *ret); /* 0; -EPROTO: what it says cannot be */
};

/* 0, or as parser.h says of errors: then take() has not run, or has failed and left what it had. */
int ask_file(struct parser *parser, const struct file_question *question, void *ret,
	     struct reason *why);

/* The next bytes of the answer. 0 or -errno. */
int file_answer__bytes(struct file_answer *answer, void *to, size_t bytes);

/* A new array of what comes next, which the caller frees; of 0 items too. */
int file_answer__array(struct file_answer *answer, uint64_t nr, size_t size, void *ret_array);

#endif
