// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/peak_share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Tracebacks that are taken together: by traceback its group; NULL: each is one. */
struct traceback_groups {
	const uint32_t *group;
	uint32_t nr;
};

/* The numbers of a group at one snapshot: live bytes and blocks, then the four of its churn. */
#define QUANTITIES 6

struct standing {
	uint64_t of[QUANTITIES];
};

struct standings {
	struct traceback_groups groups;
	struct standing *group;
	struct report_cell *row; /* the last cell of each row */
	struct report_churn *churn; /* of each traceback */
	double *peak;
};

static int standings_init(struct standings *now, const struct report_data *data, struct traceback_groups groups)
{
	now->groups = groups;
	now->group = calloc(groups.nr ?: 1, sizeof(*now->group));
	now->row = calloc(data->row_nr ?: 1, sizeof(*now->row));
	now->churn = calloc(data->traceback_nr ?: 1, sizeof(*now->churn));
	now->peak = calloc(groups.nr ?: 1, sizeof(*now->peak));
	return now->group && now->row && now->churn && now->peak ? 0 : -ENOMEM;
}

static struct standing *standing_of(struct standings *now, uint32_t traceback)
{
	return &now->group[now->groups.group ? now->groups.group[traceback] : traceback];
}

/* Differences wrap, and so do their sums. */
static void standings_pass(struct standings *now, const struct report_data *data, const struct report_column *column)
{
	for (size_t i = 0; i < column->cell_nr; i++) {
		const struct report_cell *cell = &column->cell[i];
		struct standing *standing = standing_of(now, data->row[cell->row].traceback);

		standing->of[0] += cell->size - now->row[cell->row].size;
		standing->of[1] += cell->count - now->row[cell->row].count;
		now->row[cell->row] = *cell;
	}
	for (size_t i = 0; i < column->churn_nr; i++) {
		const struct report_churn *churn = &column->churn[i];
		struct report_churn *before = &now->churn[churn->traceback];
		uint64_t *of = standing_of(now, churn->traceback)->of;

		of[2] += churn->allocations - before->allocations;
		of[3] += churn->allocated_bytes - before->allocated_bytes;
		of[4] += churn->temporary - before->temporary;
		of[5] += churn->temporary_bytes - before->temporary_bytes;
		*before = *churn;
	}
}

static void raise_peaks(struct standings *now)
{
	double total[QUANTITIES] = {};

	for (size_t i = 0; i < now->groups.nr; i++)
		for (int k = 0; k < QUANTITIES; k++)
			total[k] += now->group[i].of[k];
	for (size_t i = 0; i < now->groups.nr; i++)
		for (int k = 0; k < QUANTITIES; k++) {
			double share = total[k] > 0 ? now->group[i].of[k] / total[k] : 0;

			if (share > now->peak[i])
				now->peak[i] = share;
		}
}

/* The caller frees *ret. */
static int find_shares(const struct report_data *data, struct traceback_groups groups, double **ret)
{
	struct standings now;
	int err = standings_init(&now, data, groups);

	for (size_t i = 0; i < data->column_nr && !err; i++) {
		standings_pass(&now, data, &data->column[i]);
		raise_peaks(&now);
	}
	free(now.group);
	free(now.row);
	free(now.churn);
	if (err)
		free(now.peak);
	else
		*ret = now.peak;
	return err;
}

/* Sites are equal if their frames are. */
static int number_sites(const struct report_data *data, struct peak_shares *ret)
{
	uint32_t *number = malloc((data->frame_nr ?: 1) * sizeof(*number));

	ret->site_at = calloc(data->traceback_nr ?: 1, sizeof(*ret->site_at));
	if (!number || !ret->site_at) {
		free(number);
		return -ENOMEM;
	}
	memset(number, 0xff, data->frame_nr * sizeof(*number));
	for (size_t i = 0; i < data->traceback_nr; i++) {
		uint32_t *site = &number[data->node[data->traceback[i].site].frame];

		if (*site == IDMAP_NONE)
			*site = ret->site_nr++;
		ret->site_at[i] = *site;
	}
	free(number);
	return 0;
}

int peak_shares_find(const struct report_data *data, struct peak_shares *ret)
{
	int err;

	*ret = (struct peak_shares){ .traceback_nr = data->traceback_nr };
	err = find_shares(data, (struct traceback_groups){ NULL, data->traceback_nr }, &ret->traceback);
	err = err ?: number_sites(data, ret);
	return err ?: find_shares(data, (struct traceback_groups){ ret->site_at, ret->site_nr }, &ret->site);
}

void peak_shares_release(struct peak_shares *shares)
{
	free(shares->traceback);
	free(shares->site);
	free(shares->site_at);
	*shares = (struct peak_shares){};
}
