// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "inject/found_samplers.h"
#include "inject/inject.h"

#include <errno.h>

#include "base/reason.h"

/* In place of the files that put machine code into processes, on a machine that they have no code for. */

static int refuse(struct reason *why)
{
	return reason_set(why, -ENOTSUP, "what goes into a running program is machine code of x86-64");
}

int inject_plan_make(struct sandbox *, pid_t, struct inject_plan **, struct reason *why)
{
	return refuse(why);
}

void inject_plan_free(struct inject_plan *)
{
}

int inject_execute(struct inject_plan *, const struct inject_options *, struct inject_books *, struct inject_times *,
		   struct reason *why)
{
	return refuse(why);
}

int inject_python_check(pid_t, uint64_t, struct inject_python *, struct reason *why)
{
	return refuse(why);
}

int inject_python_execute(pid_t, uint64_t, struct inject_python *, const struct inject_wait *, const struct inject_options *,
			  struct inject_books *, struct inject_file *, struct inject_times *, struct reason *why)
{
	return refuse(why);
}

int inject_check_overcommit(struct reason *why)
{
	return refuse(why);
}

int inject_check_books(pid_t, struct reason *why)
{
	return refuse(why);
}

int inject_eject(pid_t, pid_t, uint64_t, struct eject_result *, struct reason *why)
{
	return refuse(why);
}

/* So nothing of that kind is in any process. */

int inject_open_books(pid_t, const struct inject_books *, int *)
{
	return -ENOENT;
}

int inject_find(pid_t, struct inject_found *, struct reason *)
{
	return -ENOENT;
}

const char *inject_kind_text(enum inject_kind)
{
	return "a sampler";
}

bool inject_has_file(pid_t, const struct inject_file *)
{
	return false;
}

uint32_t inject_files(pid_t, struct inject_file[INJECT_ALLOCATORS_MAX])
{
	return 0;
}

bool read_injected_copies(int, uint64_t *, uint64_t *)
{
	return false;
}
