// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/interval_control.h"

#define SECOND_NS 1000000000ULL
#define PERIOD_NS (SECOND_NS / 10)
#define QUIET_NS SECOND_NS
#define FOREIGN_NS (10 * SECOND_NS)
#define SAMPLES_MOST (1ULL << 32) /* of a period: the process may report any number */

/* The cost of a sample with its free: until it was measured, and the bounds within which a measurement is believed. */
#define SAMPLE_NS 10000
#define SAMPLE_NS_LEAST 1000
#define SAMPLE_NS_MOST 50000
#define SAMPLES_TO_MEASURE 256 /* threads report their traps in batches (bpf/account/cost.bpf.h) */

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void begin_period(struct interval_control *control, const struct interval_look *look)
{
	control->began_ns = look->now_ns;
	control->samples = look->samples;
	control->cost_ns = look->cost_ns;
}

/* Half of a budget: the credit of budget.h then stays full. At least one sample a second. */
static uint64_t allowed_rate(const struct interval_control *control, const struct interval_aim *aim)
{
	uint64_t affordable = aim->share_ns ? aim->share_ns / 2 / (control->sample_ns ?: SAMPLE_NS) : UINT64_MAX;

	return least(aim->rate, affordable) ?: 1;
}

static void measure_sample(struct interval_control *control, uint64_t samples, uint64_t cost_ns)
{
	uint64_t ns = samples ? cost_ns / samples : 0;

	if (samples >= SAMPLES_TO_MEASURE)
		control->sample_ns = ns < SAMPLE_NS_LEAST ? SAMPLE_NS_LEAST : least(ns, SAMPLE_NS_MOST);
}

/* The smallest power of two times the chosen interval that takes no more than `allowed` of so many bytes a second. */
static void raise_wish(struct interval_control *control, uint64_t bytes_a_second, uint64_t allowed)
{
	while (control->wanted < INTERVAL_MOST && bytes_a_second / control->wanted > allowed)
		control->wanted *= 2;
	control->quiet_ns = 0;
}

static void lower_wish(struct interval_control *control, uint64_t now_ns)
{
	control->quiet_ns = control->quiet_ns ?: now_ns;
	if (now_ns - control->quiet_ns < QUIET_NS || control->wanted == control->chosen)
		return;
	control->wanted /= 2;
	control->quiet_ns = now_ns;
}

/* The interval in force is not the wanted one while another recorder has a larger wish. */
static void end_period(struct interval_control *control, const struct interval_aim *aim,
		       const struct interval_look *look)
{
	uint64_t passed_ns = look->now_ns - control->began_ns, cost_ns = look->cost_ns - control->cost_ns;
	uint64_t samples = least(look->samples - control->samples, SAMPLES_MOST);
	uint64_t in_force = least(control->found, INTERVAL_MOST), rate, allowed;
	unsigned __int128 bytes;

	measure_sample(control, samples, cost_ns);
	allowed = allowed_rate(control, aim);
	rate = (unsigned __int128)samples * SECOND_NS / passed_ns;
	bytes = (unsigned __int128)rate * in_force;
	if (bytes > UINT64_MAX)
		bytes = UINT64_MAX;
	control->is_vain = aim->share_ns && cost_ns > (unsigned __int128)passed_ns * aim->share_ns / SECOND_NS &&
			   (rate <= allowed || in_force >= INTERVAL_MOST);
	if ((uint64_t)bytes / control->wanted > allowed)
		raise_wish(control, bytes, allowed);
	else if ((uint64_t)bytes / control->wanted < allowed / 4 + 1)
		lower_wish(control, look->now_ns);
	else
		control->quiet_ns = 0;
	begin_period(control, look);
}

/* Many samples end a period early. */
static bool is_period_over(const struct interval_control *control, const struct interval_aim *aim,
			   const struct interval_look *look)
{
	uint64_t passed_ns = look->now_ns - control->began_ns;

	return passed_ns >= PERIOD_NS ||
	       (passed_ns >= PERIOD_NS / 100 &&
		look->samples - control->samples > allowed_rate(control, aim) * PERIOD_NS / SECOND_NS);
}

static void look_at_others(struct interval_control *control, uint64_t now_ns)
{
	bool is_foreign = control->found > control->wanted && control->found != control->written;

	control->foreign_ns = is_foreign ? control->foreign_ns ?: now_ns : 0;
	if (!is_foreign || now_ns - control->foreign_ns < FOREIGN_NS)
		return;
	control->written = control->found; /* the other recorder has gone, or writes it again */
	control->foreign_ns = 0;
}

static void find_interval(struct interval_control *control, uint64_t interval)
{
	control->has_changed |= control->found && control->found != interval;
	control->found = interval;
	if (control->most < interval)
		control->most = interval;
}

uint64_t interval_decide(struct interval_control *control, const struct interval_aim *aim,
			 const struct interval_look *look)
{
	if (!look->chosen || look->chosen > INTERVAL_MOST)
		return 0;
	if (control->chosen != look->chosen) /* it has just read what the user chose */
		*control = (struct interval_control){ .chosen = look->chosen, .wanted = look->chosen };
	find_interval(control, look->interval);
	if (!control->began_ns || look->samples < control->samples || look->now_ns <= control->began_ns)
		begin_period(control, look);
	else if (is_period_over(control, aim, look))
		end_period(control, aim, look);
	look_at_others(control, look->now_ns);
	if (control->found < control->wanted || (control->found > control->wanted && control->found == control->written))
		return control->wanted;
	return 0;
}

void interval_has_written(struct interval_control *control, uint64_t interval)
{
	find_interval(control, interval);
	control->written = interval;
}

void interval_end_period(struct interval_control *control)
{
	control->began_ns = 0;
}

uint64_t interval_to_restore(const struct interval_control *control)
{
	return control->written && control->found == control->written && control->written != control->chosen ?
		       control->chosen : 0;
}

bool interval_is_busy(const struct interval_control *control)
{
	return control->chosen && (control->wanted != control->chosen || !control->quiet_ns);
}
