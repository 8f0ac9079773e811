// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/filter.h"

#include "engine/pattern.h"

static bool matches_filter_text(const char *pattern, const char *text)
{
	return !pattern || pattern_matches(pattern, text ?: "<unknown>");
}

bool filter_matches_frame(const struct filter *filter, const struct frame_view *frame)
{
	if (filter->has_lineno && filter->lineno != frame->lineno)
		return false;
	if (filter->filename_pattern &&
	    !pattern_matches_filename(filter->filename_pattern, frame->filename))
		return false;
	return matches_filter_text(filter->function_pattern, frame->function) &&
	       matches_filter_text(filter->object_pattern, frame->object);
}
