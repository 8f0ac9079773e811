/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_OPEN_ORDERS_H
#define ALLOCSNAP_COLLECT_OPEN_ORDERS_H

/*
 * What the recording tells the process that opens files for it, by parser/channel.h. Each message has a
 * descriptor beside it, and each order one answer, except OPEN_PROGRAM.
 */

#include <stdint.h>

#include "collect/process/file_system.h"

enum open_order_kind {
	OPEN_WORKER = 1, /* to the one that starts workers: the end that a new one gets */
	OPEN_PROGRAM,	 /* the BPF program file_system_of */
	OPEN_BELOW,	 /* a path, with its NUL; with the directory. The answer has an O_PATH descriptor */
	OPEN_STACKED,	 /* uint32_t, the device that counts as local; with an O_PATH descriptor */
	OPEN_REMOTE,	 /* nothing more; likewise. The answer has a copy */
	OPEN_ANSWER,	 /* struct open_answer; with what is opened */
};

struct open_answer {
	int32_t err;
	uint32_t is_copy;
	struct file_system of; /* where a stacked file lies; of.type is "" where that is not known */
};

#define OPEN_COPY_MAX (64ull << 20) /* a larger file is left unread */
#define OPEN_WORKERS_MAX 64	    /* that hang, each in another file system */
#define OPEN_ALARM_SECONDS 3	    /* a worker that hangs ends itself: the recording waits for 2 */

/* The process that starts workers, which ends with the recording. It keeps no descriptor but fd. */
__attribute__((noreturn)) void open_workers_run(int fd, int recording, file_system_fn ask);

#endif
