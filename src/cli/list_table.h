/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_LIST_TABLE_H
#define ALLOCSNAP_CLI_LIST_TABLE_H

/* The table that `list` prints. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct process_list;

/*
 * Writes the table. If it is wider than `width` columns, times lose their year and then their seconds, the sizes on
 * disk are left out, and names and ends are shortened; width 0: any width is fine. Returns 0 or a negative errno.
 */
int list_table_print(const struct process_list *list, FILE *out, int width);

/* Times in UTC. Returns text. */
#define LIST_TIME_MAX 32
enum list_time {
	LIST_TIME_RFC3339, /* "2026-11-22T11:04:58.354Z" */
	LIST_TIME_DATE,	   /* "2026-11-22 11:04:58" */
	LIST_TIME_DAY,	   /* "11-22 11:04:58" */
	LIST_TIME_SHORT,   /* "11-22 11:04" */
	LIST_TIME_CLOCK,   /* "11:04:58" */
	LIST_TIME_MINUTE,  /* "11:04" */
};
const char *list_time_text(char text[LIST_TIME_MAX], uint64_t wall_ns, enum list_time how);

/* "968K", "5.2M", "13.8M": shorter than format_size(). Returns text. */
#define LIST_SIZE_MAX 24
const char *list_size_text(char text[LIST_SIZE_MAX], double bytes, bool with_sign);

#endif
