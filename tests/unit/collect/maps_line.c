// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The mapping of an address, in this process. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collect/process/proc.h"

static char in_data[8192] = "data";

static bool find(const void *address, struct maps_line *ret)
{
	return maps_find_line(getpid(), (uintptr_t)address, ret);
}

Test(maps_line, is_that_of_the_address)
{
	struct maps_line code, data;

	cr_assert(find((const void *)(uintptr_t)find, &code));
	cr_assert(find(in_data, &data));
	cr_assert(code.perms[2] == 'x' && !strncmp(data.perms, "rw-p", 4), "%s %s", code.perms, data.perms);
	cr_assert(code.inode && code.inode == data.inode && code.dev == data.dev);
	cr_assert(data.start <= (uintptr_t)in_data && data.end > (uintptr_t)in_data);
	cr_assert_str_eq(data.path, "");
}

Test(maps_line, ends_where_the_mapping_ends)
{
	char *pages = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct maps_line first, hole = { .inode = 99 }, last;

	cr_assert(pages != MAP_FAILED && !munmap(pages + 4096, 4096));
	cr_assert(find(pages + 4095, &first) && find(pages + 8192, &last));
	cr_assert(!find(pages + 4096, &hole) && !find(pages + 8191, &hole) && hole.inode == 99);
	cr_assert(first.end == (uintptr_t)pages + 4096 && last.start == (uintptr_t)pages + 8192 && !first.inode);
}

Test(maps_line, is_none_where_nothing_is_mapped)
{
	struct maps_line line;

	cr_assert(!find(NULL, &line));
	cr_assert(!find((const void *)UINTPTR_MAX, &line));
	cr_assert(!maps_find_line(-1, (uintptr_t)in_data, &line));
}
