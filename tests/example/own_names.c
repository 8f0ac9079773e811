// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A program that has its own functions of names that the libraries also have inside. It must link,
 * and each must call its own.
 */
#include <allocsnap/allocsnap.h>
#include <allocsnap/collect.h>
#include <stdio.h>
#include <string.h>

int array_reserve_bytes(void);
int format_size(void);
int clean_text(void);
int idmap_find(void);
int reason_set(void);
int proc_read(void);
int symbols__new(void);

int array_reserve_bytes(void) { return 1; }
int format_size(void) { return 2; }
int clean_text(void) { return 3; }
int idmap_find(void) { return 4; }
int reason_set(void) { return 5; }
int proc_read(void) { return 6; }
int symbols__new(void) { return 7; }

int main(void)
{
	char text[SIZE_TEXT_MAX];
	struct reason why = { "" };
	enum key_type key_type;
	int own = array_reserve_bytes() + format_size() + clean_text() + idmap_find() + reason_set() +
		  proc_read() + symbols__new();
	struct collector_options options = { .traceback_limit = COLLECTOR_TRACEBACK_LIMIT_MAX + 1 };

	if (strcmp(size_text(text, 5000, true), "+5000 B") || own != 28)
		return 1;
	if (!key_type_parse("none such", &key_type, &why) || !strstr(why.text, "lineno"))
		return 1;
	if (collector__open(&options, &why) || !strstr(why.text, "the number of frames must be"))
		return 1;
	puts("both are there");
	return 0;
}
