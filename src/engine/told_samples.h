/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_TOLD_SAMPLES_H
#define ALLOCSNAP_ENGINE_TOLD_SAMPLES_H

/*
 * Samples that a process reports by a sampler of its own (USDT of provider otel_memory), whose weights and frees are
 * recorded as they come. Some samplers are wrong. What they report can be checked against itself: a free belongs to a
 * block that was reported before; an address has one block at a time; and a block that is much larger than the distance of
 * samples stands for itself alone, since its weight is size / (1 - exp(-size / distance)).
 */

#include <stdbool.h>

#include "reason.h"
#include "snapshot.h"

/*
 * Whether what is live according to these samples must be doubted, with a line in *ret. Then estimates have no intervals,
 * and leaks are not judged. Samples of allocsnap's own sampler are never doubted.
 */
bool told_samples_doubt(const struct snapshot *snapshot, struct reason *ret);

#endif
