// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/log_losses.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

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
	struct report_loss *loss;
	size_t nr;
	int err = snapshot_losses(snapshot, &loss, &nr) ?: log_losses(loss, nr);

	free(loss);
	return err;
}
