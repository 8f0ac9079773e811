/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SANDBOX_FILE_QUESTION_H
#define ALLOCSNAP_SANDBOX_FILE_QUESTION_H

/* One question to the reader, and its answer (client_files.c). */

#include "sandbox/rpc.h"

/*
 * The answer is a struct followed by arrays, whose lengths are in the struct. take() reads it with file_answer__*(),
 * and checks it.
 */
struct file_answer {
	struct parser *parser;
	int fd; /* the file that the question is about */
	uint64_t left; /* bytes of the message that were not read yet */
};

struct file_question {
	enum message_kind question, answer;
	const void *asked; /* may be NULL */
	size_t asked_bytes;
	int fd; /* -1: none */
	uint64_t answer_max; /* limit for the bytes after struct verdict */
	int (*take)(struct file_answer *answer, void *ret); /* 0; -EPROTO: the answer is impossible */
};

/* Reads the next bytes of the answer. 0 or -errno. */
int file_answer__bytes(struct file_answer *answer, void *to, size_t bytes);

/* Reads what follows into a new array, which the caller frees, even if it has 0 items. */
int file_answer__array(struct file_answer *answer, uint64_t nr, size_t size, void *ret_array);

/*
 * 0, or an error as described in client.h. After an error take() has not run, or it has failed and left what it had in
 * *ret.
 */
int ask_file(struct parser *parser, const struct file_question *question, void *ret, struct reason *why);

uint64_t file_size_or_zero(int fd);

#endif
