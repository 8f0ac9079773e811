// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/row_schema.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define X(part, file) \
	__asm__(".pushsection .rodata\nrow_sql_" #part ":\n.incbin \"src/fleet/sql/" file ".sql\"\n.byte 0\n.popsection\n"); \
	extern const char row_sql_##part[];
ROW_SQL(X)
#undef X

static const char *const texts[] = {
#define X(part, file) row_sql_##part,
	ROW_SQL(X)
#undef X
};

const char *row_sql_text(enum row_sql part)
{
	return texts[part];
}

/* Returns the length of the place at text, whose value is written; 0: there is none. */
static size_t write_place(FILE *out, const char *text, const struct row_place *place, size_t place_nr)
{
	for (size_t i = 0; *text == '{' && i < place_nr; i++) {
		size_t len = strlen(place[i].name);

		if (strncmp(text + 1, place[i].name, len) || text[1 + len] != '}')
			continue;
		fputs(place[i].value, out);
		return len + 2;
	}
	return 0;
}

char *row_sql_fill(enum row_sql part, const struct row_place *place, size_t place_nr)
{
	const char *text = texts[part];
	char *filled = NULL;
	size_t all, len;
	FILE *out = open_memstream(&filled, &all);

	if (!out)
		return NULL;
	for (bool begins_line = true; *text; begins_line = text[-1] == '\n') {
		if (begins_line && !strncmp(text, "--", 2)) {
			text += strcspn(text, "\n") + 1;
			continue;
		}
		len = write_place(out, text, place, place_nr);
		if (!len)
			putc(*text, out);
		text += len ?: 1;
	}
	if (!fclose(out))
		return filled;
	free(filled);
	return NULL;
}
