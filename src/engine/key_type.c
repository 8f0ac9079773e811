// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/key_type.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"

static int function_text(const struct frame_view *frame, struct key_text *text)
{
	if (frame->function)
		return key_text_add(text, frame->function);
	if (!frame->object)
		return key_text_add(text, "<unknown>");
	return key_text_add(text, "<unknown> in ") ?: key_text_add(text, frame->object);
}

static int object_text(const struct frame_view *frame, struct key_text *text)
{
	return key_text_add(text, frame->object ?: "<unknown>");
}

static const struct key_type_row rows[] = {
	[KEY_LINENO] = { "lineno", KEY_IS_FRAME, .has_cumulative = true },
	[KEY_FILENAME] = { "filename", KEY_IS_FRAME, .has_cumulative = true },
	[KEY_TRACEBACK] = { "traceback", KEY_IS_TRACEBACK },
	[KEY_FUNCTION] = { "function", KEY_IS_FRAME_TEXT, .has_cumulative = true,
			   .frame_text = function_text },
	[KEY_OBJECT] = { "object", KEY_IS_FRAME_TEXT, .has_cumulative = true,
			 .frame_text = object_text },
	[KEY_DOMAIN] = { "domain", KEY_IS_CLASS, .classes = &domain_classes },
	[KEY_PROCESS] = { "process", KEY_IS_CLASS, .asks_blocks = true, .classes = &process_classes },
	[KEY_SIZE_CLASS] = { "size-class", KEY_IS_CLASS, .asks_blocks = true, .classes = &size_classes },
	[KEY_AGE] = { "age", KEY_IS_CLASS, .asks_blocks = true, .classes = &age_classes },
	[KEY_THREAD] = { "thread", KEY_IS_CLASS, .asks_blocks = true, .classes = &thread_classes },
};
_Static_assert(ARRAY_SIZE(rows) == KEY_TYPE_NR, "every key type has a row");

const struct key_type_row *key_type_row(enum key_type key_type)
{
	return &rows[key_type];
}

const char *key_type_name(enum key_type key_type)
{
	return rows[key_type].name;
}

bool key_type_has_cumulative(enum key_type key_type)
{
	return rows[key_type].has_cumulative;
}

int key_type_parse(const char *text, enum key_type *ret_key_type, struct reason *why)
{
	char names[256] = "";

	for (enum key_type i = 0; i < KEY_TYPE_NR; i++) {
		if (!strcmp(text, rows[i].name)) {
			*ret_key_type = i;
			return 0;
		}
		strcat(names, i ? ", " : "");
		strcat(names, rows[i].name);
	}
	return reason_set(why, -EINVAL, "unknown key type \"%.100s\"; there are %s", text, names);
}
