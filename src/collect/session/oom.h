/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_OOM_H
#define ALLOCSNAP_COLLECT_OOM_H

struct collector;

/*
 * Marks those that are traced (is_near_oom) in whose memory cgroup the OOM killer has chosen somebody
 * since the last time; all of them where it cannot be known which.
 */
void take_oom_kills(struct collector *collector);

#endif
