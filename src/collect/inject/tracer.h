/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_INJECT_TRACER_H
#define ALLOCSNAP_COLLECT_INJECT_TRACER_H

/*
 * Work that stops the threads of another process runs in a child of this one. The child has a session of its own, and the
 * kernel ends it TRACER_LIMIT_NS after it began, or when this process ends. So Ctrl-Z, SIGSTOP, a frozen control group, a
 * debugger or a quota of CPU time, for this process or for the child, hold no thread of the other process for longer: when
 * a tracer ends, its tracees go on. (A control group of version 1 is an exception: what is frozen there cannot be ended.)
 */

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"

struct reason;

#define TRACER_LIMIT_NS SECOND_NS
/* The work gives up what takes longer, so that it can still say why. */
#define TRACER_PATIENCE_NS (TRACER_LIMIT_NS - SECOND_NS / 10)

/*
 * Returns what the work returned; -ETIMEDOUT: it was ended before. What the work writes to *outcome arrives here, up to the
 * moment at which it ended; all else that it changes does not.
 */
int run_as_tracer(int (*work)(void *argument, void *outcome), void *argument, void *outcome, size_t outcome_bytes);

/* After -ETIMEDOUT: says why, and returns lived_ns, the time since the call. */
uint64_t tracer_has_ended(uint64_t lived_ns, struct reason *why);

#endif
