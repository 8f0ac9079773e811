/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CLUSTER_MIRROR_PRIVATE_H
#define ALLOCSNAP_FLEET_CLUSTER_MIRROR_PRIVATE_H

#include "fleet/cluster/cluster_mirror.h"
#include "fleet/catalogue_private.h"
#include "fleet/id_set.h"

enum mirror_insert {
	MIRROR_FILE,
	MIRROR_SNAPSHOT,
	MIRROR_ROWS,
	MIRROR_LABEL,
	MIRROR_LOSS,
	MIRROR_ORIGIN,
	MIRROR_TRACEBACK,
	MIRROR_FRAME,
	MIRROR_DOMAIN,
	MIRROR_INSERT_NR,
};

struct mirror_upload {
	int64_t upload_id;
	bool is_fetched;
};

struct cluster_mirror {
	struct cluster *cluster;
	struct catalogue *catalogue;
	sqlite3_stmt *insert[MIRROR_INSERT_NR];
	struct mirror_upload *upload; /* of each snapshot, by its number less 1 */
	size_t upload_nr, upload_alloc;
	struct known snapshots; /* by snapshot_id: their numbers in `upload` */
	struct known uploads;	/* the same by upload_id */
	struct known origins;	/* by traceback_id and the domain's number */
	uint32_t origin_nr;
	bool wants_tracebacks; /* each has an origin, of domain 0 */
	struct known domains; /* by id + 1: their numbers */
};

/* Reads the domains and gives them numbers. */
int mirror_read_domains(struct cluster_mirror *mirror, struct reason *why);

/* Reads frames and tracebacks. */
int mirror_read_names(struct cluster_mirror *mirror, struct reason *why);

/* Binds the values to the statement's parameters and runs it. types: one letter a value, i or t (text). */
int mirror_insert(struct cluster_mirror *mirror, enum mirror_insert what, const char *types,
		  const union row_value *value, struct reason *why);

/* The origin's number, which may be new. domain: as row tables have it. -EBADMSG: there is no such domain. */
int mirror_find_origin(struct cluster_mirror *mirror, int64_t traceback_id, int64_t domain, uint32_t *ret,
		       struct reason *why);

/* The uploads of a cohort's snapshots; the caller frees them. */
int mirror_list_uploads(const struct cluster_mirror *mirror, const struct cohort *cohort, int64_t **ret);

int mirror_report_lack(const struct cluster_mirror *mirror, struct reason *why);

#endif
