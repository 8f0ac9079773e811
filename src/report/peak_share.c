// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/peak_share.h"

#include <errno.h>
#include <stdlib.h>

/* A traceback's numbers at one snapshot: live bytes and blocks, then the four of its churn. */
#define QUANTITIES 6

struct standing {
	uint64_t of[QUANTITIES];
};

struct standings {
	struct standing *traceback;
	struct report_cell *row; /* the last cell of each row */
	double *peak;
};

static int standings_init(struct standings *now, const struct report_data *data)
{
	now->traceback = calloc(data->traceback_nr ?: 1, sizeof(*now->traceback));
	now->row = calloc(data->row_nr ?: 1, sizeof(*now->row));
	now->peak = calloc(data->traceback_nr ?: 1, sizeof(*now->peak));
	return now->traceback && now->row && now->peak ? 0 : -ENOMEM;
}

/* Differences wrap, and so do their sums. */
static void standings_pass(struct standings *now, const struct report_data *data, const struct report_column *column)
{
	for (size_t i = 0; i < column->cell_nr; i++) {
		const struct report_cell *cell = &column->cell[i];
		struct standing *standing = &now->traceback[data->row[cell->row].traceback];

		standing->of[0] += cell->size - now->row[cell->row].size;
		standing->of[1] += cell->count - now->row[cell->row].count;
		now->row[cell->row] = *cell;
	}
	for (size_t i = 0; i < column->churn_nr; i++) {
		const struct report_churn *churn = &column->churn[i];
		uint64_t *of = now->traceback[churn->traceback].of;

		of[2] = churn->allocations;
		of[3] = churn->allocated_bytes;
		of[4] = churn->temporary;
		of[5] = churn->temporary_bytes;
	}
}

static void raise_peaks(struct standings *now, const struct report_data *data)
{
	double total[QUANTITIES] = {};

	for (size_t i = 0; i < data->traceback_nr; i++)
		for (int k = 0; k < QUANTITIES; k++)
			total[k] += now->traceback[i].of[k];
	for (size_t i = 0; i < data->traceback_nr; i++)
		for (int k = 0; k < QUANTITIES; k++) {
			double share = total[k] > 0 ? now->traceback[i].of[k] / total[k] : 0;

			if (share > now->peak[i])
				now->peak[i] = share;
		}
}

int find_peak_shares(const struct report_data *data, double **ret)
{
	struct standings now;
	int err = standings_init(&now, data);

	for (size_t i = 0; i < data->column_nr && !err; i++) {
		standings_pass(&now, data, &data->column[i]);
		raise_peaks(&now, data);
	}
	free(now.traceback);
	free(now.row);
	if (err)
		free(now.peak);
	else
		*ret = now.peak;
	return err;
}
