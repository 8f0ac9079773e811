// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Attaches a probe as a perf event of its own: every kernel supports this. */
#include <bpf/libbpf.h>
#include <errno.h>

#include "collect/probe/attach_methods.h"
#include "collect/process/proc.h"

/* A perf event belongs to one task; -1: to all. */
static pid_t task_of(const struct probes *probes)
{
	return probes->pid ? proc_live_thread(probes->pid) : -1;
}

int attach_as_event(const struct attachment *at, const struct bpf_program *program,
		    enum probe_end end, const struct probe_places *places, struct probe_link *link)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = end == PROBE_RETURN,
		    .bpf_cookie = places->place->cookie, .ref_ctr_offset = places->place->semaphore);

	link->event = bpf_program__attach_uprobe_opts(program, task_of(at->probes), at->path,
						 places->place->offset, &opts);
	return link->event ? 0 : -errno;
}
