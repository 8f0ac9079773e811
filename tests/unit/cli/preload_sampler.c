// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The library is found beside the program, which lies in .output itself. */
#include "cli/preload_sampler.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"

/* The part of LD_PRELOAD behind the path of the library of this name. */
static const char *others_of(const char *library)
{
	const char *value = getenv("LD_PRELOAD"), *name = value ? strstr(value, library) : NULL;

	cr_assert_not_null(name, "LD_PRELOAD is %s", value ?: "not set");
	cr_expect_eq(value[0], '/');
	return name + strlen(library);
}

static const char *others(void)
{
	return others_of("/liballocsnap-sampler.so");
}

static void preload(struct preload *before)
{
	struct reason why = {};

	cr_assert_eq(preload_sampler(before, 4096, &why), 0, "%s", why.text);
	cr_expect_str_eq(getenv("ALLOCSNAP_SAMPLE"), "4096");
}

Test(preload_sampler, comes_before_other_libraries)
{
	struct preload before;

	setenv("LD_PRELOAD", "libx.so.2 /x/y.so", 1);
	setenv("ALLOCSNAP_SAMPLE", "1M", 1);
	preload(&before);
	cr_expect_str_eq(others(), ":libx.so.2 /x/y.so");
	preload_restore(&before);
	cr_expect_str_eq(getenv("LD_PRELOAD"), "libx.so.2 /x/y.so");
	cr_expect_str_eq(getenv("ALLOCSNAP_SAMPLE"), "1M");
}

Test(preload_sampler, has_operators_for_allocators_that_have_them)
{
	struct preload before;

	setenv("LD_PRELOAD", "/x/y.so:/z/libmimalloc.so.2", 1);
	preload(&before);
	cr_expect_str_eq(others_of("/liballocsnap-sampler-new.so"), ":/x/y.so:/z/libmimalloc.so.2");
	preload_restore(&before);
}

Test(preload_sampler, stands_alone_if_there_are_no_others)
{
	struct preload before;

	unsetenv("LD_PRELOAD");
	unsetenv("ALLOCSNAP_SAMPLE");
	preload(&before);
	cr_expect_str_eq(others(), "");
	preload_restore(&before);
	cr_expect_null(getenv("LD_PRELOAD"));
	cr_expect_null(getenv("ALLOCSNAP_SAMPLE"));
	setenv("LD_PRELOAD", "", 1);
	preload(&before);
	cr_expect_str_eq(others(), "");
	preload_restore(&before);
	cr_expect_str_eq(getenv("LD_PRELOAD"), "");
}
