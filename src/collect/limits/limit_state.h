/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_LIMITS_LIMIT_STATE_H
#define ALLOCSNAP_COLLECT_LIMITS_LIMIT_STATE_H

#include "collect/limits/budget_pause.h"
#include "collect/limits/own_links.h"
#include "collect/recording/collector.h"

struct limit_state {
	struct budgets budgets;
	struct own_links own_links;
};

#endif
