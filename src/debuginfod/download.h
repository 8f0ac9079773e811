/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_DEBUGINFOD_DOWNLOAD_H
#define ALLOCSNAP_DEBUGINFOD_DOWNLOAD_H

/*
 * The process that speaks to debuginfod servers. It has no privileges, reads system files only, and writes to the
 * descriptors that come with its orders:
 *
 *	struct download_order, a file ──►
 *	                              ◄── DOWNLOADING struct download_progress, any number of times
 *	                              ◄── DOWNLOADED struct download_result
 */

#include <stdint.h>

#include "helper/helper.h"
#include "symbols/debug_file.h"

#define DOWNLOAD_URL_MAX 1024

enum download_message { DOWNLOAD = 1, DOWNLOADING, DOWNLOADED };

struct download_order {
	char url[DOWNLOAD_URL_MAX]; /* of the file; "": the file has come earlier, and its build-id is checked */
	uint8_t build_id[BUILD_ID_MAX];
	uint32_t build_id_len;
	uint32_t stall_s; /* the time for 100 KiB */
	uint32_t most_s;
	uint64_t most_bytes;
};

struct download_progress {
	uint64_t done, all; /* bytes; all is 0 if the server does not say it */
};

enum download_end {
	DOWNLOAD_DONE,
	DOWNLOAD_NONE,	    /* the server has no such file */
	DOWNLOAD_TOO_LARGE,
	DOWNLOAD_FAILED,    /* the server is of no use: why says it */
};

struct download_result {
	uint32_t end;
	char why[252];
};

/* Starts it. most_bytes: no file becomes larger. */
int download_helper_start(const uint64_t *most_bytes, struct helper *ret);

#endif
