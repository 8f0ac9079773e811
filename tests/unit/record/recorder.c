// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The loop of attach, run and record, over a collector that the test plays. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* collect.h declares the played functions, too. */
#define collector__admit played_admit
#define collector__clear_all_traces played_clear_all_traces
#define collector__drain played_drain
#define collector__end_pass played_end_pass
#define collector__event_fd played_event_fd
#define collector__forget_view played_forget_view
#define collector__is_blind played_is_blind
#define collector__is_drain_due played_is_drain_due
#define collector__is_tracing played_is_tracing
#define collector__next_note played_next_note
#define collector__note_unsaved played_note_unsaved
#define collector__process_nr played_process_nr
#define collector__refresh played_refresh
#define collector__ring_at played_ring_at
#define collector__save_view played_save_view
#define collector__view played_view

#include "record/recorder.c"

#define MS 1000000ULL

static struct played {
	struct process_view process[4];
	size_t process_nr;
	int event_fd;
	void (*at_refresh)(void), (*at_save)(void);
	int drain_err, save_err;
	uint64_t drain_nr, clear_nr, refresh_nr;
	bool has_lost_helper;
	char saved[512]; /* "PID:trigger PID:trigger …" in order */
	size_t lost_nr;
} played;

int played_admit(struct collector *collector, struct reason *why)
{
	(void)collector, (void)why;
	return 0;
}

int played_clear_all_traces(struct collector *collector)
{
	(void)collector;
	played.clear_nr++;
	return 0;
}

int played_drain(struct collector *collector, struct reason *why)
{
	(void)collector;
	played.drain_nr++;
	for (size_t i = 0; i < played.process_nr && !played.drain_err; i++) {
		played.process[i].is_unsaved = true;
		played.process[i].is_final = played.process[i].has_ended;
	}
	return played.drain_err ? reason_set(why, played.drain_err, "no drain") : 0;
}

void played_forget_view(struct collector *collector, size_t i)
{
	(void)collector;
	played.process[i] = played.process[--played.process_nr];
}

void played_end_pass(struct collector *collector)
{
	for (size_t i = played.process_nr; i-- > 0;)
		if (played.process[i].is_final)
			played_forget_view(collector, i);
}

int played_event_fd(const struct collector *collector)
{
	(void)collector;
	return played.event_fd;
}

bool played_is_blind(const struct collector *collector)
{
	(void)collector;
	return played.has_lost_helper;
}

bool played_is_drain_due(const struct collector *collector)
{
	bool is_any = false;

	(void)collector;
	for (size_t i = 0; i < played.process_nr; i++)
		is_any |= played.process[i].has_ended;
	return is_any;
}

bool played_is_tracing(const struct collector *collector, pid_t pid)
{
	(void)collector, (void)pid;
	return false;
}

char *played_next_note(struct collector *collector)
{
	(void)collector;
	return NULL;
}

void played_note_unsaved(struct collector *collector, pid_t pid)
{
	(void)collector, (void)pid;
}

size_t played_process_nr(const struct collector *collector)
{
	(void)collector;
	return played.process_nr;
}

void played_refresh(struct collector *collector)
{
	(void)collector;
	played.refresh_nr++;
	if (played.at_refresh)
		played.at_refresh();
}

bool played_ring_at(struct collector *collector, size_t i, uint64_t bytes)
{
	(void)collector, (void)i, (void)bytes;
	return false;
}

int played_save_view(struct collector *collector, size_t i, const struct save_options *options, char **ret_path,
		     struct reason *why)
{
	struct process_view *process = &played.process[i];
	size_t len = strlen(played.saved);

	(void)collector;
	process->is_unsaved = false;
	process->last_bytes = process->memory.current_bytes;
	if (played.at_save)
		played.at_save();
	if (played.save_err)
		return reason_set(why, played.save_err, "no room");
	snprintf(played.saved + len, sizeof(played.saved) - len, "%s%d:%s", len ? " " : "", process->pid,
		 options->trigger);
	*ret_path = strdup("a path");
	return 0;
}

void played_view(const struct collector *collector, size_t i, struct process_view *ret)
{
	(void)collector;
	*ret = played.process[i];
}

/* ---- a recording ---- */

static void ignore_saved(void *what, const struct snapshot_owner *owner, const char *path)
{
	(void)what, (void)owner, (void)path;
}

static void count_lost_snapshot(void *what, const struct snapshot_owner *owner, int err, const struct reason *why)
{
	(void)what, (void)owner, (void)err, (void)why;
	played.lost_nr++;
}

static void ignore_pass(void *what, const struct pass *pass)
{
	(void)what, (void)pass;
}

static struct recorder_policy policy = {
	.format_status = format_named_status,
	.end_pass = ignore_pass,
	.saved = ignore_saved,
	.lost = count_lost_snapshot,
};

/* The descriptor of events is readable all the time, so that the loop looks often. */
static void begin(size_t process_nr)
{
	played = (struct played){ .process_nr = process_nr, .event_fd = eventfd(1, EFD_CLOEXEC) };
	for (size_t i = 0; i < process_nr; i++)
		played.process[i] = (struct process_view){ .pid = i + 1, .comm = "played" };
}

/* Without an interval no interval ends within the time of a test. */
static struct recorder record_with(struct recording_options options)
{
	struct recorder recorder = {
		.policy = &policy,
		.options = &options,
		.signal_fd = signals_open(),
		.started_ns = monotonic_now_ns(),
		.notify.fd = -1,
	};

	options.interval_ns = options.interval_ns ?: 3600 * SECOND_NS;
	recorder_run(&recorder);
	close(recorder.signal_fd);
	close(played.event_fd);
	return recorder;
}

static void end_first(void)
{
	played.process[0].has_ended = true;
}

static void signal_term(void)
{
	kill(getpid(), SIGTERM);
}

static void signal_term_once(void)
{
	static bool is_sent;

	if (!is_sent)
		signal_term();
	is_sent = true;
}

Test(recorder, ends_after_a_count_without_further_snapshots)
{
	begin(2);
	cr_expect_eq(record_with((struct recording_options){ .interval_ns = 10 * MS, .count = 2 }).status, 0);
	cr_expect_str_eq(played.saved, "1:interval 2:interval 1:interval 2:interval");
}

Test(recorder, ends_after_a_duration_with_last_snapshots)
{
	begin(1);
	record_with((struct recording_options){ .duration_ns = 30 * MS });
	cr_expect_str_eq(played.saved, "1:duration");
}

Test(recorder, ends_with_the_last_process)
{
	begin(2);
	played.at_refresh = end_first;
	cr_expect_eq(record_with((struct recording_options){}).status, 0);
	cr_expect_str_eq(played.saved, "1:end 2:end");
	cr_expect_eq(played.process_nr, 0);
}

Test(recorder, says_oom_of_a_victim_only_if_asked_to)
{
	for (int asked = 0; asked < 2; asked++) {
		begin(1);
		played.process[0].is_oom_victim = true;
		played.at_refresh = end_first;
		record_with((struct recording_options){ .triggers.on_oom = asked });
		cr_expect_str_eq(played.saved, asked ? "1:oom" : "1:end");
	}
}

Test(recorder, takes_last_snapshots_at_a_signal)
{
	begin(2);
	played.at_refresh = signal_term_once;
	record_with((struct recording_options){});
	cr_expect_str_eq(played.saved, "1:last 2:last");
}

Test(recorder, sigusr1_takes_snapshots_that_count)
{
	int signal_fd = signals_open();

	begin(1);
	kill(getpid(), SIGUSR1);
	record_with((struct recording_options){ .count = 1 });
	cr_expect_str_eq(played.saved, "1:signal");
	close(signal_fd);
}

Test(recorder, sigusr2_clears_only_if_the_policy_says_so)
{
	int signal_fd = signals_open();

	for (int clears = 0; clears < 2; clears++) {
		begin(1);
		policy.clears_traces = clears;
		kill(getpid(), SIGUSR2);
		record_with((struct recording_options){ .duration_ns = 30 * MS });
		cr_expect_eq(played.clear_nr, (uint64_t)clears);
	}
	close(signal_fd);
}

Test(recorder, takes_snapshots_of_processes_that_are_due)
{
	begin(2);
	played.process[1].memory.current_bytes = 1 << 20;
	record_with((struct recording_options){ .triggers.growth_bytes = 1 << 19, .duration_ns = 50 * MS });
	cr_expect_str_eq(played.saved, "2:growth 1:duration 2:duration");
}

Test(recorder, gives_up_ended_processes_that_cannot_be_read)
{
	begin(1);
	played.at_refresh = end_first;
	played.drain_err = -ENOMEM;
	cr_expect_eq(record_with((struct recording_options){}).status, EXIT_FAILED);
	cr_expect_str_eq(played.saved, "");
}

static void end_after_three_passes(void)
{
	if (played.drain_nr > 2)
		end_first();
}

Test(recorder, goes_on_after_a_pass_that_could_not_be_read)
{
	struct recorder recorder;

	begin(1);
	played.at_refresh = end_after_three_passes;
	played.drain_err = -EIO;
	recorder = record_with((struct recording_options){ .interval_ns = 10 * MS, .count = 1, .duration_ns = 20000 * MS });
	cr_expect(recorder.trouble == TROUBLE_DRAIN && played.drain_nr > 2, "%lu passes", played.drain_nr);
}

Test(recorder, remembers_snapshots_that_were_lost)
{
	struct recorder recorder;

	begin(1);
	played.save_err = -ENOSPC;
	recorder = record_with((struct recording_options){ .interval_ns = 10 * MS, .count = 2 });
	cr_expect_eq(played.lost_nr, 2);
	cr_expect(recorder.trouble == TROUBLE_SAVE && recorder.past_trouble == TROUBLE_SAVE && !recorder.status);
}

Test(recorder, ends_when_it_is_blind)
{
	begin(1);
	played.has_lost_helper = true;
	cr_expect_eq(record_with((struct recording_options){}).status, EXIT_FAILED);
	cr_expect_str_eq(played.saved, "1:last");
}

/* The signal comes while the first snapshot is written. */
Test(recorder, only_a_hasty_one_ends_a_pass_at_a_signal)
{
	static const char *const saved[] = {
		"1:interval 2:interval 1:last 2:last", "1:interval 1:last 2:last",
	};
	int signal_fd = signals_open();

	for (int hasty = 0; hasty < 2; hasty++) {
		if (fork())
			continue;
		begin(2);
		policy.is_hasty = hasty;
		played.at_save = signal_term_once;
		record_with((struct recording_options){ .interval_ns = 10 * MS });
		_exit(strcmp(played.saved, saved[hasty]) != 0);
	}
	for (int hasty = 0; hasty < 2; hasty++) {
		int status;

		cr_assert(wait(&status) > 0);
		cr_expect_eq(status, 0);
	}
	close(signal_fd);
}

Test(recorder, a_second_signal_ends_the_last_pass)
{
	int signal_fd = signals_open();

	begin(3);
	policy.is_hasty = true;
	played.at_save = signal_term;
	cr_expect_eq(record_with((struct recording_options){ .duration_ns = 10 * MS }).status, EXIT_FAILED);
	cr_expect_str_eq(played.saved, "1:duration");
	close(signal_fd);
}

Test(recorder, sleeps_until_ended_processes_are_due)
{
	begin(2);
	played.at_refresh = end_first;
	played.drain_err = -EIO; /* the first pass comes at once, and gives the process up */
	record_with((struct recording_options){});
	cr_expect_lt(played.refresh_nr, 10u);
}

/* ---- write errors ---- */

Test(recorder, reports_write_errors_when_they_begin_and_change_and_are_over)
{
	const struct reason full = { "full" }, read_only = { "read-only" };
	const struct recording_options options = {};
	struct recorder recorder = { .options = &options };

	cr_redirect_stderr();
	recorder_log_lost(&recorder, -ENOSPC, &full);
	recorder_log_lost(&recorder, -ENOSPC, &full);
	recorder_log_written_again(&recorder, &(struct pass){ .lost_nr = 2 });
	recorder_log_lost(&recorder, -EROFS, &read_only);
	recorder_log_written_again(&recorder, &(struct pass){ .saved_nr = 1, .lost_nr = 1 });
	recorder_log_written_again(&recorder, &(struct pass){});
	for (int i = 0; i < 2; i++)
		recorder_log_written_again(&recorder, &(struct pass){ .saved_nr = 1 });
	recorder.is_last = true;
	recorder_log_lost(&recorder, -EROFS, &read_only);
	cr_assert_stderr_eq_str("allocsnap: full; the recording goes on\n"
				"allocsnap: read-only; the recording goes on\n"
				"allocsnap: snapshots are written again: 3 could not be\n"
				"allocsnap: read-only\n");
}

/* ---- triggers ---- */

/* When it is time for a snapshot. */

#define K 1024ull
#define M (1024 * K)

static struct process_view view_of(uint64_t now, uint64_t last, uint64_t most)
{
	return (struct process_view){
		.memory = { .current_bytes = now }, .last_bytes = last, .most_bytes = most,
	};
}

static const struct {
	struct trigger_options options;
	uint64_t last, most; /* that snapshots have */
	uint64_t at;	     /* bytes that must be live; 0: no trigger at any size */
	enum trigger trigger;
} cases[] = {
	{ {}, M, M, 0, TRIGGER_NONE },
	{ { .on_oom = true }, M, M, 0, TRIGGER_NONE },
	{ { .growth_bytes = 100 }, 1000, 5000, 1100, TRIGGER_GROWTH },
	{ { .growth_bytes = 100 }, 0, 0, 100, TRIGGER_GROWTH },
	{ { .growth_bytes = 100 }, UINT64_MAX - 99, UINT64_MAX - 99, 0, TRIGGER_NONE },
	{ { .growth_percent = 20 }, 10 * M, 10 * M, 12 * M, TRIGGER_GROWTH },
	{ { .growth_percent = 20 }, 10 * M, 50 * M, 12 * M, TRIGGER_GROWTH },
	{ { .growth_percent = 300 }, 10 * M, 50 * M, 40 * M, TRIGGER_GROWTH },
	{ { .growth_percent = 20 }, 0, 0, 64 * K, TRIGGER_GROWTH },
	{ { .growth_percent = 20 }, 100 * K, 100 * K, 164 * K, TRIGGER_GROWTH },
	{ { .growth_percent = 33 }, M + 1, M + 1, M + 1 + 346031, TRIGGER_GROWTH },
	{ { .growth_percent = 20 }, UINT64_MAX / 2 * 2, UINT64_MAX, 0, TRIGGER_NONE },
	{ { .peak_percent = 5 }, 10 * M, 100 * M, 105 * M, TRIGGER_PEAK },
	{ { .peak_percent = 5 }, 0, 0, 64 * K, TRIGGER_PEAK },
	{ { .peak_percent = 5, .growth_percent = 20 }, 10 * M, 100 * M, 12 * M, TRIGGER_GROWTH },
	{ { .peak_percent = 5, .growth_percent = 20 }, 100 * M, 100 * M, 105 * M, TRIGGER_PEAK },
	{ { .peak_percent = 20, .growth_percent = 20 }, 100 * M, 100 * M, 120 * M, TRIGGER_PEAK },
};

Test(trigger, fires_at_the_threshold)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t at = cases[i].at ?: UINT64_MAX / 2;
		struct process_view below = view_of(at - 1, cases[i].last, cases[i].most);
		struct process_view there = view_of(at, cases[i].last, cases[i].most);

		cr_expect_eq(triggers__threshold(&cases[i].options, &below), cases[i].at, "case %zu: %zu", i,
			     (size_t)triggers__threshold(&cases[i].options, &below));
		cr_expect_eq(triggers__decide(&cases[i].options, &below), TRIGGER_NONE, "case %zu", i);
		cr_expect_eq(triggers__decide(&cases[i].options, &there), cases[i].trigger, "case %zu", i);
	}
}

/* The largest snapshot is near the peak, whatever the peak is and however late each snapshot comes. */
Test(trigger, leaves_a_snapshot_near_each_peak)
{
	const struct trigger_options options = { .peak_percent = 5 };

	for (int round = 0; round < 200; round++) {
		uint64_t peak = 2 * M + random() % (1000 * M), shown = 0;

		for (uint64_t now = 0; now < peak; now += 1 + random() % (64 * K)) {
			struct process_view view = view_of(now, shown, shown);

			if (triggers__decide(&options, &view))
				shown = now;
		}
		cr_expect(shown * 1.05 + 64 * K >= peak, "%zu of %zu", (size_t)shown, (size_t)peak);
	}
}

Test(trigger, never_fires_for_an_exited_or_vforked_process)
{
	const struct trigger_options options = { .growth_bytes = 1, .on_oom = true };
	struct process_view view = view_of(M, 0, 0);

	view.is_near_oom = view.has_ended = true;
	cr_expect_eq(triggers__decide(&options, &view), TRIGGER_NONE);
	view.has_ended = false;
	view.is_vforked = true;
	cr_expect_eq(triggers__decide(&options, &view), TRIGGER_NONE);
}

Test(trigger, oom_comes_first_if_it_is_requested)
{
	struct trigger_options options = { .growth_bytes = 1, .on_oom = true };
	struct process_view view = view_of(M, 0, 0);

	view.is_near_oom = true;
	cr_expect_eq(triggers__decide(&options, &view), TRIGGER_OOM);
	options.on_oom = false;
	cr_expect_eq(triggers__decide(&options, &view), TRIGGER_GROWTH);
}

Test(trigger, is_enabled_by_any_option)
{
	cr_expect(!triggers__are_set(&(struct trigger_options){}));
	cr_expect(triggers__are_set(&(struct trigger_options){ .growth_bytes = 1 }));
	cr_expect(triggers__are_set(&(struct trigger_options){ .growth_percent = 1 }));
	cr_expect(triggers__are_set(&(struct trigger_options){ .peak_percent = 1 }));
	cr_expect(triggers__are_set(&(struct trigger_options){ .on_oom = true }));
}

Test(trigger, has_a_name)
{
	cr_expect_str_eq(trigger_name(TRIGGER_INTERVAL), "interval");
	cr_expect_str_eq(trigger_name(TRIGGER_LAST), "last");
}

Test(trigger, parses_growth)
{
	static const struct {
		const char *text;
		uint64_t percent, bytes;
	} good[] = {
		{ "20%", 20, 0 }, { "1%", 1, 0 }, { "100000%", 100000, 0 }, { "100M", 0, 100 * M },
		{ "1", 0, 1 }, { "64KiB", 0, 64 * K },
	};
	static const char *const bad[] = { "", "%", "0%", "0", "-1", "20 %", "20%%", "x%", "100001%",
					   "1.5M", "99999999999999999999%", "M" };
	struct trigger_options options = {};
	struct reason why;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		cr_expect_eq(parse_growth_trigger(good[i].text, &options, &why), 0, "%s", good[i].text);
		cr_expect_eq(options.growth_percent, good[i].percent, "%s", good[i].text);
		cr_expect_eq(options.growth_bytes, good[i].bytes, "%s", good[i].text);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_neq(parse_growth_trigger(bad[i], &options, &why), 0, "%s", bad[i]);
	cr_expect_eq(options.growth_bytes, 64 * K, "what is bad changes nothing");
}

Test(trigger, parses_peak)
{
	static const char *const bad[] = { "", "5", "%", "0%", "5M" };
	uint64_t percent = 7;
	struct reason why;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_neq(parse_peak_trigger(bad[i], &percent, &why), 0, "%s", bad[i]);
	cr_expect_eq(percent, 7);
	cr_expect_eq(parse_peak_trigger("5%", &percent, &why), 0);
	cr_expect_eq(percent, 5);
}

/* ---- what one user may take ---- */

/* The time that last snapshots of one user's processes may take. */

#define SECOND 1000000000ULL

static struct last_share share;

Test(service_last_share, allows_half_an_interval_at_once_for_each_user)
{
	last_share_init(&share, 10 * SECOND);
	last_share_advance(&share, 1000 * SECOND);
	last_share_consume(&share, 7, 5 * SECOND - 1);
	cr_expect(last_share_allows(&share, 7));
	last_share_consume(&share, 7, 1);
	cr_expect_not(last_share_allows(&share, 7));
	cr_expect(last_share_allows(&share, 8));
}

Test(service_last_share, allows_half_of_the_time_in_the_long_run)
{
	uint64_t taken = 0, now = 1000 * SECOND;

	last_share_init(&share, 10 * SECOND);
	last_share_advance(&share, now);
	for (int pass = 0; pass < 1000; pass++) {
		now += SECOND / 3;
		last_share_advance(&share, now);
		for (; last_share_allows(&share, 7); taken += SECOND / 100)
			last_share_consume(&share, 7, SECOND / 100);
	}
	cr_expect_geq(taken, (now - 1000 * SECOND) / 2);
	cr_expect_leq(taken, (now - 1000 * SECOND) / 2 + 6 * SECOND);
}

Test(service_last_share, allows_no_more_to_a_user_that_used_nothing_for_long)
{
	last_share_init(&share, 10 * SECOND);
	last_share_advance(&share, 5000 * SECOND);
	last_share_consume(&share, 7, 5 * SECOND);
	cr_expect_not(last_share_allows(&share, 7));
}

Test(service_last_share, allows_some_snapshots_in_a_short_interval)
{
	last_share_init(&share, SECOND / 100);
	last_share_advance(&share, 5000 * SECOND);
	last_share_consume(&share, 7, SECOND / 3);
	cr_expect(last_share_allows(&share, 7));
}
