// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "base/reason.h"
#include "collect/unwind/unwind_tables.h"
#include "skip.h"
#include "unwind/unwind_table.h"

static bool find_vdso(uintptr_t *ret_start, uintptr_t *ret_end)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	bool is_found = false;
	char line[512];

	while (maps && !is_found && fgets(line, sizeof(line), maps))
		is_found = strstr(line, "[vdso]") &&
			   sscanf(line, "%" SCNxPTR "-%" SCNxPTR, ret_start, ret_end) == 2;
	if (maps)
		fclose(maps);
	return is_found;
}

/* Our own vDSO is used; a size that differs is refused. */
Test(own_vdso, gives_a_table)
{
	struct unwind_table *table = NULL;
	struct reason why = { "" };
	uintptr_t start, end;

	if (!find_vdso(&start, &end))
		skip_because("this kernel gives us no vDSO");
	cr_assert_eq(own_vdso(end - start), (const void *)start);
	cr_expect_null(own_vdso(end - start + 4096));
	cr_expect_null(own_vdso(end - start - 4096));
	cr_expect_null(own_vdso(0));
	cr_assert_eq(unwind_table__from_memory(own_vdso(end - start), end - start, &table, &why), 0,
		     "%s", why.text);
	cr_expect(unwind_table__is_sound(table));
	cr_expect_geq(table->fde_nr, 3);
	unwind_table__free(table);
}
