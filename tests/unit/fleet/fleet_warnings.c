// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/caveats.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/reason.h"
#include "snapshot.h"

#define ANY .boot_id = "", .ending = "running", .exe = "", .exe_build_id = "", .comm = "", .host = "", .path = ""

#define NOW (1795262400 * 1000000000ll)
#define DAY_NS (24 * 3600 * 1000000000ll)

static const struct engine_options engine;

/* The lines, with a newline each. */
static const char *doubts_of(const struct fleet_facts *facts, const struct cohort *cohort)
{
	static char text[4096];
	const struct fleet_doubt doubt = {
		.facts = facts, .cohort = &cohort, .cohort_nr = 1, .engine = &engine,
		.now_ns = NOW,
	};
	struct warnings doubts;

	cr_assert_eq(fleet_doubts_find(&doubt, &doubts), 0);
	text[0] = '\0';
	for (size_t i = 0; i < doubts.nr; i++)
		strcat(strcat(text, doubts.line[i]), "\n");
	return text;
}

Test(fleet_warnings, report_processes_that_have_ended)
{
	struct fleet_snapshot snapshot[] = {
		{ ANY, .process = 0 }, { ANY, .process = 1 }, { ANY, .process = 2 }, { ANY, .process = 3 },
	};
	const struct fleet_snapshot *all[] = { &snapshot[0], &snapshot[1], &snapshot[2], &snapshot[3] };
	const struct fleet_facts facts = { .snapshot = snapshot, .snapshot_nr = 4, .process_nr = 4 };
	struct cohort cohort = { .snapshot = all, .snapshot_nr = 4, .process_nr = 4 };

	snapshot[3].ending = "";
	cr_expect_str_eq(doubts_of(&facts, &cohort), "");
	snapshot[1].ending = "exited 0";
	snapshot[2].ending = REPLACED_BY_EXEC;
	cr_expect_str_eq(doubts_of(&facts, &cohort),
			 "2 of 4 processes have ended, were replaced by exec or a reboot, or were not seen again; --where "
			 "end=running leaves these out\n");
	cohort.times = COHORT_ALL;
	cr_expect_str_eq(doubts_of(&facts, &cohort), "", "who asks for all times asks for those, too");
}

Test(fleet_warnings, report_what_was_left_out)
{
	const struct fleet_facts facts = {};
	struct cohort cohort = { .process_nr = 1, .times = COHORT_LIVE };

	cr_expect_str_eq(doubts_of(&facts, &cohort), "");
	cohort.ended = (struct cohort_ended){ 2, 4096, 0, 0 };
	cr_expect_str_eq(doubts_of(&facts, &cohort), "2 of 3 processes had ended (4096 B, last seen 0.0 s before the newest snapshot of their "
						 "hosts): --all-processes adds them\n");
	cohort.unseen = (struct cohort_ended){ 1, 100, 1500000000, 1500000000 };
	cr_expect_str_eq(doubts_of(&facts, &cohort),
			 "2 of 4 processes had ended (4096 B, last seen 0.0 s before the newest snapshot of their hosts), and 1 was "
			 "not seen again (100 B, last seen 1.5 s before that): --all-processes adds "
			 "them\n");
	cohort = (struct cohort){ .ended = { 1, 4096, 3 * DAY_NS, 3 * DAY_NS } };
	cr_expect_str_eq(doubts_of(&facts, &cohort),
			 "1 of 1 process had ended (4096 B, last seen 3.0 days before the newest snapshot of its host): "
			 "--all-processes adds it\n");
	cohort = (struct cohort){ .process_nr = 1 };
	cohort.unseen = (struct cohort_ended){ 3, 100, 1500000000, 7200 * 1000000000ll };
	cr_expect_str_eq(doubts_of(&facts, &cohort),
			 "3 of 4 processes were not seen again (100 B, last seen 1.5 s to 2.0 h before the newest snapshot of their "
			 "hosts): --all-processes adds them\n");
}

Test(fleet_warnings, report_times_in_the_future)
{
	struct fleet_snapshot snapshot[] = {
		{ ANY, .time_ns = NOW + DAY_NS }, { ANY, .process = 1, .time_ns = NOW + DAY_NS },
	};
	const struct fleet_snapshot *all[] = { &snapshot[0], &snapshot[1] };
	const struct fleet_facts facts = { .snapshot = snapshot, .snapshot_nr = 2, .process_nr = 2 };
	const struct cohort cohort = { .snapshot = all, .snapshot_nr = 2, .process_nr = 2 };

	cr_expect_str_eq(doubts_of(&facts, &cohort), "");
	snapshot[1].time_ns++;
	cr_expect_str_eq(doubts_of(&facts, &cohort),
			 "1 snapshot is more than a day in the future: a clock is wrong there, or here\n");
	snapshot[1].time_ns = INT64_MIN;
	cr_expect_str_eq(doubts_of(&facts, &cohort), "", "whatever a catalogue says");
}

Test(fleet_warnings, report_processes_that_were_recorded_again)
{
	struct fleet_snapshot snapshot[] = {
		{ ANY, .process = 0, .recording = 0 }, { ANY, .process = 0, .recording = 1 },
		{ ANY, .process = 1, .recording = 2 }, { ANY, .process = 1, .recording = 2 },
	};
	const struct fleet_snapshot *all[] = { &snapshot[0], &snapshot[1], &snapshot[2], &snapshot[3] };
	const struct fleet_facts facts = { .snapshot = snapshot, .snapshot_nr = 4, .process_nr = 2, .recording_nr = 3 };
	struct cohort cohort = { .snapshot = all, .snapshot_nr = 4, .process_nr = 2, .times = COHORT_ALL };

	cr_expect_str_eq(doubts_of(&facts, &cohort),
			 "1 process was recorded anew in between: what was allocated before is not in the later "
			 "snapshots\n");
	cohort.snapshot = all + 1;
	cohort.snapshot_nr = 3;
	cr_expect_str_eq(doubts_of(&facts, &cohort), "", "one recording of each");
}

Test(fleet_warnings, report_two_machines_of_one_name_and_gaps)
{
	struct fleet_snapshot snapshot[] = {
		{ ANY, .process = 0 }, { ANY, .process = 1, .gap_blocks = { 4096, 2 } },
	};
	const struct fleet_snapshot *all[] = { &snapshot[0], &snapshot[1] };
	const struct fleet_facts facts = { .snapshot = snapshot, .snapshot_nr = 2, .process_nr = 2 };
	const struct cohort cohort = { .snapshot = all, .snapshot_nr = 2, .process_nr = 2 };

	snapshot[0].has_twin = true;
	snapshot[0].host = "web";
	cr_expect_str_eq(doubts_of(&facts, &cohort),
			 "web has snapshots of two boots at one time: two machines of one name, or a clock that was set\n"
			 "1 of 2 snapshots have gaps in what was recorded: 4096 B that are older than the last one may be "
			 "gone\n");
}

Test(fleet_warnings, report_names_that_were_not_lent)
{
	const struct cohort none = {}, *const cohort = &none;
	const struct fleet_facts facts = {};
	struct fleet_doubt doubt = { .facts = &facts, .cohort = &cohort, .cohort_nr = 1, .engine = &engine, .now_ns = NOW };
	struct warnings doubts;

	cr_assert_eq(fleet_doubts_find(&doubt, &doubts), 0);
	cr_expect_eq(doubts.nr, 0);
	doubt.refused_nr = 1;
	cr_assert_eq(fleet_doubts_find(&doubt, &doubts), 0);
	cr_assert_eq(doubts.nr, 1);
	cr_expect_str_eq(doubts.line[0], "snapshots in the catalogue have different names for 1 place of one build-id: what each "
					 "has is shown, and none is lent");
}
