// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A budget is spent while processes have shared links, links of their own, or both. */
#include <criterion/criterion.h>

#include "base/clock.h"
#include "collect/limits/own_links.h"
#include "collect/probe/skeleton.h"
#include "shared/links_state.h"

/* A system-wide recording without processes, whose links are in a phase. Nothing is loaded into the kernel. */
static struct collector *collector_in(enum links_phase phase)
{
	static struct collector collector;
	static struct limit_state limits;

	limits = (struct limit_state){};
	collector = (struct collector){
		.bpf = skeleton_open(),
		.limits = &limits,
		.options = { .system_wide = true, .follow_forks = true },
	};
	cr_assert_not_null(collector.bpf);
	bpf_program__set_autoload(collector.bpf->progs.session_call, true);
	collector.bpf->bss->links_state = phase;
	return &collector;
}

Test(own_links, come_when_a_budget_is_spent)
{
	struct collector *collector = collector_in(LINKS_SHARED);

	cr_expect(links_become_own(collector));
	cr_expect_eq(collector->bpf->bss->links_state, LINKS_TO_OWN);
	skeleton_close(collector->bpf);
}

Test(own_links, nobody_pauses_while_shared_links_come_back)
{
	struct collector *collector = collector_in(LINKS_TO_SHARED);

	cr_expect(links_become_own(collector), "all would pause");
	cr_expect_eq(collector->bpf->bss->links_state, LINKS_TO_SHARED);
	skeleton_close(collector->bpf);
}

Test(own_links, all_pause_if_no_links_can_be_placed)
{
	static const enum links_phase phases[] = { LINKS_SHARED, LINKS_TO_SHARED };

	for (size_t i = 0; i < sizeof(phases) / sizeof(*phases); i++) {
		struct collector *collector = collector_in(phases[i]);

		collector->helpers.has_lost_helper = true;
		cr_expect_not(links_become_own(collector));
		cr_expect_eq(collector->bpf->bss->links_state, phases[i]);
		skeleton_close(collector->bpf);
	}
}

Test(own_links, all_pause_while_the_shared_links_are_away)
{
	struct collector *collector = collector_in(LINKS_SHARED);

	collector->shared.probes.is_paused = true;
	cr_expect_not(links_become_own(collector));
	skeleton_close(collector->bpf);
}

/* ---- calm ---- */

#define BEGIN_NS (100 * SECOND_NS)

/* Looks every so often; returns how many looks find no spent budget until it is calm. */
static unsigned int looks_until_calm(struct calm *calm, uint64_t *now_ns, uint64_t every_ns)
{
	unsigned int nr = 1;

	while (*now_ns += every_ns, !calm_look(calm, *now_ns, false))
		cr_assert_lt(nr++, 10000u);
	return nr;
}

Test(calm, lasts_after_five_seconds_of_looks)
{
	uint64_t now_ns = BEGIN_NS;
	struct calm calm;

	calm_end(&calm, now_ns);
	cr_expect_eq(looks_until_calm(&calm, &now_ns, SECOND_NS / 100), 500u);
	cr_expect(calm_look(&calm, now_ns + 1, false), "and it goes on");
}

Test(calm, begins_anew_when_a_look_finds_a_spent_budget)
{
	uint64_t now_ns = BEGIN_NS;
	struct calm calm;

	calm_end(&calm, now_ns);
	for (int i = 0; i < 49; i++)
		cr_expect_not(calm_look(&calm, now_ns += SECOND_NS / 10, false));
	cr_expect_not(calm_look(&calm, now_ns += SECOND_NS / 10, true));
	cr_expect_eq(looks_until_calm(&calm, &now_ns, SECOND_NS / 10), 50u);
}

/* Another process had all processors for a minute: what was spent meanwhile is not known. */
Test(calm, is_not_the_time_in_which_the_recorder_did_not_run)
{
	uint64_t now_ns = BEGIN_NS;
	struct calm calm;

	calm_end(&calm, now_ns);
	cr_expect_eq(looks_until_calm(&calm, &now_ns, 60 * SECOND_NS), 5u);
}
