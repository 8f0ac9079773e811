// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Texts that tell rows apart. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "top/answer.h"

/* Frames of a line are equal whatever else they have, as in the engine. */
static void put_frame_identity(FILE *out, const struct frame_view *frame)
{
	if (frame->lineno)
		fprintf(out, "%s:%" PRIu32 "\n", frame->filename, frame->lineno);
	else
		fprintf(out, "%s\t%s\t%s\t%" PRIx64 "\n", frame->filename, frame->function ?: "", frame->object ?: "",
			frame->offset);
}

/* As key texts of the engine. */
static void put_function_identity(FILE *out, const struct frame_view *frame)
{
	if (frame->function)
		fputs(frame->function, out);
	else if (frame->object)
		fprintf(out, "<unknown> in %s", frame->object);
	else
		fputs("<unknown>", out);
}

static void put_identity(FILE *out, enum key_type key_type, const struct frame_view *frame, uint32_t nframe)
{
	const struct frame_view *own = &frame[nframe - 1];

	if (key_type == KEY_LINENO)
		put_frame_identity(out, own);
	else if (key_type == KEY_FILENAME)
		fputs(own->filename, out);
	else if (key_type == KEY_FUNCTION)
		put_function_identity(out, own);
	else if (key_type == KEY_OBJECT)
		fputs(own->object ?: "<unknown>", out);
	for (uint32_t i = 0; i < nframe && key_type == KEY_TRACEBACK; i++) {
		put_frame_identity(out, &frame[i]);
		fprintf(out, "%s\n", frame[i].function ?: "");
	}
}

char *top_identity(enum key_type key_type, const struct frame_view *frame, uint32_t nframe, const char *key)
{
	char *text = NULL;
	size_t len;
	FILE *out;

	if (key)
		return strdup(key);
	out = open_memstream(&text, &len);
	if (!out)
		return NULL;
	if (nframe)
		put_identity(out, key_type, frame, nframe);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}
