// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The status line, over a collector that the test plays. */
#include <criterion/criterion.h>
#include <string.h>

#define collector__get_health shown_get_health
#define collector__process_nr shown_process_nr
#define collector__view shown_view

#include "record/recording_show.c"

static struct process_view shown[2];
static size_t shown_nr;

void shown_get_health(const struct collector *collector, struct collector_health *ret)
{
	(void)collector;
	*ret = (struct collector_health){ .processes = shown_nr, .bystander_traps = 5310 };
}

size_t shown_process_nr(const struct collector *collector)
{
	(void)collector;
	return shown_nr;
}

void shown_view(const struct collector *collector, size_t i, struct process_view *ret)
{
	(void)collector;
	*ret = shown[i];
}

static const char *format_at(status_format_fn format, size_t width)
{
	static char text[256];

	memset(text, 'x', sizeof(text));
	format(text, width, &(const struct recording_status){ .seconds = 12, .snapshot_nr = 3 });
	cr_assert(memchr(text, '\0', width), "longer than %zu columns", width);
	return text;
}

static void show_redis(void)
{
	shown_nr = 1;
	shown[0] = (struct process_view){
		.comm = "redis-server", .lost = 17, .allocations = 144003,
		.memory = { .current_bytes = 5 << 20, .current_blocks = 1234 },
	};
}

Test(status_line, has_the_most_important_parts_first)
{
	show_redis();
	cr_expect_str_eq(format_at(format_named_status, 200),
			 "recording redis-server, 17 lost: 5120 KiB in 1234 blocks, 12 s, 3 snapshots [Ctrl-C ends], "
			 "144003 allocations");
	cr_expect_str_eq(format_at(format_record_status, 200),
			 "recording 1 process, 17 lost: 5120 KiB in 1234 blocks, 12 s, 3 snapshots [Ctrl-C ends], "
			 "other processes paid 0.00 s");
}

Test(status_line, never_cuts_what_was_lost)
{
	show_redis();
	for (size_t width = 10; width < 120; width++)
		for (int i = 0; i < 2; i++)
			cr_expect_not_null(strstr(format_at(i ? format_record_status : format_named_status, width),
						  "17 lost"), "%zu columns", width);
	cr_expect_str_eq(format_at(format_named_status, 80),
			 "recording redis-server, 17 lost: 5120 KiB in 1234 blocks, 12 s, 3 snapshots");
	cr_expect_str_eq(format_at(format_named_status, 20), "17 lost: 5120 KiB");
}

Test(status_line, says_how_much_was_not_recorded)
{
	show_redis();
	shown[0].is_paused = true;
	shown[0].recorded_ns = 12500000000;
	shown[0].gaps_ns = 3250000000;
	cr_expect_str_eq(format_at(format_named_status, 200),
			 "pausing redis-server, 17 lost, 3.25 s (26 %) not recorded: 5120 KiB in 1234 blocks, 12 s, "
			 "3 snapshots [Ctrl-C ends], 144003 allocations");
	cr_expect_str_eq(format_at(format_named_status, 60), "pausing redis-server, 17 lost, 3.25 s (26 %) not recorded");
	shown[0].is_paused = false;
	shown[0].gaps_ns = 13000000;
	cr_expect_not_null(strstr(format_at(format_record_status, 200), "1 process, 17 lost, 13 ms (0.1 %) not recorded: "));
	shown[1] = shown[0];
	shown[1].recorded_ns = 37500000000;
	shown[1].gaps_ns = 10000000000;
	shown_nr = 2;
	cr_expect_not_null(strstr(format_at(format_named_status, 200),
				  "recording 2 processes, 34 lost, 20 % of the time not recorded: 10.0 MiB in 2468 blocks, "));
}
