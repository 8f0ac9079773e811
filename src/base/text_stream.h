/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_TEXT_STREAM_H
#define ALLOCSNAP_BASE_TEXT_STREAM_H

#include <errno.h>
#include <stdio.h>

/*
 * Ends a stream of open_memstream() whose text is *text, which the caller frees. Returns 0 or -ENOMEM. Where glibc finds
 * no memory at the end, fclose() returns 0 and the text is NULL.
 */
static inline int text_stream_close(FILE *stream, char *const *text)
{
	return fclose(stream) || !*text ? -ENOMEM : 0;
}

#endif
