// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/reason.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/units.h"

int reason_set(struct reason *why, int err, const char *fmt, ...)
{
	char text[sizeof(why->text)];
	va_list args;

	if (!why)
		return err;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	clean_text(why->text, sizeof(why->text), text);
	return err;
}
