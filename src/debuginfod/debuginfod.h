/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_DEBUGINFOD_DEBUGINFOD_H
#define ALLOCSNAP_DEBUGINFOD_DEBUGINFOD_H

/*
 * Debug files and programs, by build-id, from the debuginfod servers of DEBUGINFOD_URLS. A process without privileges speaks
 * to the servers (download.h). What came lies in the folder that libdebuginfod uses as well, if the folder belongs to this
 * user. A server that fails or lies is asked no more.
 *
 * Only commands that work on snapshots may use it: what a recording reads is named by hostile programs, and a
 * request shows a server the build-id.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/reason.h"

struct debug_fetcher;
struct debuginfod;

struct debuginfod_counts {
	uint64_t fetched, bytes; /* files that came now */
	uint64_t cached;	 /* that came earlier */
};

/*
 * Starts the process, so call it before there are threads. *ret is NULL if DEBUGINFOD_URLS is empty. 0 or a negative errno,
 * with a line in *why.
 */
int debuginfod__open(struct debuginfod **ret, struct reason *why);
void debuginfod__close(struct debuginfod *debuginfod); /* NULL is allowed */

/* Valid as long as the handle. NULL for NULL. */
const struct debug_fetcher *debuginfod__fetcher(const struct debuginfod *debuginfod);

/* The next thing that went wrong; each is said once. */
bool debuginfod__next_trouble(struct debuginfod *debuginfod, struct reason *ret);

struct debuginfod_counts debuginfod__counts(const struct debuginfod *debuginfod);

#endif
