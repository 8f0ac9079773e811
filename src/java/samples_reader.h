/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_JAVA_SAMPLES_READER_H
#define ALLOCSNAP_JAVA_SAMPLES_READER_H

/*
 * Reads what the agent writes (samples.h). The process can write anything there, at any time: the file is read by pread(),
 * never mapped, and what comes from it is copied first and checked then. What does not fit is counted, and left out.
 *
 * Functions that return int return 0 or a negative errno.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "java/samples.h"
#include "java/type_name.h"

struct reason;
struct java_samples;

/* Takes the descriptor over, in any case. -EBADMSG, with a line in *why: this is no file of the agent. */
int java_samples__open(int fd, struct java_samples **ret, struct reason *why);
void java_samples__close(struct java_samples *samples); /* NULL is allowed */

/* The agent works on as long as this is called now and then; and it ends its work. */
void java_samples__renew(struct java_samples *samples);
void java_samples__stop(struct java_samples *samples);

/* Whether the agent has ended its work. */
bool java_samples__has_ended(const struct java_samples *samples);

/* Reads all again. After an error there is nothing. */
int java_samples__read(struct java_samples *samples);

/* Waits until the agent has looked once more which objects live, and reads. -ETIMEDOUT; -ESRCH: the agent has ended its work. */
int java_samples__await_look(struct java_samples *samples, uint64_t until_ns);

/* As it was last read. */
const struct java_head *java_samples__head(const struct java_samples *samples);

/* Samples and nodes that do not fit, or changed all the time while they were read. */
uint64_t java_samples__unsound(const struct java_samples *samples);

struct java_sample {
	uint32_t node, tid, survived;
	uint64_t slot, size, birth_ns;
	uint64_t bytes; /* that it stands for */
};

typedef int (*java_sample_fn)(void *what, const struct java_sample *sample);
int java_samples__each(const struct java_samples *samples, java_sample_fn fn, void *what);

/* The nodes are numbers below this one. */
uint32_t java_samples__node_nr(const struct java_samples *samples);
void java_samples__node_sums(const struct java_samples *samples, uint32_t node, uint64_t *ret_count, uint64_t *ret_bytes);

struct java_stack {
	uint32_t frame[JAVA_STACK_MAX + 1]; /* the innermost first, which is the type */
	uint32_t nr;
	bool is_deep; /* its oldest frames are missing */
};

/* False: the node has no stack. */
bool java_samples__stack(const struct java_samples *samples, uint32_t node, struct java_stack *ret);

/* A type has the file JAVA_TYPE_FILE, its name as the function, and line 0. The files of Java itself begin with JAVA_PLATFORM_FOLDER. */
#define JAVA_TYPE_FILE "<class>"
#define JAVA_PLATFORM_FOLDER "<java>/"

struct java_frame_text {
	char function[2 * JAVA_TYPE_MAX], file[2 * JAVA_TYPE_MAX];
	uint32_t line; /* 0: not known */
};

/* False: there is no such frame. */
bool java_samples__frame(const struct java_samples *samples, uint32_t frame, struct java_frame_text *ret);

#endif
