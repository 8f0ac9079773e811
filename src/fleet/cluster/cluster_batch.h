/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CLUSTER_CLUSTER_BATCH_H
#define ALLOCSNAP_FLEET_CLUSTER_CLUSTER_BATCH_H

/* Snapshot files → row tables of a cluster, many files at once; the queue of src/push/ says which of them wait. */

#include <stdbool.h>

#include "push/push_endpoint.h"

/* Whether a URL is a ClickHouse's: a host without a path. */
bool cluster_url_is_plain(const char *url);

extern const struct push_batch_protocol cluster_batch_protocol;

#endif
