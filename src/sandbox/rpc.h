/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SANDBOX_RPC_H
#define ALLOCSNAP_SANDBOX_RPC_H

/* Inside the sandbox: one question after another to a reader that may crash at any of them. */

#include <stdbool.h>

#include "base/reason.h"
#include "helper/spawner.h"
#include "sandbox/client.h"
#include "sandbox/messages.h"

/* The state of an object whose names were asked for. */
struct asked {
	uint64_t generation; /* the reader that has its file; 0: none */
	uint64_t cpu_ns;     /* processor time spent on it */
};

struct sandbox {
	struct sandbox_options options;
	struct symbol_source source;
	struct spawner spawner;
	struct channel channel; /* to the reader; fd -1: no reader */
	pid_t reader;
	uint64_t generation; /* counts the readers */
	bool is_spent;	     /* it uses much memory: the next question goes to a new reader */
	bool has_read;	     /* it has read a file, which may have taken it over */
	uint64_t data_at_start; /* bytes of memory that it began with */
	int debug_root_fd;   /* -1: there is no such directory */
	struct asked *asked; /* by the object's id */
	size_t asked_nr, asked_alloc;
	struct patience patience; /* of readers that failed */
	uint64_t read_ns; /* processor time of successful questions in this minute */
	uint64_t all_cpu_ns_left; /* for all questions together; UINT64_MAX: no limit */
	bool (*gives_up)(void); /* NULL: a question is not ended early */

	/* The current question. */
	const char *object_path;
	uint64_t cpu_ns_left, cpu_ns_at_start;
	uint64_t waited_ns, looked_at_ns;
	uint64_t unjudged_ns, idle_ns; /* waiting time: state not checked yet; reader idle */
	uint64_t rss_at_start;
	unsigned int wants;
};

/* Ensures that there is a reader. 0, or -EIO and a line in *why. */
int rpc__begin(struct sandbox *sandbox, const char *object_path, uint64_t cpu_ns_left,
			struct reason *why);

/*
 * Receives the head of the answer, which must be of this kind and not longer than bytes_max.
 * Before, it opens the debug files that the reader asks for. 0 or a negative errno, for
 * rpc__end().
 */
int rpc__answer(struct sandbox *sandbox, enum message_kind kind, uint32_t bytes_max,
			 struct message *ret);

/*
 * Ends the question and returns its result: 0, or -EIO and a line in *why; then another reader
 * replaces the failed one. Stores the processor time spent in *ret_cpu_ns.
 */
int rpc__end(struct sandbox *sandbox, int err, uint64_t *ret_cpu_ns, struct reason *why);

/* symbol_source's look_up and forget; self is a struct sandbox. */
void ask_names_forget_object(void *sandbox, uint32_t object);

int ask_names(void *sandbox, const struct source_object *object, const uint64_t *return_offset,
	      size_t nr, take_frames_fn take, void *taker, struct reason *why);

#endif
