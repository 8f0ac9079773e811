// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/clean.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

char *clean_copy(const char *text)
{
	size_t room = 4 * strlen(text) + 1; /* every byte as \xNN */
	char *clean = malloc(room);

	if (clean)
		clean_text(clean, room, text);
	return clean;
}

char *clean_vformat(const char *fmt, va_list args)
{
	char *text, *clean;

	if (vasprintf(&text, fmt, args) < 0)
		return NULL;
	clean = clean_copy(text);
	free(text);
	return clean;
}

char *clean_format(const char *fmt, ...)
{
	va_list args;
	char *clean;

	va_start(args, fmt);
	clean = clean_vformat(fmt, args);
	va_end(args);
	return clean;
}

int put_line(FILE *out, const char *fmt, ...)
{
	va_list args;
	char *line;
	int err = 0;

	va_start(args, fmt);
	line = clean_vformat(fmt, args);
	va_end(args);
	if (!line)
		return -ENOMEM;
	if (fputs(line, out) < 0 || putc('\n', out) < 0)
		err = -errno ?: -EIO;
	free(line);
	return err;
}
