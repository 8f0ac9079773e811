/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_OOM_H
#define ALLOCSNAP_COLLECT_SESSION_OOM_H

struct allocsnap_bpf;
struct event_sources;
struct targets;

/*
 * Marks the traced processes (is_near_oom) in whose memory cgroup the OOM killer has chosen a process since the
 * last call. Marks all traced processes if the cgroup cannot be known.
 */
void handle_oom_kills(struct allocsnap_bpf *bpf, struct event_sources *events, struct targets *targets);

#endif
