// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The interval of a process that samples itself, with simulated clocks and processes. */
#include <criterion/criterion.h>

#include "collect/budget/interval_control.h"

#define MS 1000000ULL
#define SECOND (1000 * MS)
#define K 1024ULL

/* A process, and the recorders that keep its interval. */
struct process {
	uint64_t chosen, interval;
	uint64_t bytes_a_second, sample_ns;
	uint64_t other_ns; /* what else its recording costs in a second */
	double bytes;
	uint64_t samples, cost_ns, now_ns;
	uint64_t writes;
};

static struct process process_of(uint64_t chosen, uint64_t bytes_a_second)
{
	return (struct process){ .chosen = chosen, .interval = chosen, .bytes_a_second = bytes_a_second,
				 .sample_ns = 5000, .now_ns = SECOND };
}

static void run(struct process *process, uint64_t ns)
{
	uint64_t before;

	process->bytes += (double)process->bytes_a_second * ns / SECOND;
	before = process->samples;
	process->samples += process->bytes / process->interval;
	process->bytes -= (double)(process->samples - before) * process->interval;
	process->cost_ns += (process->samples - before) * process->sample_ns + process->other_ns * ns / SECOND;
	process->now_ns += ns;
}

static void look(struct process *process, struct interval_control *control, const struct interval_aim *aim)
{
	uint64_t wanted = interval_decide(control, aim, &(struct interval_look){
		.chosen = process->chosen,
		.interval = process->interval,
		.samples = process->samples,
		.cost_ns = process->cost_ns,
		.now_ns = process->now_ns,
	});

	if (!wanted)
		return;
	process->interval = wanted;
	process->writes++;
	interval_has_written(control, wanted);
}

/* Looks every 10 ms. */
static void keep(struct process *process, struct interval_control *control, const struct interval_aim *aim, uint64_t ns)
{
	for (uint64_t end_ns = process->now_ns + ns; process->now_ns < end_ns;) {
		run(process, 10 * MS);
		look(process, control, aim);
	}
}

static uint64_t samples_in(struct process *process, struct interval_control *control, const struct interval_aim *aim,
			   uint64_t seconds)
{
	uint64_t before = process->samples;

	keep(process, control, aim, seconds * SECOND);
	return (process->samples - before) / seconds;
}

static const struct interval_aim thousand = { .rate = 1000 };

Test(interval, of_a_quiet_process_is_never_written)
{
	struct process process = process_of(512 * K, 100 << 20);
	struct interval_control control = {};

	keep(&process, &control, &thousand, 60 * SECOND);
	cr_assert(!process.writes && process.interval == 512 * K && !control.has_changed && control.most == 512 * K);
	cr_assert(!interval_to_restore(&control) && !interval_is_busy(&control));
}

Test(interval, grows_within_two_tenths_of_a_second)
{
	struct process process = process_of(4 * K, 10ULL << 30);
	struct interval_control control = {};
	uint64_t rate;

	keep(&process, &control, &thousand, SECOND / 5);
	cr_assert(process.interval > 4 * K);
	rate = samples_in(&process, &control, &thousand, 10);
	cr_assert(rate > 400 && rate <= 1000, "%lu samples/s", rate);
	cr_assert(process.writes <= 2, "%lu writes", process.writes);
	cr_assert(!(process.interval % (4 * K)) && !((process.interval / (4 * K)) & (process.interval / (4 * K) - 1)));
	cr_assert(control.has_changed && control.most == process.interval && interval_is_busy(&control));
	cr_assert(interval_to_restore(&control) == 4 * K);
}

Test(interval, returns_to_the_chosen_one_and_not_below)
{
	struct process process = process_of(512 * K, 20ULL << 30);
	struct interval_control control = {};
	uint64_t most;

	keep(&process, &control, &thousand, 2 * SECOND);
	most = process.interval;
	cr_assert(most > 16384 * K);
	process.bytes_a_second = 1 << 20;
	keep(&process, &control, &thousand, 60 * SECOND);
	cr_assert(process.interval == 512 * K && control.most == most);
	cr_assert(!interval_to_restore(&control));
}

/* Rates between a quarter and the whole of what is allowed change nothing. */
Test(interval, does_not_swing)
{
	for (uint64_t rate = 300; rate <= 6000; rate += 100) {
		struct process process = process_of(64 * K, rate * 64 * K);
		struct interval_control control = {};
		uint64_t writes;

		keep(&process, &control, &thousand, 5 * SECOND);
		writes = process.writes;
		keep(&process, &control, &thousand, 60 * SECOND);
		cr_assert(process.writes == writes, "%lu writes at %lu samples/s", process.writes - writes, rate);
	}
}

Test(interval, keeps_to_half_of_a_budget)
{
	const struct interval_aim one_percent = { .rate = 1000000, .share_ns = SECOND / 100 };
	struct process process = process_of(16 * K, 4ULL << 30);
	struct interval_control control = {};
	uint64_t before;

	process.sample_ns = 20000;
	keep(&process, &control, &one_percent, 3 * SECOND);
	before = process.cost_ns;
	keep(&process, &control, &one_percent, 10 * SECOND);
	cr_assert(process.cost_ns - before <= 10 * SECOND / 200, "%lu ns", process.cost_ns - before);
	cr_assert(process.cost_ns - before >= 10 * SECOND / 1000, "%lu ns", process.cost_ns - before);
	cr_assert(!control.is_vain);
}

/* Traps at malloc's probes, for example, which other processes need. */
Test(interval, does_not_help_against_other_costs)
{
	const struct interval_aim one_percent = { .rate = 1000, .share_ns = SECOND / 100 };
	struct process process = process_of(512 * K, 50 << 20);
	struct interval_control control = {};

	process.other_ns = SECOND / 10;
	keep(&process, &control, &one_percent, 5 * SECOND);
	cr_assert(control.is_vain);
	process.other_ns = 0;
	keep(&process, &control, &one_percent, SECOND);
	cr_assert(!control.is_vain);
}

Test(interval, of_two_recorders_is_the_larger_one)
{
	const struct interval_aim hundred = { .rate = 100 };
	struct process process = process_of(16 * K, 1ULL << 30);
	struct interval_control control = {}, other = {};
	uint64_t chosen, writes;

	for (int i = 0; i < 300; i++) {
		keep(&process, &control, &thousand, 10 * MS);
		look(&process, &other, &hundred);
	}
	cr_assert((1ULL << 30) / process.interval <= 100, "%lu", process.interval);
	writes = process.writes;
	for (int i = 0; i < 3000; i++) {
		keep(&process, &control, &thousand, 10 * MS);
		look(&process, &other, &hundred);
	}
	/* Every ten seconds one of them finds out whether the other is still there. */
	cr_assert(process.writes - writes <= 12, "%lu writes in 30 s", process.writes - writes);
	cr_assert((1ULL << 30) / process.interval <= 100, "%lu", process.interval);

	chosen = interval_to_restore(&other); /* it leaves */
	if (chosen)
		process.interval = chosen;
	keep(&process, &control, &thousand, 10 * SECOND);
	cr_assert((1ULL << 30) / process.interval > 250 && (1ULL << 30) / process.interval <= 1000, "%lu", process.interval);
}

Test(interval, of_a_killed_recorder_is_taken_over)
{
	struct process process = process_of(16 * K, 1 << 20);
	struct interval_control control = {};

	process.interval = 16 * K << 6;
	keep(&process, &control, &thousand, 5 * SECOND);
	cr_assert(process.interval == 16 * K << 6);
	keep(&process, &control, &thousand, 60 * SECOND);
	cr_assert(process.interval == 16 * K);
	cr_assert(control.most == 16 * K << 6);
}

/* The sampler itself returns to the chosen interval while the recording pauses. */
Test(interval, is_written_again_after_a_pause)
{
	struct process process = process_of(16 * K, 4ULL << 30);
	struct interval_control control = {};
	uint64_t wanted;

	keep(&process, &control, &thousand, 2 * SECOND);
	wanted = process.interval;
	process.interval = process.chosen;
	interval_end_period(&control);
	process.now_ns += 10 * SECOND;
	look(&process, &control, &thousand);
	cr_assert(process.interval == wanted);
}

/* The process may say anything. */
Test(interval, holds_whatever_the_process_says)
{
	static const uint64_t said[] = { 0, 1, 4096, 1ULL << 30, (1ULL << 30) + 1, UINT64_MAX / 2, UINT64_MAX };
	struct interval_control control = {};
	uint64_t now_ns = 0, random = 88172645463325252ULL;

	for (int i = 0; i < 100000; i++) {
		struct interval_look told;
		uint64_t wanted;

		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		told = (struct interval_look){
			.chosen = i % 100 < 90 ? 4096 : said[random % 7],
			.interval = said[random >> 8 & 7 ? (random >> 11) % 7 : 2],
			.samples = random >> 16 & 1 ? said[random >> 20 & 3] : random >> 40,
			.cost_ns = random >> 30,
			.now_ns = now_ns += random >> 60 ? 10 * MS : 0,
		};
		wanted = interval_decide(&control, &(struct interval_aim){ .rate = 1000, .share_ns = SECOND / 100 * (i % 3) }, &told);
		cr_assert(!wanted || (wanted >= told.chosen && wanted < 2 * INTERVAL_MOST && told.chosen <= INTERVAL_MOST));
		if (wanted)
			interval_has_written(&control, wanted);
	}
}
