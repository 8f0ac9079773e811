/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CLUSTER_CLUSTER_CHOOSE_H
#define ALLOCSNAP_FLEET_CLUSTER_CLUSTER_CHOOSE_H

/* The snapshots of a question, which the cluster chooses: it sends the facts of these, and what it has left out. */

#include "fleet/cluster/cluster.h"
#include "fleet/selection.h"

struct cluster_choice {
	const struct fleet_selection **selection; /* all must match */
	size_t selection_nr;
	enum cohort_times times;
};

#define CLUSTER_CHOICES_MAX 2

/*
 * Cohort i is the answer to choice i. Only a single choice may be COHORT_LIVE. labels: whether the facts need labels.
 * Returns 0, or a negative errno and a line in *why.
 */
int cluster_choose(struct cluster *cluster, const struct cluster_choice *choice, size_t choice_nr, bool labels,
		   struct fleet_facts *ret_facts, struct cohort *const *ret_cohort, struct reason *why);

/* A question about the rows of some snapshots. */
struct chosen_query {
	char *sql; /* with places {first} and {last}; it is freed. NULL: no memory */
	const struct fleet_snapshot *const *snapshot;
	size_t snapshot_nr;
	bool wants_numbers; /* process_nr and host_nr */
	const struct cluster_table *more; /* another table; NULL: none */
	const char *types; /* as in struct cluster_query */
	int (*row)(void *what, const union row_value *value);
	void *what;
};

int cluster_ask_chosen(struct cluster *cluster, const struct chosen_query *query, struct reason *why);

#endif
