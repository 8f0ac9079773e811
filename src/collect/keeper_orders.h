/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_KEEPER_ORDERS_H
#define ALLOCSNAP_COLLECT_KEEPER_ORDERS_H

/*
 * What a recording sends to its keeper, one packet each, and gets back: an int32_t for all but
 * KEEPER_DETACH, which nobody waits for.
 */

#include <stdint.h>
#include <sys/types.h>

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
	uint64_t places[]; /* of KEEPER_ATTACH: nr offsets, then nr cookies */
};

enum { KEEPER_PROGRAM, KEEPER_FILE, KEEPER_FD_NR };

#define KEEPER_ORDER_BYTES_MOST (256u << 10) /* a socket takes less at once */

/* What the keeper does with its end of the socket, till the recording has ended. */
void keep_links(int fd, pid_t recording) __attribute__((noreturn));

#endif
