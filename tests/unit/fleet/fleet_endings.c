// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether processes live, as their snapshots and other processes' snapshots show. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "base/array.h"
#include "fleet_files.h"

TestSuite(fleet_endings, .init = fleet_enter, .fini = fleet_leave, .timeout = 600);

static const struct fleet_snapshot *find_at(const struct fleet_facts *facts, int64_t time_ns)
{
	for (size_t i = 0; i < facts->snapshot_nr; i++)
		if (facts->snapshot[i].time_ns == time_ns)
			return &facts->snapshot[i];
	cr_assert_fail("no snapshot of %ld", time_ns);
	return NULL;
}

/* Writes the files, and reads what the catalogue has of them; it must be closed. */
static struct catalogue *facts_of(const struct fleet_file *file, size_t nr, struct fleet_facts *ret)
{
	struct catalogue *catalogue;

	for (size_t i = 0; i < nr; i++)
		fleet_write(&file[i]);
	fleet_index_d();
	catalogue = fleet_open();
	cr_assert_eq(catalogue__facts(catalogue, ret, NULL), 0);
	return catalogue;
}

/* The last snapshot of a process shows how it ended; others show that it went on. */
Test(fleet_endings, reports_how_each_process_ended)
{
	static const struct fleet_file files[] = {
		{ "d/1.snap", "a", "1", "10", .boot_id = "x", .start_ticks = "5", .end = "running" },
		{ "d/2.snap", "a", "1", "20", .boot_id = "x", .start_ticks = "5", .end = "exited 3" },
		{ "d/3.snap", "a", "2", "30", .boot_id = "x", .start_ticks = "5", .exec_count = "1", .end = "running" },
		{ "d/4.snap", "a", "2", "40", .boot_id = "x", .start_ticks = "5", .exec_count = "10", .end = "running" },
		{ "d/5.snap", "a", "2", "50", .boot_id = "x", .start_ticks = "6", .exec_count = "11", .end = "running" },
		{ "d/6.snap", "b", "1", "60", .boot_id = "x", .start_ticks = "5", .end = "running" },
		{ "d/7.snap", "b", "1", "70", .boot_id = "y", .start_ticks = "5", .end = "running" },
		{ "d/8.snap", "b", "3", "80" },
	};
	static const char *const want[] = {
		"exited 3", "exited 3", REPLACED_BY_EXEC, "running", "running", GONE_WITH_BOOT, "running", "",
	};
	struct catalogue *catalogue;
	struct fleet_facts facts;

	catalogue = facts_of(files, ARRAY_SIZE(files), &facts);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		cr_expect_str_eq(find_at(&facts, 10 * i + 10)->ending, want[i], "snapshot %zu", i + 1);
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}

#define SEEN(number, host_, boot, pid_, monotonic, recording, ...) { \
	"d/" number ".snap", host_, pid_, number, .boot_id = boot, .start_ticks = "5", .monotonic_ns = monotonic, \
	.recording_ns = recording, .end = "running", __VA_ARGS__ }

Test(fleet_endings, reports_processes_that_were_not_seen_again)
{
	static const struct fleet_file files[] = {
		/* Two snapshots were due since, and a little less; the third does not say when. */
		SEEN("10", "a", "a", "1", "99", "5", .interval_ns = "50", .trigger = "interval"),
		SEEN("20", "a", "a", "2", "100", "5", .interval_ns = "50", .trigger = "interval"),
		SEEN("30", "a", "a", "3", "10", "5", .trigger = "interval"),
		SEEN("40", "a", "a", "4", "200", "5", .interval_ns = "50", .trigger = "growth"),
		/* The first recording had stopped before the second began. */
		SEEN("50", "b", "b", "1", "100", "5", .interval_ns = "1000", .trigger = "duration"),
		SEEN("60", "b", "b", "2", "150", "101", .interval_ns = "1000", .trigger = "last"),
		SEEN("70", "b", "b", "3", "101", "5", .interval_ns = "1000", .trigger = "last"),
		/* A recorder began anew: it has saved only what ended since. */
		SEEN("80", "c", "c", "1", "100", "5", .interval_ns = "1000", .trigger = "last"),
		SEEN("90", "c", "c", "2", "150", "101", .interval_ns = "1000", .trigger = "end"),
		/* A recorder was killed: nothing says that it had stopped. */
		SEEN("100", "d", "d", "1", "100", "5", .interval_ns = "1000", .trigger = "interval"),
		SEEN("110", "d", "d", "2", "150", "101", .interval_ns = "1000", .trigger = "interval"),
		/* Nothing is known of the boot, or of its clock. */
		SEEN("120", "e", NULL, "1", "10", "5", .interval_ns = "1", .trigger = "interval"),
		SEEN("130", "e", NULL, "2", "100", "5", .interval_ns = "1", .trigger = "interval"),
		SEEN("140", "d", "d", "3", NULL, "5", .interval_ns = "1", .trigger = "interval"),
		/* A snapshot's own word counts more. */
		SEEN("150", "d", "d", "4", "10", "5", .interval_ns = "1", .trigger = "end"),
	};
	struct catalogue *catalogue;
	struct fleet_facts facts;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct fleet_file file = files[i];

		if (i + 1 == ARRAY_SIZE(files))
			file.end = "exited 0";
		fleet_write(&file);
	}
	fleet_index_d();
	catalogue = fleet_open();
	cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		const struct fleet_snapshot *s = find_at(&facts, 10 * i + 10);

		cr_expect_str_eq(s->ending, i == 0 || i == 4 ? NOT_SEEN_AGAIN : i == 14 ? "exited 0" : "running", "snapshot %zu",
				 10 * i + 10);
	}
	cr_expect_eq(find_at(&facts, 10)->behind_ns, 101);
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}

/* Between boots, and without a boot or its clock, only the wall clock says how old it is. */
Test(fleet_endings, reports_how_much_older_a_process_is_than_its_host)
{
	static const struct fleet_file files[] = {
		SEEN("1000", "a", "x", "1", "700", "5", .trigger = "interval"), /* gone with its boot, as the newest of it */
		SEEN("1010", "a", "x", "2", "600", "5", .trigger = "end"),	/* exited before that, and its boot is gone */
		SEEN("2000", "a", "y", "3", "50", "5", .trigger = "end"),
		SEEN("2100", "a", "y", "4", "250", "5", .trigger = "interval"), /* the wall clock was set back by 100 meanwhile */
		SEEN("2040", "a", "y", "5", NULL, "5", .trigger = "interval"),
		SEEN("1500", "a", NULL, "6", "10", "5", .trigger = "interval"),
		SEEN("3000", "b", "z", "7", "10", "5", .trigger = "interval"),
	};
	static const int64_t want[] = { 1100, 1090, 200, 0, 60, 600, 0 };
	struct catalogue *catalogue;
	struct fleet_facts facts;

	catalogue = facts_of(files, ARRAY_SIZE(files), &facts);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		cr_expect_eq(find_at(&facts, atoi(files[i].wall_ns))->behind_ns, want[i], "%s", files[i].path);
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}

/* One machine's boots follow each other. Two boots that overlap are two machines of one name: no process is gone. */
Test(fleet_endings, boots_that_overlap_are_of_two_machines)
{
	static const struct fleet_file files[] = {
		{ "d/1.snap", "a", "1", "10", .boot_id = "x", .start_ticks = "5", .end = "running" },
		{ "d/2.snap", "a", "1", "20", .boot_id = "y", .start_ticks = "5", .end = "running" },
		{ "d/3.snap", "a", "1", "30", .boot_id = "x", .start_ticks = "5", .end = "running" },
		{ "d/4.snap", "a", "2", "40", .boot_id = "y", .start_ticks = "5", .end = "running" },
		{ "d/5.snap", "a", "2", "50", .boot_id = "z", .start_ticks = "5", .end = "running" },
		{ "d/6.snap", "b", "2", "15", .boot_id = "w", .start_ticks = "5", .end = "running" },
	};
	struct catalogue *catalogue;
	struct fleet_facts facts;

	catalogue = facts_of(files, ARRAY_SIZE(files), &facts);
	for (size_t i = 0; i < facts.snapshot_nr; i++) {
		const struct fleet_snapshot *s = &facts.snapshot[i];
		bool is_old = *s->host == 'a' && *s->boot_id != 'z';

		cr_expect_str_eq(s->ending, is_old ? GONE_WITH_BOOT : "running", "%ld", s->time_ns);
		cr_expect_eq(s->has_twin, is_old, "%ld", s->time_ns);
	}
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
	cr_assert_eq(unlink("d/5.snap"), 0);
	fleet_sql("DELETE FROM snapshot WHERE time_ns = 50");
	catalogue = fleet_open();
	cr_assert_eq(catalogue__facts(catalogue, &facts, NULL), 0);
	for (size_t i = 0; i < facts.snapshot_nr; i++)
		cr_expect_str_eq(facts.snapshot[i].ending, "running");
	fleet_facts_release(&facts);
	catalogue__close(catalogue);
}
