// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/host_name.h"

Test(host_name, is_the_environments_or_the_kernels)
{
	char name[HOST_NAME_BYTES], longer[1024];
	struct utsname machine;

	uname(&machine);
	unsetenv("ALLOCSNAP_HOST");
	cr_expect_str_eq(own_host_name(name), machine.nodename);
	setenv("ALLOCSNAP_HOST", "", 1);
	cr_expect_str_eq(own_host_name(name), machine.nodename);
	setenv("ALLOCSNAP_HOST", "node-1.example", 1);
	cr_expect_str_eq(own_host_name(name), "node-1.example");
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	setenv("ALLOCSNAP_HOST", longer, 1);
	cr_expect_eq(strlen(own_host_name(name)), HOST_NAME_BYTES - 1);
}
