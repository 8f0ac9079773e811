/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_LOG_H
#define ALLOCSNAP_BASE_LOG_H

/*
 * Lines on standard error. The journal knows the program's name, so a line for it starts with the
 * priority ("<4>…", sd-daemon(3)). Other lines start with "allocsnap: ".
 */

#include <stdarg.h>
#include <stdbool.h>
#include <syslog.h> /* LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO */

/* Whether standard error leads to the journal: JOURNAL_STREAM names its device and inode. */
bool log_is_journal(void);

/* Writes one line; adds the newline, and makes bytes visible that are not text. */
__attribute__((format(printf, 2, 3))) void log_line(int priority, const char *fmt, ...);

enum exit_status {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,  /* a file or a target failed */
	EXIT_REFUSED = 2, /* an invalid command line */
	EXIT_UNJUDGED = 3, /* the question has no sure answer: too little was observed, or too much was missed */
	EXIT_EXCEEDED = 4, /* --fail-above: more than allowed */
};

/*
 * log_line() with priority LOG_INFO or LOG_ERR, after flushing stdout. log_failure() returns
 * EXIT_FAILED.
 */
__attribute__((format(printf, 1, 2))) void log_info(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) int log_failure(const char *fmt, ...);

/* log_info(), but on a terminal the line is cut to its width: for text that another command prints in full. */
__attribute__((format(printf, 1, 2))) void log_cut(const char *fmt, ...);

#endif
