// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "base/reason.h"
#include "engine.h"

static const char *const key_type_names[] = {
	[KEY_LINENO] = "lineno",
	[KEY_FILENAME] = "filename",
	[KEY_TRACEBACK] = "traceback",
};
_Static_assert(sizeof(key_type_names) / sizeof(key_type_names[0]) == KEY_TYPE_NR,
	       "every key type has a name");

const char *key_type_name(enum key_type key_type)
{
	return key_type_names[key_type];
}

int key_type_parse(const char *text, enum key_type *ret_key_type, struct reason *why)
{
	char names[256] = "";

	for (enum key_type i = 0; i < KEY_TYPE_NR; i++) {
		if (!strcmp(text, key_type_names[i])) {
			*ret_key_type = i;
			return 0;
		}
		strcat(names, i ? ", " : "");
		strcat(names, key_type_names[i]);
	}
	return reason_set(why, -EINVAL, "unknown key type \"%s\"; there are %s", text, names);
}
