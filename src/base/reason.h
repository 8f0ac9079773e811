/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_REASON_H
#define ALLOCSNAP_BASE_REASON_H

#include <reason.h> /* of include/ */

/*
 * Library code never prints: it leaves a line in a struct reason. This function formats the line,
 * makes bytes visible that are not text, and returns err, so that callers can write `return
 * reason_set(why, -EINVAL, …)`. why may be NULL.
 */
__attribute__((format(printf, 3, 4)))
int reason_set(struct reason *why, int err, const char *fmt, ...);

#endif
