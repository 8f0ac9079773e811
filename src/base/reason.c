// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/reason.h"

#include <stdarg.h>
#include <stdio.h>

int reason_set(struct reason *why, int err, const char *fmt, ...)
{
	va_list args;

	if (!why)
		return err;
	va_start(args, fmt);
	vsnprintf(why->text, sizeof(why->text), fmt, args);
	va_end(args);
	return err;
}
