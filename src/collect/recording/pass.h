/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDING_PASS_H
#define ALLOCSNAP_COLLECT_RECORDING_PASS_H

/* The data that a pass over the accounting has read, and that it needs from the pass before. */

#include <stddef.h>
#include <stdint.h>

#include "collect/build/build_snapshot.h"
#include "collect/drain/epoch_cut.h"
#include "collect/drain/map_reader.h"
#include "collect/drain/nursery.h"
#include "collect/drain/free_filter.h"

struct pass {
	uint64_t nr; /* drains so far */
	struct cut cut;
	struct drain drain;
	struct snapshot_context snapshot_context;
	struct pairing pairing;
	struct nursery nursery;
	struct {
		uint64_t *id;
		size_t id_nr, id_alloc;
	} stale; /* tracebacks of the last drain whose images are gone */
	uint64_t swept_state; /* of images and processes, when the notes of dropped blocks were last swept */
};

#endif
