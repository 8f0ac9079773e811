// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/drain/grace.h"

#include <bpf/bpf.h>
#include <stdint.h>
#include <unistd.h>

int grace_make(struct grace *grace)
{
	LIBBPF_OPTS(bpf_map_create_opts, options);
	int inner, outer;

	if (grace->outer_fd)
		return 0;
	inner = bpf_map_create(BPF_MAP_TYPE_ARRAY, "allocsnap_in", 4, 8, 1, NULL);
	if (inner < 0)
		return inner;
	options.inner_map_fd = inner;
	outer = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "allocsnap_out", 4, 4, 1, &options);
	if (outer < 0) {
		close(inner);
		return outer;
	}
	*grace = (struct grace){ inner, outer };
	return 0;
}

/*
 * After each change of a map of maps the kernel waits until the running programs have ended
 * (kernel/bpf/syscall.c, maybe_wait_bpf_programs(); commit 1ae80cf31938).
 */
int grace_wait(struct grace *grace)
{
	uint32_t first = 0;
	int err = grace_make(grace);

	return err ?: bpf_map_update_elem(grace->outer_fd, &first, &grace->inner_fd, BPF_ANY);
}

void grace_release(struct grace *grace)
{
	if (grace->outer_fd) {
		close(grace->outer_fd);
		close(grace->inner_fd);
	}
	*grace = (struct grace){};
}
