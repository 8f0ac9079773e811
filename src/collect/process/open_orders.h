/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_OPEN_ORDERS_H
#define ALLOCSNAP_COLLECT_PROCESS_OPEN_ORDERS_H

/*
 * Messages from the recording to the process that opens files for it, over sandbox/channel.h. Each one carries a
 * descriptor. Each order gets one answer, except OPEN_PROGRAM.
 */

#include <stdint.h>

#include "collect/process/file_system.h"

enum open_order_kind {
	OPEN_WORKER = 1, /* to the process that starts workers; with the socket end for the new worker */
	OPEN_PROGRAM,	 /* the BPF program file_system_of */
	OPEN_BELOW,	 /* a path with its NUL; with the directory. The answer carries an O_PATH descriptor */
	OPEN_STACKED,	 /* uint32_t, the device that counts as local; an O_PATH descriptor. Answer: file or copy */
	OPEN_REMOTE,	 /* no body; with an O_PATH descriptor. The answer carries a copy */
	OPEN_ANSWER,	 /* struct open_answer; with the opened file */
};

struct open_answer {
	int32_t err;
	uint32_t is_copy;
	struct file_system of; /* the file system below a stacked one; of.type is "" if it is not known */
};

#define OPEN_COPY_MAX (64ull << 20) /* a larger file is not read */
#define OPEN_WORKERS_MAX 64	    /* workers that hang, each in another file system */
#define OPEN_ALARM_SECONDS 3	    /* a hanging worker kills itself then; the recording waits for only 2 seconds */

/* Runs the process that starts workers. It ends with the recording, and keeps no descriptor except fd. */
__attribute__((noreturn)) void open_workers_run(int fd, int recording, file_system_fn ask);

#endif
