// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/calm.h"

#include "base/clock.h"

#define LASTING_NS (5 * SECOND_NS)
#define OF_LOOK_NS SECOND_NS

void calm_end(struct calm *calm, uint64_t now_ns)
{
	*calm = (struct calm){ .looked_ns = now_ns };
}

bool calm_look(struct calm *calm, uint64_t now_ns, bool is_any_spent)
{
	uint64_t since_ns = now_ns - calm->looked_ns;

	if (is_any_spent)
		calm->ns = 0;
	else
		calm->ns += since_ns < OF_LOOK_NS ? since_ns : OF_LOOK_NS;
	calm->looked_ns = now_ns;
	return calm->ns >= LASTING_NS;
}
