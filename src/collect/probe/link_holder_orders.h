/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_LINK_HOLDER_ORDERS_H
#define ALLOCSNAP_COLLECT_PROBE_LINK_HOLDER_ORDERS_H

/*
 * Messages from a recording to its keeper, one packet each. Each gets a struct link_holder_answer, except
 * KEEPER_DETACH. The keeper also sends such packets on its own to report what it has done without an order.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/reason.h"
#include "collect/inject/inject.h"
#include "collect/process/file_identity.h"

enum link_holder_what {
	KEEPER_ATTACH,	  /* with the descriptors of program and file. Answer: a link, or -errno */
	KEEPER_DETACH,	  /* ends a link */
	KEEPER_DETACHING, /* the answer is the number of links being ended */
	KEEPER_SETTLE,	  /* the answer 0 comes when none is being ended */
	KEEPER_HOLD_SAMPLER, /* the keeper ejects the sampler of a process when it ends. Answer: 0 or -errno */
	KEEPER_SAMPLER_FILES, /* the files of that sampler: nr struct inject_file. Answer: 0 or -errno */
	KEEPER_EJECT,	  /* ejects it now. Answer: a struct link_holder_ejection */
};

struct link_holder_order {
	uint32_t what;
	int32_t link;
	uint32_t attach_type, of_returns;
	int32_t pid;
	uint32_t nr;
	struct file_identity file; /* the file that the places were found in */
	uint64_t places[]; /* for KEEPER_ATTACH: nr offsets, then nr cookies, then nr semaphores */
};
_Static_assert(sizeof(struct inject_file) == 3 * sizeof(uint64_t), "an order has nr times so much");

enum link_holder_news {
	KEEPER_ANSWER,	  /* the result of an order */
	KEEPER_CLOSED,	  /* the link whose file was written to, and which is being ended */
	KEEPER_UNWATCHED, /* -errno: a link's file cannot be watched */
};

struct link_holder_answer {
	uint32_t what; /* enum link_holder_news */
	int32_t value;
};

/* Begins like any answer. */
struct link_holder_ejection {
	uint32_t what;
	int32_t value; /* of inject_eject() */
	uint32_t function_nr, kept_nr; /* as in struct eject_result */
	uint32_t child_nr; /* forked children that still map the sampler */
	int32_t child;	   /* one of them */
	uint64_t stopped_ns;
	struct reason why;
};

enum { KEEPER_PROGRAM, KEEPER_FILE, KEEPER_FD_NR };

#define KEEPER_ORDER_BYTES_MOST (256u << 10) /* a socket accepts less than this in one packet */

/* Runs the keeper on its end of the socket, until the recording has ended. ejects: there may be samplers to eject. */
void keep_links(int fd, pid_t recording, bool ejects) __attribute__((noreturn));

#endif
