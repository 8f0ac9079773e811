// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A budget is spent while processes have shared links, links of their own, or both. */
#include "collect/limits/own_links.h"

#include <criterion/criterion.h>

#include "collect/probe/skeleton.h"
#include "collect/limits/limit_state.h"
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
		.options = { .everyone = true, .follow_forks = true },
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
