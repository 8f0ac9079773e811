// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Attaches many probes of a file as one link: sessions, entries, returns (uprobe_multi.h). */
#include <bpf/libbpf.h>

#include "collect/probe/attach_methods.h"
#include "collect/probe/link_holder.h"
#include "collect/process/objects.h"
#include "collect/probe/uprobe_multi.h"

int attach_as_link(const struct attachment *at, const struct bpf_program *program,
		   enum probe_end end, const struct probe_places *places, struct probe_link *link)
{
	uint64_t offset[places->place_nr], cookie[places->place_nr], semaphore[places->place_nr];
	const struct uprobe_multi uprobes = {
		.pid = at->probes->pid,
		.attach_type = bpf_program__expected_attach_type(program),
		.of_returns = end == PROBE_RETURN,
		.nr = places->place_nr,
		.offset = offset,
		.cookie = cookie,
		.semaphore = semaphore,
	};
	int kept;

	for (size_t i = 0; i < places->place_nr; i++) {
		offset[i] = places->place[i].offset;
		cookie[i] = places->place[i].cookie;
		semaphore[i] = places->place[i].semaphore;
	}
	kept = link_holder__attach(at->probes->link_holder, bpf_program__fd(program), at->object->fd,
			      &at->object->identity, &uprobes);
	if (kept < 0)
		return kept;
	link->kept = kept;
	return 0;
}
