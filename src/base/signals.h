/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_SIGNALS_H
#define ALLOCSNAP_BASE_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Whether a signal to end is pending: the program has blocked it, and reads it later. */
static inline bool is_told_to_end(void)
{
	sigset_t waiting;

	return !sigpending(&waiting) && (sigismember(&waiting, SIGTERM) || sigismember(&waiting, SIGINT) || sigismember(&waiting, SIGHUP));
}

#endif
