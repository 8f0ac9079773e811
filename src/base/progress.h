/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_PROGRESS_H
#define ALLOCSNAP_BASE_PROGRESS_H

/*
 * How far a long work is, on the status line (base/terminal.h): "reading: 120 of 4000 files (3 %), 40/s, 97 s left".
 * It appears where the work takes longer than a second, and is gone at the end. Elsewhere than on a terminal there is
 * nothing.
 *
 * Libraries call it where there may be millions of rows or bytes. It does nothing unless the program has allowed it, in
 * the thread that works.
 *
 *	struct progress progress = progress_begin("reading", "files", file_nr);
 *
 *	for (size_t i = 0; i < file_nr; i++) {
 *		progress_show(&progress, i);
 *		…
 *	}
 *	progress_end(&progress);
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_TEXT_MAX 256

struct progress {
	const char *work; /* "reading" */
	const char *unit; /* in the plural: "files"; NULL: bytes */
	uint64_t all;	  /* 0: not known */
	uint64_t begun_ns;
};

/* For the works of this thread. At first they are not shown. */
void progress_allow(bool is_allowed);

struct progress progress_begin(const char *work, const char *unit, uint64_t all);

/* `done` of all units are done. Cheap: call it as often as you like, in one thread. */
void progress_show(const struct progress *progress, uint64_t done);

/* The same before row number `row` of a loop, once in some thousand rows. */
#define PROGRESS_ROWS (1 << 14)

static inline void progress_show_row(const struct progress *progress, uint64_t row)
{
	if (!(row % PROGRESS_ROWS))
		progress_show(progress, row);
}

/* Takes its line away. Call it after a failure, too. */
void progress_end(const struct progress *progress);

/* The text after so long. Returns text. */
const char *progress_text(char text[PROGRESS_TEXT_MAX], const struct progress *progress, uint64_t done,
			  uint64_t spent_ns);

#endif
