/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DRAIN_EPOCH_CUT_H
#define ALLOCSNAP_COLLECT_DRAIN_EPOCH_CUT_H

/*
 * A snapshot of the accounting of all processes at one instant, while the processes continue to run: the loader's
 * half of bpf/account/cut.bpf.h.
 */

#include <stddef.h>
#include <stdint.h>

#include "collect/drain/map_reader.h"
#include "collect/drain/grace.h"

struct allocsnap_bpf;
struct nursery;

/* Scratch memory; zeroed: none yet. */
struct cut {
	struct grace grace;
	struct map_copy handed; /* struct handed_key → struct handed_block */
	struct pending_block *pending;
	size_t pending_nr, pending_alloc;
};

/*
 * Reads the blocks that were live at one instant, just after the call, into drain->blocks. 0, the negative errno
 * of a system call, or -ENOMEM.
 */
int cut_read_blocks(struct cut *cut, const struct allocsnap_bpf *bpf, const struct nursery *nursery,
		    struct drain *drain);

void cut_release(struct cut *cut);

#endif
