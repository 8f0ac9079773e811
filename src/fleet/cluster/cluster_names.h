/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CLUSTER_CLUSTER_NAMES_H
#define ALLOCSNAP_FLEET_CLUSTER_CLUSTER_NAMES_H

/* The names of units that are in a cluster: the dictionary, with an origin for each unit and domain. */

#include "fleet/cluster/cluster_units.h"
#include "fleet/dictionary.h"

/* Call it after all sums. Returns 0, or a negative errno and a line in *why. */
int cluster_units__names(struct cluster_units *units, const struct dictionary_options *options, struct dictionary *ret,
			 struct reason *why);

#endif
