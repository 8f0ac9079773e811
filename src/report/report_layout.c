// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/report_layout.h"

#include <errno.h>
#include <stdlib.h>

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
	uint32_t *number = report_make_ids(data->frame_nr);

	ret->site_at = calloc(data->traceback_nr ?: 1, sizeof(*ret->site_at));
	if (!number || !ret->site_at) {
		free(number);
		return -ENOMEM;
	}
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

void layout_release(struct report_layout *layout)
{
	free(layout->traceback_to);
	free(layout->traceback);
	free(layout->node);
	free(layout->frame);
	free(layout->string);
	free(layout->row);
	free(layout->traceback_at);
	free(layout->node_at);
	free(layout->frame_at);
	free(layout->string_at);
	free(layout->row_at);
	free(layout->key_at);
	*layout = (struct report_layout){};
}

/* ---- merging ------------------------------------------------------------------------------------------------ */

/* The traceback that stands for the small ones of a site: the root, "merged", the site. */
static int find_merged_traceback(struct report_data *data, uint32_t traceback, uint32_t *ret_id)
{
	const struct report_frame merged = { .kind = REPORT_MERGED, .is_library = true };
	uint32_t site = data->node[data->traceback[traceback].site].frame, frame, node;
	int err = report_frame_add(data, &merged, &frame) ?: report_node_add(data, 0, frame, &node) ?:
		  report_node_add(data, node, site, &node);

	return err ?: report_traceback_add(data, node, node, ret_id);
}

/* The traceback that stands for all small sites: it is a site itself. */
static int find_small_sites(struct report_data *data, uint32_t *ret_id)
{
	const struct report_frame small = { .kind = REPORT_SMALL_SITES };
	uint32_t frame, node;
	int err = report_frame_add(data, &small, &frame) ?: report_node_add(data, 0, frame, &node);

	return err ?: report_traceback_add(data, node, node, ret_id);
}

/* A site with only one small traceback keeps it: merging would save nothing. */
static int keep_lone_tracebacks(struct report_layout *layout, const struct report_data *data)
{
	uint32_t *parts = calloc(data->traceback_nr ?: 1, sizeof(*parts));

	if (!parts)
		return -ENOMEM;
	for (size_t i = 0; i < layout->given_nr; i++)
		if (layout->traceback_to[i] != IDMAP_NONE && layout->traceback_to[i] != i)
			parts[layout->traceback_to[i]]++;
	for (size_t i = 0; i < layout->given_nr; i++) {
		uint32_t to = layout->traceback_to[i];

		if (to == IDMAP_NONE || to == i || to == layout->small_sites)
			continue;
		if (parts[to] == 1)
			layout->traceback_to[i] = i;
		else
			layout->merged_nr++;
	}
	free(parts);
	return 0;
}

/* ---- small sites ------------------------------------------------------------------------------------------- */

struct ranked_site {
	uint32_t site;
	bool is_kept;
	double share;
};

static int compare_sites(const void *left, const void *right)
{
	const struct ranked_site *a = left, *b = right;

	if (a->is_kept != b->is_kept)
		return a->is_kept ? -1 : 1;
	if (a->share != b->share)
		return a->share > b->share ? -1 : 1;
	return (a->site > b->site) - (a->site < b->site);
}

static void rank_sites(const struct report_data *data, const struct peak_shares *shares, struct ranked_site *ranked)
{
	for (uint32_t i = 0; i < shares->site_nr; i++)
		ranked[i] = (struct ranked_site){ .site = i, .share = shares->site[i] };
	for (uint32_t i = 0; i < shares->traceback_nr; i++)
		ranked[shares->site_at[i]].is_kept |= data->traceback[i].is_kept;
	qsort(ranked, shares->site_nr, sizeof(*ranked), compare_sites);
}

/* Marks all but the largest sites in is_small[]. Nothing is won by merging a single one. */
static int choose_small_sites(struct report_layout *layout, struct report_data *data, const struct peak_shares *shares,
			      bool *is_small)
{
	struct ranked_site *ranked;
	uint32_t most = layout->limits.site_nr;

	for (uint32_t i = 0; i < shares->site_nr; i++)
		layout->site_of += shares->site[i] > 0;
	if (!most || layout->site_of <= most + 1)
		return 0;
	ranked = calloc(shares->site_nr, sizeof(*ranked));
	if (!ranked)
		return -ENOMEM;
	rank_sites(data, shares, ranked);
	while (most < shares->site_nr && ranked[most].is_kept)
		most++;
	for (uint32_t i = most; i < shares->site_nr && ranked[i].share > 0; i++) {
		is_small[ranked[i].site] = true;
		layout->small_site_nr++;
	}
	layout->small_site_share = most < shares->site_nr ? ranked[most].share : 0;
	free(ranked);
	return layout->small_site_nr ? find_small_sites(data, &layout->small_sites) : 0;
}

/* ---- which tracebacks -------------------------------------------------------------------------------------- */

static int place_traceback(struct report_layout *layout, struct report_data *data, const struct peak_shares *shares,
			   uint32_t traceback)
{
	layout->traceback_to[traceback] = traceback;
	if (data->traceback[traceback].is_kept || shares->traceback[traceback] >= layout->limits.share)
		return 0;
	return find_merged_traceback(data, traceback, &layout->traceback_to[traceback]);
}

static int choose_tracebacks(struct report_layout *layout, struct report_data *data, const struct peak_shares *shares)
{
	bool *is_small = calloc(shares->site_nr ?: 1, sizeof(*is_small));
	uint32_t nr = shares->traceback_nr;
	int err;

	layout->traceback_to = report_make_ids(nr);
	layout->given_nr = nr;
	layout->small_sites = IDMAP_NONE;
	err = is_small && layout->traceback_to ? choose_small_sites(layout, data, shares, is_small) : -ENOMEM;
	for (uint32_t i = 0; i < nr && !err; i++) {
		if (!(shares->traceback[i] > 0))
			continue;
		layout->merged_of++;
		if (is_small[shares->site_at[i]])
			layout->traceback_to[i] = layout->small_sites;
		else
			err = place_traceback(layout, data, shares, i);
	}
	free(is_small);
	return err ?: keep_lone_tracebacks(layout, data);
}

/* ---- numbers: nodes as a walk meets them, frames and names as they are first seen ------------------------------ */

/* The children of each node, in a list. IDMAP_NONE ends it. */
struct children {
	uint32_t *first, *next;
};

static void mark_nodes(struct report_layout *layout, const struct report_data *data, uint32_t traceback)
{
	uint32_t node = data->traceback[traceback].node;

	for (; layout->node[node] == IDMAP_NONE; node = data->node[node].parent)
		layout->node[node] = 0;
}

/* From the last to the first, so that the lists are in the order of the ids. */
static int list_children(const struct report_layout *layout, const struct report_data *data, struct children *ret)
{
	ret->first = report_make_ids(data->node_nr);
	ret->next = report_make_ids(data->node_nr);
	if (!ret->first || !ret->next)
		return -ENOMEM;
	for (size_t i = data->node_nr; i-- > 1;) {
		uint32_t parent = data->node[i].parent;

		if (layout->node[i] == IDMAP_NONE)
			continue;
		ret->next[i] = ret->first[parent];
		ret->first[parent] = i;
	}
	return 0;
}

static void number_string(struct report_layout *layout, uint32_t string)
{
	if (!string || layout->string[string] != IDMAP_NONE)
		return;
	layout->string_at[layout->string_nr] = string;
	layout->string[string] = layout->string_nr++;
}

static void number_frame(struct report_layout *layout, const struct report_data *data, uint32_t frame)
{
	if (layout->frame[frame] != IDMAP_NONE)
		return;
	layout->frame_at[layout->frame_nr] = frame;
	layout->frame[frame] = layout->frame_nr++;
	number_string(layout, data->frame[frame].function);
	number_string(layout, data->frame[frame].file);
	number_string(layout, data->frame[frame].object);
}

static void number_node(struct report_layout *layout, const struct report_data *data, uint32_t node)
{
	uint32_t traceback = data->node[node].traceback;

	layout->node_at[layout->node_nr] = node;
	layout->node[node] = layout->node_nr++;
	if (node)
		number_frame(layout, data, data->node[node].frame);
	if (traceback == IDMAP_NONE || layout->traceback[traceback] == IDMAP_NONE)
		return;
	layout->traceback_at[layout->traceback_nr] = traceback;
	layout->traceback[traceback] = layout->traceback_nr++;
}

/* Depth first, without recursion: a traceback may have 65,535 frames. */
static void walk_nodes(struct report_layout *layout, const struct report_data *data, const struct children *children)
{
	uint32_t node = 0;

	while (node != IDMAP_NONE) {
		number_node(layout, data, node);
		if (children->first[node] != IDMAP_NONE) {
			node = children->first[node];
			continue;
		}
		while (node && children->next[node] == IDMAP_NONE)
			node = data->node[node].parent;
		node = node ? children->next[node] : IDMAP_NONE;
	}
}

static int make_room(struct report_layout *layout, const struct report_data *data)
{
	layout->traceback = report_make_ids(data->traceback_nr);
	layout->traceback_at = report_make_ids(data->traceback_nr);
	layout->node = report_make_ids(data->node_nr);
	layout->node_at = report_make_ids(data->node_nr);
	layout->frame = report_make_ids(data->frame_nr);
	layout->frame_at = report_make_ids(data->frame_nr);
	layout->string = report_make_ids(data->strings.start_nr);
	layout->string_at = report_make_ids(data->strings.start_nr);
	return layout->traceback && layout->traceback_at && layout->node && layout->node_at && layout->frame &&
	       layout->frame_at && layout->string && layout->string_at ? 0 : -ENOMEM;
}

static int number_tracebacks(struct report_layout *layout, const struct report_data *data)
{
	struct children children = {};
	int err = make_room(layout, data);

	if (!err)
		layout->node[0] = 0;
	for (size_t i = 0; i < layout->given_nr && !err; i++) {
		uint32_t to = layout->traceback_to[i];

		if (to == IDMAP_NONE)
			continue;
		layout->traceback[to] = 0;
		mark_nodes(layout, data, to);
	}
	err = err ?: list_children(layout, data, &children);
	if (!err)
		walk_nodes(layout, data, &children);
	free(children.first);
	free(children.next);
	return err;
}

/* ---- rows and keys -------------------------------------------------------------------------------------------- */

/* A row of the data, and where it goes: by the number of its traceback, then of its key. */
struct placed_row {
	uint64_t place;
	uint32_t row;
};

static struct report_key keep_columns(const struct report_key *key, unsigned int columns)
{
	return (struct report_key){
		.thread = columns & REPORT_KEY_THREAD ? key->thread : 0,
		.domain = columns & REPORT_KEY_DOMAIN ? key->domain : 0,
		.size_class = columns & REPORT_KEY_SIZE_CLASS ? key->size_class : 0,
		.process = columns & REPORT_KEY_PROCESS ? key->process : 0,
		.birth_after_ns = columns & REPORT_KEY_BIRTH ? key->birth_after_ns : 0,
	};
}

/* Keys in the file by what is kept of them. */
struct kept_keys {
	struct report_layout *layout;
	struct idmap ids;
};

static int number_key(struct kept_keys *keys, const struct report_key *key, uint32_t *ret_number)
{
	struct report_layout *layout = keys->layout;
	struct report_key kept = keep_columns(key, layout->limits.key_columns);

	*ret_number = idmap_find_key(&keys->ids, &kept, sizeof(kept), layout->key_at, sizeof(kept));
	if (*ret_number != IDMAP_NONE)
		return 0;
	*ret_number = layout->key_nr;
	layout->key_at[layout->key_nr++] = kept;
	return idmap_add_key(&keys->ids, &kept, sizeof(kept), *ret_number);
}

static int place_rows(struct report_layout *layout, const struct report_data *data, struct placed_row *placed,
		      size_t *ret_nr)
{
	struct kept_keys keys = { .layout = layout };
	uint32_t key;
	size_t nr = 0;
	int err = 0;

	for (uint32_t i = 0; i < data->row_nr && !err; i++) {
		uint32_t to = layout->traceback_to[data->row[i].traceback];

		if (to == IDMAP_NONE)
			continue;
		err = number_key(&keys, &data->key[data->row[i].key], &key);
		placed[nr++] = (struct placed_row){ (uint64_t)layout->traceback[to] << 32 | key, i };
	}
	idmap_release(&keys.ids);
	*ret_nr = nr;
	return err;
}

static int number_rows(struct report_layout *layout, const struct report_data *data)
{
	struct placed_row *placed = calloc(data->row_nr ?: 1, sizeof(*placed));
	size_t nr = 0;
	int err;

	layout->row = report_make_ids(data->row_nr);
	layout->row_at = calloc(data->row_nr ?: 1, sizeof(*layout->row_at));
	layout->key_at = calloc(data->key_nr ?: 1, sizeof(*layout->key_at));
	err = placed && layout->row && layout->row_at && layout->key_at ? 0 : -ENOMEM;
	err = err ?: place_rows(layout, data, placed, &nr);
	if (!err)
		qsort(placed, nr, sizeof(*placed), array_by_number);
	for (size_t i = 0; i < nr && !err; i++) {
		if (!i || placed[i].place != placed[i - 1].place)
			layout->row_at[layout->row_nr++] =
				(struct report_row){ placed[i].place >> 32, (uint32_t)placed[i].place };
		layout->row[placed[i].row] = layout->row_nr - 1;
	}
	free(placed);
	return err;
}

int layout_make(struct report_layout *layout, struct report_data *data, const struct peak_shares *shares,
		const struct layout_limits *limits)
{
	int err;

	*layout = (struct report_layout){ .limits = *limits };
	err = choose_tracebacks(layout, data, shares) ?: number_tracebacks(layout, data);
	return err ?: number_rows(layout, data);
}
