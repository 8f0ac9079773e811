// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/host_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

char *own_host_name(char name[HOST_NAME_BYTES])
{
	const char *given = getenv("ALLOCSNAP_HOST");
	struct utsname machine;

	uname(&machine);
	snprintf(name, HOST_NAME_BYTES, "%s", given && *given ? given : machine.nodename);
	return name;
}
