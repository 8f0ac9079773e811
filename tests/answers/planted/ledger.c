// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* ledger keeps 500 records of 400 bytes a second, and makes as many texts that are freed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct record {
	struct record *next;
	char text[392];
};

static struct record *kept;

static __attribute__((noinline)) void keep_record(int number)
{
	struct record *record = malloc(sizeof(*record)); /* planted */

	if (!record)
		exit(1);
	memset(record->text, number, sizeof(record->text));
	record->next = kept;
	kept = record;
}

static __attribute__((noinline)) void write_text(int number)
{
	char *text = malloc(600);

	if (!text)
		exit(1);
	snprintf(text, 600, "record %d", number);
	free(text);
}

int main(void)
{
	for (int number = 0;; number++) {
		keep_record(number);
		write_text(number);
		usleep(2000);
	}
}
