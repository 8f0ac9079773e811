// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/row_schema.h"

#define EMBED(name, path) \
	__asm__(".pushsection .rodata\n" name ":\n.incbin \"" path "\"\n.byte 0\n.popsection\n")

EMBED("row_schema_sqlite_text", "src/fleet/sql/sqlite.sql");

extern const char row_schema_sqlite_text[];

const char *row_schema_sqlite(void)
{
	return row_schema_sqlite_text;
}
