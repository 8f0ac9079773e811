// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "render.h"
#include "render/clean.h"
#include "render/facts.h"
#include "snapshot.h"

int snapshot_losses(const struct snapshot *snapshot, struct report_loss **ret, size_t *ret_nr)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	struct report_loss *loss = calloc(tables->counter_nr + 1ull, sizeof(*loss));

	*ret_nr = 0;
	*ret = loss;
	for (uint32_t i = 0; loss && i < tables->counter_nr; i++)
		if (tables->counter[i].kind == SNAP_LOST)
			loss[(*ret_nr)++] = (struct report_loss){ snapshot__string(snapshot, tables->counter[i].name),
								  tables->counter[i].value };
	return loss ? 0 : -ENOMEM;
}

/* "losses: NAME VALUE, …"; a loss of 0 is left out. `show` tells what they mean. */
char *loss_list_line(const struct report_loss *loss, size_t nr)
{
	char *text = NULL, *line = NULL;
	const char *before = "losses: ";
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	for (size_t i = 0; out && i < nr; i++) {
		if (!loss[i].value)
			continue;
		fprintf(out, "%s%s %" PRIu64, before, loss[i].name, loss[i].value);
		before = ", ";
	}
	errno = ENOMEM;
	if (out && !fclose(out)) {
		line = len ? clean_copy(text) : NULL;
		errno = len ? errno : 0;
	}
	free(text);
	return line;
}

char *losses_line(const struct snapshot *snapshot)
{
	struct report_loss *loss;
	size_t nr;
	char *line = snapshot_losses(snapshot, &loss, &nr) ? NULL : loss_list_line(loss, nr);

	free(loss);
	return line;
}
