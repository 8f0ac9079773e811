/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_PARSER_FIXTURE_H
#define ALLOCSNAP_TESTS_PARSER_FIXTURE_H

/* Parsers whose reader calls a test's function instead of its own; and the PIDs of its processes. */

#include <errno.h>
#include <stdbool.h>

#include "helper/channel.h"
#include "sandbox/client.h"
#include "sandbox/messages.h"
#include "symbols_fixture.h"

/* read NULL: its work; cpu_ns 0: the default. It must open. */
struct sandbox *parser_with(read_fn read, uint64_t cpu_ns);

/* The process must have exactly one child. */
pid_t only_child_of(pid_t pid);

/* Until it is a zombie or gone. */
void wait_until_dead(pid_t pid);

/* Until it is blocked in this system call. */
void wait_until_in_call(pid_t pid, long call);

pid_t parser_fork_server(void);
pid_t parser_reader(void);

/* Called in the reader: reads the next question with all that belongs to it; without a question it ends the process. */
struct names_question parser_question(const struct channel *channel, struct message *ret_head,
				      int *ret_object);

/* One answer of a reader that a test plays. */
struct parser_said {
	enum message_kind kind;
	int err;
	struct iovec piece[4];
	int piece_nr;
	void (*before)(int object); /* may change what the pieces have. NULL: they stay */
};

/* Answers every question so, as long as questions come. */
void parser_say(int fd, const struct parser_said *said);

/* Answers each offset with a function of this name, or with a reason instead. */
void parser_answer_name(const struct channel *channel, uint32_t nr, const char *name);
void parser_answer_why(const struct channel *channel, const char *why);

#endif
