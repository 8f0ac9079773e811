// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>

#include "engine.h"
#include "engine/frame.h"
#include "snapshot.h"

int traceback_read(const struct snapshot *snapshot, uint32_t traceback,
		   struct frame_view **ret_frame, uint32_t *ret_nframe,
		   uint32_t *ret_total_nframe)
{
	static const uint32_t none;
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const struct snap_traceback *row = &tables->traceback[traceback];
	const uint32_t *id = row->nframe ? &tables->traceback_frame[row->first] : &none;
	uint32_t nframe = row->nframe ?: 1;
	struct frame_view *frame = calloc(nframe, sizeof(*frame));

	if (!frame)
		return -ENOMEM;
	for (uint32_t i = 0; i < nframe; i++)
		frame[nframe - 1 - i] = frame_read(snapshot, id[i], KEY_TRACEBACK);
	*ret_frame = frame;
	*ret_nframe = nframe;
	*ret_total_nframe = row->total_nframe;
	return 0;
}
