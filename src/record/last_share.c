// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "record/last_share.h"

#define LEAST_NS 500000000ULL

void last_share_init(struct last_share *share, uint64_t interval_ns)
{
	*share = (struct last_share){ .most_ns = interval_ns / 2 > LEAST_NS ? interval_ns / 2 : LEAST_NS };
}

void last_share_advance(struct last_share *share, uint64_t now_ns)
{
	uint64_t earned_ns = (now_ns - share->now_ns) / 2;

	for (uint32_t user = 0; user < USERS_MAX; user++)
		share->taken_ns[user] -= earned_ns < share->taken_ns[user] ? earned_ns : share->taken_ns[user];
	share->now_ns = now_ns;
}

bool last_share_allows(const struct last_share *share, uint32_t user)
{
	return share->taken_ns[user] < share->most_ns;
}

void last_share_consume(struct last_share *share, uint32_t user, uint64_t ns)
{
	share->taken_ns[user] += ns;
}
