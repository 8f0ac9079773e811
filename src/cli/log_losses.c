// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/log_losses.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/log.h"
#include "render/facts.h"
#include "snapshot.h"

int log_losses(const struct report_loss *loss, size_t nr)
{
	struct report_loss *unknown = calloc(nr + 1, sizeof(*unknown));
	size_t unknown_nr = 0;
	char *line;

	if (!unknown)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		const char *meaning = counter_meaning(loss[i].name);

		if (!meaning)
			unknown[unknown_nr++] = loss[i];
		else if (loss[i].value)
			log_info("loss: %s %" PRIu64 ": %s", loss[i].name, loss[i].value, meaning);
	}
	line = loss_list_line(unknown, unknown_nr);
	if (line)
		log_info("%s", line);
	free(line);
	free(unknown);
	return 0;
}

int log_snapshot_losses(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	struct {
		struct report_loss *loss;
		size_t loss_nr, loss_alloc;
	} all = {};
	int err = 0;

	for (uint32_t i = 0; i < tables->counter_nr && !err; i++)
		if (tables->counter[i].kind == SNAP_LOST)
			err = array_push(&all, loss, ((struct report_loss){ snapshot__string(snapshot, tables->counter[i].name),
									    tables->counter[i].value }));
	err = err ?: log_losses(all.loss, all.loss_nr);
	free(all.loss);
	return err;
}
