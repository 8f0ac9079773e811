// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "cli/cmd_help.h"
#include "cli/process_list.h"

#define SECOND_NS 1000000000ULL
#define NOON_NS (1795521600 * SECOND_NS) /* 2026-11-24 12:00:00 */

static struct listed_process processes[] = {
	{ .host = "shop-1", .comm = "redis-server-1x", .pid = 4194303, .snapshot_nr = 1234, .disk_bytes = 5 << 20,
	  .first = { .moment.wall_ns = NOON_NS, .traced_bytes = 1 << 20 },
	  .last = { .moment.wall_ns = NOON_NS + 3723 * SECOND_NS, .traced_bytes = 11 << 20 }, .peak_bytes = 13ULL << 30,
	  .pod = "", .end = "called exec of a program that is not recorded" },
	{ .host = "shop-1", .comm = "\033[2Jx", .pid = 7, .snapshot_nr = 1, .disk_bytes = 900,
	  .first = { .moment.wall_ns = NOON_NS, .traced_bytes = 3000 },
	  .last = { .moment.wall_ns = NOON_NS + 86400 * SECOND_NS, .traced_bytes = 1000 }, .peak_bytes = 3000,
	  .is_estimated = true, .pod = "", .end = "exited 0" },
	{ .host = "shop-1", .comm = "psql", .pid = 8, .snapshot_nr = 1, .disk_bytes = 900, .is_unseen = true,
	  .first = { .moment.wall_ns = NOON_NS }, .last = { .moment.wall_ns = NOON_NS }, .pod = "", .end = "exited 0" },
};

/* The lines of the table, each ended by a NUL instead of a newline. */
static char *print_table(size_t process_nr, int width)
{
	struct process_list list = { .process = processes, .process_nr = process_nr };
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	cr_assert_eq(list_table_print(&list, out, width), 0);
	fclose(out);
	return text;
}

static int widest_line(const char *text)
{
	char line[1024];
	int most = 0;

	for (; *text; text += strcspn(text, "\n") + 1) {
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
		if (text_width(line) > most)
			most = text_width(line);
	}
	return most;
}

Test(list_table, is_as_wide_as_it_needs_without_a_terminal)
{
	char *text = print_table(2, 0);

	cr_expect_str_eq(text,
		"PROCESS                  FROM                 TO                   SNAPS  DISK  TRACED   PEAK  GROWTH  END\n"
		"redis-server-1x.4194303  2026-11-24 12:00:00  13:02:03              1234  5.0M   11.0M  13.0G  +10.0M  "
		"called exec of a program that is not recorded\n"
		"\\x1b[2Jx.7               2026-11-24 12:00:00  2026-11-25 12:00:00      1  900B  ~1000B  ~2.9K  ~-2.0K  exited 0\n");
	free(text);
}

Test(list_table, knows_nothing_of_a_process_that_was_probed_too_late)
{
	char *text = print_table(3, 0);

	cr_expect_not_null(strstr(text, "psql.8"), "%s", text);
	cr_expect_not_null(strstr(text, "900B       ?      ?       ?  exited 0"), "%s", text);
	free(text);
}

Test(list_table, fits_every_terminal_that_has_54_columns)
{
	for (int width = 54; width < 160; width++) {
		char *text = print_table(2, width);

		cr_expect(widest_line(text) <= width, "%d columns of %d:\n%s", widest_line(text), width, text);
		cr_expect(strstr(text, ".4194303") && strstr(text, "exited 0"), "%d: %s", width, text);
		free(text);
	}
}

Test(list_table, names_pods_where_there_is_one_and_room)
{
	for (int width = 54; width < 240; width++) {
		char *text;

		processes[1].pod = "shop/web-0\033x";
		text = print_table(2, width);
		cr_expect(widest_line(text) <= width, "%d columns of %d:\n%s", widest_line(text), width, text);
		cr_expect(width < 76 || (strstr(text, "  POD") && strstr(text, "shop/web-0")), "%d: %s", width, text);
		free(text);
	}
}

Test(list_table, keeps_the_pid_of_a_long_name)
{
	char *text = print_table(1, 80);

	cr_expect_not_null(strstr(text, "….4194303"), "%s", text);
	cr_expect_null(strstr(text, "DISK"));
	free(text);
}

Test(list_table, names_hosts_if_there_are_several)
{
	char *text;

	processes[1].host = "shop-2";
	text = print_table(2, 0);
	cr_expect_not_null(strstr(text, "shop-1/redis"), "%s", text);
	cr_expect_not_null(strstr(text, "shop-2/"));
	free(text);
}

Test(list_table, sizes_are_short)
{
	static const struct {
		double bytes;
		const char *text, *with_sign;
	} cases[] = {
		{ 0, "0B", "+0B" }, { 1023, "1023B", "+1023B" }, { 1024, "1.0K", "+1.0K" },
		{ -1536, "-1.5K", "-1.5K" }, { 99.9 * 1024, "99.9K", "+99.9K" }, { 1023.4 * 1024, "1023K", "+1023K" },
		{ 1048500, "1.0M", "+1.0M" }, { 18446744073709551615.0, "16.0E", "+16.0E" },
	};
	char text[LIST_SIZE_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cr_expect_str_eq(list_size_text(text, cases[i].bytes, false), cases[i].text);
		cr_expect_str_eq(list_size_text(text, cases[i].bytes, true), cases[i].with_sign);
	}
}
