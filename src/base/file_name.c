// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/file_name.h"

#include <string.h>

void clean_file_name(char *name)
{
	if (*name == '.')
		*name = '_';
	for (name += strspn(name, FILE_NAME_BYTES); *name; name += strspn(name, FILE_NAME_BYTES))
		*name = '_';
}
