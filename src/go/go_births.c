// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "go/go_births.h"

#include <stdlib.h>

#include "base/array.h"

/* Joins each two neighbours of the older half: the older time holds for both. */
static void thin_runs(struct go_births *births)
{
	size_t kept = 0, half = births->run_nr / 2;

	for (size_t i = 0; i < births->run_nr; i++) {
		if (i < half && i % 2)
			births->run[kept - 1].upto = births->run[i].upto;
		else
			births->run[kept++] = births->run[i];
	}
	births->run_nr = kept;
}

/* The latest samples have gone. */
static void cut_runs(struct go_births *births, uint64_t live)
{
	while (births->run_nr && (births->run_nr > 1 ? births->run[births->run_nr - 2].upto : 0) >= live)
		births->run_nr--;
	if (births->run_nr && births->run[births->run_nr - 1].upto > live)
		births->run[births->run_nr - 1].upto = live;
}

int go_births_note(struct go_births *births, uint64_t live, uint64_t since_ns)
{
	struct go_birth_run *last;

	cut_runs(births, live);
	last = births->run_nr ? &births->run[births->run_nr - 1] : NULL;
	if (live == (last ? last->upto : 0))
		return 0;
	if (last && last->birth_ns >= since_ns) {
		last->upto = live;
		return 0;
	}
	if (births->run_nr == GO_BIRTH_RUNS)
		thin_runs(births);
	return array_push(births, run, ((struct go_birth_run){ live, since_ns }));
}

void go_births_release(struct go_births *births)
{
	free(births->run);
	*births = (struct go_births){};
}
