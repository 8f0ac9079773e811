// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/frame_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

__attribute__((format(printf, 1, 2))) static char *format_frame_part(const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	return text;
}

/* Offset 0 means not known: a return address comes after a call, so it is never 0. */
static bool has_place(const struct frame_view *frame)
{
	return frame->object || frame->offset;
}

/* "OBJECT+0xOFFSET", or the address if there is no object. */
static char *place_text(const struct frame_view *frame)
{
	if (!frame->object)
		return format_frame_part("0x%" PRIx64, frame->offset);
	if (!frame->offset)
		return strdup(frame->object);
	return format_frame_part("%s+0x%" PRIx64, frame->object, frame->offset);
}

static char *nameless_text(const struct frame_view *frame)
{
	if (frame->lineno)
		return format_frame_part("%s:%" PRIu32, frame->filename, frame->lineno);
	if (has_place(frame))
		return place_text(frame);
	return strdup(frame->filename);
}

static char *function_at_place(const char *before, const struct frame_view *frame)
{
	char *place = place_text(frame), *text;

	if (!place)
		return NULL;
	text = format_frame_part("%s%s (%s)", before, frame->function, place);
	free(place);
	return text;
}

char *frame_text(const struct frame_view *frame)
{
	if (!frame->function)
		return nameless_text(frame);
	if (frame->lineno)
		return format_frame_part("%s at %s:%" PRIu32, frame->function, frame->filename, frame->lineno);
	if (has_place(frame))
		return function_at_place("", frame);
	return strdup(frame->function);
}

char *frame_name(const struct frame_view *frame)
{
	return frame->function ? strdup(frame->function) : nameless_text(frame);
}

char *frame_extra(const struct frame_view *frame)
{
	bool place = !frame->lineno && has_place(frame);

	if (!frame->function)
		return place ? place_text(frame) : strdup("");
	return place ? function_at_place("in ", frame) : format_frame_part("in %s", frame->function);
}
