/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_REPORT_DATA_H
#define ALLOCSNAP_REPORT_REPORT_DATA_H

/*
 * The blocks of one or several snapshots, as docs/report-format.md has them: names, frames, a trie of tracebacks, and
 * for each snapshot the rows that changed since the one before. Tables only grow; ids are indexes. What the file leaves
 * out, and the numbers that it uses, are chosen later (report_layout.h).
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "engine/estimate.h"

enum report_frame_kind {
	REPORT_CALL = 0,
	REPORT_INLINED,
	REPORT_MISSING,	 /* unknown frames are missing here */
	REPORT_MERGED,	 /* the callers of small tracebacks */
	REPORT_UNKNOWN,	 /* no traceback was recorded */
	REPORT_SMALL_SITES, /* small sites, merged */
};

/* Texts are ids of `strings`; 0: not known. Frames are equal as in the engine: engine.h, by function. */
struct report_frame {
	uint32_t function, file, object;
	uint32_t line;
	uint64_t offset;
	uint8_t kind; /* enum report_frame_kind */
	bool is_library;
};

struct report_node {
	uint32_t parent, frame;
	uint32_t traceback; /* IDMAP_NONE: no traceback ends here */
};

struct report_traceback {
	uint32_t node; /* the most recent call */
	uint32_t site; /* the node of the first own frame */
	bool is_cut;
	bool is_kept; /* never merged, however small it is */
};

/* The facts of a block that the filters of the page choose by. A member that was not recorded is 0. */
struct report_key {
	uint32_t thread, domain, size_class, process;
	uint64_t birth_after_ns; /* a boundary; 0: before the first one, or not known */
};

/* A set of what `struct report_key` has. */
enum report_key_column {
	REPORT_KEY_THREAD = 1,
	REPORT_KEY_DOMAIN = 2,
	REPORT_KEY_SIZE_CLASS = 4,
	REPORT_KEY_BIRTH = 8,
	REPORT_KEY_PROCESS = 16,
	REPORT_KEY_ALL = 31,
};

struct report_row {
	uint32_t traceback, key;
};

/* A row's cost from one snapshot on. */
struct report_cell {
	uint32_t row;
	uint64_t size, count;
};

struct report_churn {
	uint64_t traceback;
	uint64_t allocations, allocated_bytes, temporary, temporary_bytes;
};

/* One snapshot. spread is NULL or has an element for each cell. */
struct report_column {
	json_t *head; /* its facts */
	struct report_cell *cell;
	size_t cell_nr, cell_alloc;
	struct spread *spread;
	size_t spread_nr, spread_alloc;
	struct report_churn *churn;
	size_t churn_nr, churn_alloc;
	bool has_churn; /* it was recorded */
};

struct report_domain {
	uint32_t number;
	uint32_t name; /* string id; 0: none */
};

struct report_data {
	json_t *head;	 /* all but the tables: the question, the process, gaps */
	json_t *processes; /* of a fleet, as the file lists them; NULL: it is of one process */
	uint32_t *process; /* by the fleet's number of a process: its place in this list; UINT32_MAX: none yet */
	size_t process_nr, process_alloc;
	json_t *leaks;	 /* verdicts (report_leaks.h), with ids of tracebacks and nodes; NULL: none */
	json_t *sources; /* by file and line; NULL: none were asked for */
	struct strpool strings;
	struct report_frame *frame;
	size_t frame_nr, frame_alloc;
	struct idmap frame_ids;
	struct report_node *node; /* [0] is the root */
	size_t node_nr, node_alloc;
	struct idmap node_ids;
	struct report_traceback *traceback;
	size_t traceback_nr, traceback_alloc;
	struct idmap traceback_ids; /* by path: a whole traceback is found faster than its nodes */
	struct report_key *key;
	size_t key_nr, key_alloc;
	struct idmap key_ids;
	struct report_row *row;
	size_t row_nr, row_alloc;
	struct idmap row_ids;
	struct report_domain *domain;
	size_t domain_nr, domain_alloc;
	struct idmap domain_ids;
	uint64_t *boundary_ns; /* ascending: keys say between which two a block was born */
	size_t boundary_ns_nr, boundary_ns_alloc;
	struct report_column *column;
	size_t column_nr, column_alloc;
	unsigned int key_columns; /* enum report_key_column: what rows are told apart by */
	unsigned int key_columns_wanted; /* the same, if there had been memory for all */
	bool is_sampled;
	size_t cell_nr; /* of all columns */

	/* By row: the cost in the last column that was added. By traceback: the churn. */
	struct report_cell *last;
	size_t last_nr, last_alloc;
	struct spread *last_spread;
	size_t last_spread_nr, last_spread_alloc;
	struct report_churn *last_churn;
	size_t last_churn_nr, last_churn_alloc;
};

/* All return 0 or -ENOMEM. report_data_release() frees what the struct has, also after a failure. */
int report_data_init(struct report_data *data, unsigned int key_columns);
void report_data_release(struct report_data *data);

/* nr times IDMAP_NONE, which the caller frees; NULL: no memory. */
uint32_t *report_make_ids(size_t nr);

int report_string_add(struct report_data *data, const char *text, uint32_t *ret_id);
int report_frame_add(struct report_data *data, const struct report_frame *frame, uint32_t *ret_id);
int report_node_add(struct report_data *data, uint32_t parent, uint32_t frame, uint32_t *ret_id);

/* The traceback that ends at the node. site is what it is when the node becomes one. */
int report_traceback_add(struct report_data *data, uint32_t node, uint32_t site, uint32_t *ret_id);

/* The traceback with these frames, oldest first; its site is the frame number site_at of them. */
int report_path_add(struct report_data *data, const uint32_t *frame, uint32_t nframe, uint32_t site_at, uint32_t *ret_id);
int report_key_add(struct report_data *data, const struct report_key *key, uint32_t *ret_id);
int report_row_add(struct report_data *data, uint32_t traceback, uint32_t key, uint32_t *ret_id);

/* The place in `domain` of a domain with this number, which is added; name: NULL if it has none here. */
int report_domain_add(struct report_data *data, uint32_t number, const char *name, uint32_t *ret_at);

/* The same without a name: IDMAP_NONE: it is not there. */
uint32_t report_domain_find(const struct report_data *data, uint32_t number);

/* Births are told apart by this time, too; one that is there already, or 0, adds nothing. Before the blocks that it is for. */
int report_boundary_add(struct report_data *data, uint64_t at_ns);

/* The last boundary before the birth; 0: no boundary is before it. */
uint64_t report_boundary_before(const struct report_data *data, uint64_t birth_ns);

#endif
