/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_ENGINE_RANDOM_H
#define TESTS_ENGINE_RANDOM_H

/* Random tracebacks and questions; each run has the same ones. */

#include "engine_data.h"

#define ORIGIN_NR 40

uint32_t random_below(uint64_t *random, uint32_t end);

/* One block of each, of no size: tracebacks, of which several may be equal in other domains. */
void random_origins(uint64_t *random, struct data_trace origin[ORIGIN_NR]);

/* The names of the domains of random_origins(), for data_snapshot_with(). */
extern const char *const random_metadata[];

/* Everything that can be asked beside the key type. */
struct engine_options random_options(uint64_t *random, enum key_type key_type);

/* Whether all fields are the same. NULL equals NULL. */
bool same_cost(const struct cost *a, const struct cost *b);
bool same_estimate(const struct estimate *a, const struct estimate *b);
bool same_row(const struct statistic *a, const struct statistic *b);

#endif
