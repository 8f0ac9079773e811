// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which files say that their process switches stacks. */
#include "collect/probe/uretprobe_safety.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "elf/probe_info.h"
#include "parser_fixture.h"
#include "collect/process/mappings.h"
#include "skip.h"

/* The reference to swapcontext makes this program itself hazardous. */
int (*switch_stacks)(ucontext_t *, const ucontext_t *) = swapcontext;

static int find(const char *file, const char *path, struct reason *ret)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC), found;
	struct probe_info facts = {};
	struct object object = { .path = (char *)path, .fd = fd, .facts = &facts };
	struct parser *parser;

	if (fd < 0)
		skip_because("no %s", file);
	parser = parser_with(NULL, 0);
	found = hazard_of_object(parser, &object, ret);
	parser__close(parser);
	close(fd);
	return found;
}

Test(hazards, include_a_program_that_uses_swapcontext)
{
	struct reason why = {};

	cr_expect_eq(find("/proc/self/exe", "/opt/unit", &why), 1);
	cr_expect_str_eq(why.text, "/opt/unit switches stacks (swapcontext)");
}

Test(hazards, do_not_include_the_c_library_that_defines_swapcontext)
{
	struct reason why = {};

	cr_expect_eq(find("/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib/libc.so.6", &why), 0);
	cr_expect_eq(find("/usr/lib/x86_64-linux-gnu/libc.so.6", "/opt/program", &why), 1);
}

Test(hazards, do_not_include_openssl)
{
	cr_expect_eq(find("/proc/self/exe", "/usr/lib/libcrypto.so.3", NULL), 0);
}

Test(hazards, do_not_include_other_files)
{
	struct object vdso = { .path = (char *)"[vdso]" };

	cr_expect_eq(find("/usr/lib/x86_64-linux-gnu/libz.so.1", "/lib/libz.so.1", NULL), 0);
	cr_expect_eq(find("/usr/bin/env", "/usr/bin/env", NULL), 0);
	cr_expect_eq(hazard_of_object(NULL, &vdso, NULL), 0);
}
