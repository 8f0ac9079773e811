/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_KEEPER_ORDERS_H
#define ALLOCSNAP_COLLECT_KEEPER_ORDERS_H

/*
 * What a recording sends to its keeper, one packet each, and gets back: a struct keeper_answer for all but
 * KEEPER_DETACH, which has no answer. What the keeper does unasked it tells in packets of the same kind.
 */

#include <stdint.h>
#include <sys/types.h>

#include "collect/process/file_identity.h"

enum keeper_what {
	KEEPER_ATTACH,	  /* the program's and the file's descriptor go with it: a link, or -errno */
	KEEPER_DETACH,	  /* a link */
	KEEPER_DETACHING, /* how many links are being ended */
	KEEPER_SETTLE,	  /* 0 when none is */
};

struct keeper_order {
	uint32_t what;
	int32_t link;
	uint32_t attach_type, of_returns;
	int32_t pid;
	uint32_t nr;
	struct file_identity file; /* what the places were found in */
	uint64_t places[]; /* of KEEPER_ATTACH: nr offsets, then nr cookies */
};

enum keeper_news {
	KEEPER_ANSWER,	  /* to an order: its result */
	KEEPER_CLOSED,	  /* the link whose file was written to, and that is being ended */
	KEEPER_UNWATCHED, /* -errno: a link's file cannot be watched */
};

struct keeper_answer {
	uint32_t what; /* enum keeper_news */
	int32_t value;
};

enum { KEEPER_PROGRAM, KEEPER_FILE, KEEPER_FD_NR };

#define KEEPER_ORDER_BYTES_MOST (256u << 10) /* a socket takes less at once */

/* What the keeper does with its end of the socket, till the recording has ended. */
void keep_links(int fd, pid_t recording) __attribute__((noreturn));

#endif
