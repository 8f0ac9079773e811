// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/report_data.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* ---- life ------------------------------------------------------------------------------------------------ */

int report_data_init(struct report_data *data, unsigned int key_columns)
{
	*data = (struct report_data){ .key_columns = key_columns };
	return array_push(data, node, ((struct report_node){ 0, IDMAP_NONE, IDMAP_NONE }));
}

static void report_column_release(struct report_column *column)
{
	json_decref(column->head);
	free(column->cell);
	free(column->spread);
	free(column->churn);
}

void report_data_release(struct report_data *data)
{
	for (size_t i = 0; i < data->column_nr; i++)
		report_column_release(&data->column[i]);
	json_decref(data->head);
	json_decref(data->sources);
	json_decref(data->leaks);
	json_decref(data->processes);
	free(data->process);
	strpool_release(&data->strings);
	idmap_release(&data->frame_ids);
	idmap_release(&data->node_ids);
	idmap_release(&data->traceback_ids);
	idmap_release(&data->key_ids);
	idmap_release(&data->row_ids);
	idmap_release(&data->domain_ids);
	free(data->frame);
	free(data->node);
	free(data->traceback);
	free(data->key);
	free(data->row);
	free(data->domain);
	free(data->boundary_ns);
	free(data->column);
	free(data->last);
	free(data->last_spread);
	free(data->last_churn);
	*data = (struct report_data){};
}

uint32_t *report_make_ids(size_t nr)
{
	uint32_t *id = malloc((nr ?: 1) * sizeof(*id));

	if (id)
		memset(id, 0xff, (nr ?: 1) * sizeof(*id));
	return id;
}

/* ---- names and frames ---------------------------------------------------------------------------------------- */

int report_string_add(struct report_data *data, const char *text, uint32_t *ret_id)
{
	return strpool_add(&data->strings, text, strlen(text), ret_id);
}

/* The facts that make frames equal: with a line, where it is in its object does not count. */
struct frame_identity {
	uint32_t function, file, line, object;
	uint64_t offset;
	uint64_t kind;
};

static struct frame_identity identity_of(const struct report_frame *frame)
{
	return (struct frame_identity){
		.function = frame->function, .file = frame->file, .line = frame->line,
		.object = frame->line ? 0 : frame->object,
		.offset = frame->line ? 0 : frame->offset,
		.kind = frame->kind == REPORT_MERGED || frame->kind == REPORT_MISSING ||
			frame->kind == REPORT_SMALL_SITES ? frame->kind : 0,
	};
}

static bool is_same_report_frame(uint32_t id, const void *key, const void *table)
{
	const struct report_data *data = table;
	const struct frame_identity identity = identity_of(&data->frame[id]);

	return !memcmp(&identity, key, sizeof(identity));
}

int report_frame_add(struct report_data *data, const struct report_frame *frame, uint32_t *ret_id)
{
	const struct frame_identity identity = identity_of(frame);
	uint64_t hash = hash_bytes(&identity, sizeof(identity), 0);
	int err = 0;

	*ret_id = idmap_find(&data->frame_ids, hash, is_same_report_frame, &identity, data);
	if (*ret_id != IDMAP_NONE)
		return 0;
	*ret_id = data->frame_nr;
	err = array_push(data, frame, *frame);
	return err ?: idmap_add(&data->frame_ids, hash, *ret_id);
}

int report_node_add(struct report_data *data, uint32_t parent, uint32_t frame, uint32_t *ret_id)
{
	const uint32_t key[] = { parent, frame }; /* a node begins with them */

	return idmap_intern(&data->node_ids, data, node, key, ((struct report_node){ parent, frame, IDMAP_NONE }), ret_id) ?:
	       *ret_id < INT32_MAX ? 0 : -ENOMEM;
}

int report_traceback_add(struct report_data *data, uint32_t node, uint32_t site, uint32_t *ret_id)
{
	uint32_t *traceback = &data->node[node].traceback;
	int err = 0;

	if (*traceback == IDMAP_NONE) {
		err = array_push(data, traceback, ((struct report_traceback){ .node = node, .site = site }));
		if (!err)
			*traceback = data->traceback_nr - 1;
	}
	*ret_id = *traceback;
	return err;
}

struct path {
	const uint32_t *frame;
	uint32_t nframe;
};

static bool is_same_path(uint32_t id, const void *key, const void *table)
{
	const struct report_data *data = table;
	const struct path *path = key;
	uint32_t node = data->traceback[id].node, left = path->nframe;

	while (node && left && data->node[node].frame == path->frame[left - 1]) {
		node = data->node[node].parent;
		left--;
	}
	return !node && !left;
}

static int add_new_path(struct report_data *data, const struct path *path, uint32_t site_at, uint32_t *ret_id)
{
	uint32_t node = 0, site = 0;
	int err = 0;

	for (uint32_t i = 0; i < path->nframe && !err; i++) {
		err = report_node_add(data, node, path->frame[i], &node);
		if (i == site_at)
			site = node;
	}
	return err ?: report_traceback_add(data, node, site, ret_id);
}

int report_path_add(struct report_data *data, const uint32_t *frame, uint32_t nframe, uint32_t site_at, uint32_t *ret_id)
{
	const struct path path = { frame, nframe };
	uint64_t hash = hash_bytes(frame, nframe * sizeof(*frame), 0);
	int err;

	*ret_id = idmap_find(&data->traceback_ids, hash, is_same_path, &path, data);
	if (*ret_id != IDMAP_NONE)
		return 0;
	err = add_new_path(data, &path, site_at, ret_id);
	return err ?: idmap_add(&data->traceback_ids, hash, *ret_id);
}

/* ---- rows --------------------------------------------------------------------------------------------------- */

_Static_assert(sizeof(struct report_key) == 24, "keys are compared as bytes: no padding");

int report_key_add(struct report_data *data, const struct report_key *key, uint32_t *ret_id)
{
	return idmap_intern(&data->key_ids, data, key, *key, *key, ret_id);
}

int report_row_add(struct report_data *data, uint32_t traceback, uint32_t key, uint32_t *ret_id)
{
	const struct report_row row = { traceback, key };

	return idmap_intern(&data->row_ids, data, row, row, row, ret_id) ?: *ret_id < INT32_MAX ? 0 : -ENOMEM;
}

uint32_t report_domain_find(const struct report_data *data, uint32_t number)
{
	return idmap_find_key(&data->domain_ids, &number, sizeof(number), data->domain, sizeof(*data->domain));
}

int report_domain_add(struct report_data *data, uint32_t number, const char *name, uint32_t *ret_at)
{
	uint32_t id = 0;
	int err = name ? report_string_add(data, name, &id) : 0;

	*ret_at = report_domain_find(data, number);
	if (err)
		return err;
	if (*ret_at != IDMAP_NONE) {
		data->domain[*ret_at].name = data->domain[*ret_at].name ?: id;
		return 0;
	}
	*ret_at = data->domain_nr;
	return idmap_push(&data->domain_ids, data, domain, number, ((struct report_domain){ number, id }));
}

/* ---- births -------------------------------------------------------------------------------------------------- */

int report_boundary_add(struct report_data *data, uint64_t at_ns)
{
	size_t at = data->boundary_ns_nr;
	int err;

	while (at && data->boundary_ns[at - 1] > at_ns)
		at--;
	if (!at_ns || (at && data->boundary_ns[at - 1] == at_ns))
		return 0;
	err = array_push(data, boundary_ns, 0);
	if (err)
		return err;
	memmove(&data->boundary_ns[at + 1], &data->boundary_ns[at],
		(data->boundary_ns_nr - 1 - at) * sizeof(*data->boundary_ns));
	data->boundary_ns[at] = at_ns;
	return 0;
}

uint64_t report_boundary_before(const struct report_data *data, uint64_t birth_ns)
{
	size_t at = array_first(data->boundary_ns_nr, i, data->boundary_ns[i] >= birth_ns);

	return at ? data->boundary_ns[at - 1] : 0;
}
