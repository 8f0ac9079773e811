/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PARSER_CONVERSATION_H
#define ALLOCSNAP_PARSER_CONVERSATION_H

/* Inside the parser: one question after another to a reader that may die of each. */

#include <stdbool.h>

#include "base/reason.h"
#include "sandbox/channel.h"
#include "sandbox/parser.h"

/* What is known of an object that names were asked of. */
struct asked {
	uint64_t generation; /* of the reader that has its file; 0: none */
	uint64_t cpu_ns;     /* spent on it */
};

struct parser {
	struct parser_options options;
	struct symbol_source source;
	struct spawner spawner;
	struct channel channel; /* to the reader; fd -1: there is none */
	pid_t reader;
	uint64_t generation; /* counts readers */
	bool is_spent;	     /* it has much in memory: the next question goes to a new one */
	bool has_read;	     /* something, so that it may not be what it was */
	uint64_t data_at_start; /* bytes of memory that it began with */
	int debug_root_fd;   /* -1: there is no such directory */
	struct asked *asked; /* by the object's id */
	size_t asked_nr, asked_alloc;
	unsigned int failed_nr; /* readers, less those that time has made up for */
	uint64_t failed_at_ns;
	uint64_t read_ns; /* processor time that reading took without failing, in this minute */

	/* The question at hand. */
	const char *object_path;
	uint64_t cpu_ns_left, cpu_ns_at_start;
	uint64_t waited_ns, looked_at_ns;
	uint64_t unjudged_ns, idle_ns; /* of waiting: whether it does something; that it did not */
	uint64_t rss_at_start;
	unsigned int wants;
};

/* Makes sure that there is a reader. 0, or -EIO and a line in *why. */
int conversation__begin(struct parser *parser, const char *object_path, uint64_t cpu_ns_left,
			struct reason *why);

/*
 * The head of the answer, of this kind and no longer than this, when all files wanted have been
 * given. 0 or a negative errno, for conversation__end().
 */
int conversation__answer(struct parser *parser, enum message_kind kind, uint32_t bytes_max,
			 struct message *ret);

/*
 * What came of it: 0, or -EIO and a line in *why, and another reader takes over from the one that this
 * has happened to. Processor time spent in *ret_cpu_ns.
 */
int conversation__end(struct parser *parser, int err, uint64_t *ret_cpu_ns, struct reason *why);

#endif
