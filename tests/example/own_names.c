// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A program that has its own functions of names that the library also has inside. It must link,
 * and each must call its own.
 */
#include <allocsnap/allocsnap.h>
#include <stdio.h>
#include <string.h>

int array_reserve_bytes(void);
int format_size(void);
int clean_text(void);
int idmap_find(void);
int reason_set(void);

int array_reserve_bytes(void) { return 1; }
int format_size(void) { return 2; }
int clean_text(void) { return 3; }
int idmap_find(void) { return 4; }
int reason_set(void) { return 5; }

int main(void)
{
	char text[SIZE_TEXT_MAX];
	struct reason why = { "" };
	enum key_type key_type;
	int own = array_reserve_bytes() + format_size() + clean_text() + idmap_find() + reason_set();

	if (strcmp(size_text(text, 5000, true), "+5000 B") || own != 15)
		return 1;
	if (!key_type_parse("none such", &key_type, &why) || !strstr(why.text, "lineno"))
		return 1;
	puts("both are there");
	return 0;
}
