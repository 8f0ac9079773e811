/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CLUSTER_CLUSTER_PRIVATE_H
#define ALLOCSNAP_FLEET_CLUSTER_CLUSTER_PRIVATE_H

#include "fleet/cluster/cluster.h"
#include "fleet/id_set.h"
#include "push/http_client.h"

struct cluster {
	struct row_sink sink;
	const struct cluster_options *options;
	struct http_options http;
	struct http_client *client;
	struct row_bytes head, packed; /* memory of an insert: the head of a column, and the compressed block */
};

/* One request to the server. */
struct cluster_request {
	const char *parameters; /* of the URL, besides our settings: "&…"; NULL: none */
	bool is_in_database;
	const char *content_type; /* NULL: none */
	const void *body;
	size_t body_len;
	int (*take)(void *what, const void *bytes, size_t len); /* NULL: the answer is of no interest */
	void *what;
};

int cluster_send(struct cluster *cluster, const struct cluster_request *request, struct reason *why);

/* The answer is no ClickHouse's: -EPROTO. */
int cluster_refuse_answer(const struct cluster *cluster, long status, struct reason *why);

/* Rows as the server's format Native in one compressed block. Returns 0, -ENOMEM or -E2BIG. */
int native_block_make(const struct row_batch *batch, struct row_bytes *head, struct row_bytes *packed);

/* Escapes a text for a URL; the caller frees it. NULL: no memory. */
char *cluster_escape(const char *text);

/* ---- units ---- */

struct unit_origin {
	int64_t unit; /* a traceback's id, or 0 - the id of an own frame */
	int64_t domain_id;
	uint32_t domain;
};

struct unit_domain {
	uint32_t number;
	char *name;
};

struct cluster_units {
	struct cluster *cluster;
	bool has_lendable; /* names of places are to be lent */
	char *unit, rules[24]; /* SQL: places of units.sql */
	struct unit_origin *origin;
	size_t origin_nr, origin_alloc;
	struct known origins; /* by unit and the domain's number */
	struct unit_domain *domain; /* those with names */
	size_t domain_nr, domain_alloc;
	struct known domains, taken; /* by id + 1: their numbers; numbers + 1 in use */
};

/* No id is 0. */
int64_t unit_key(int64_t unit);

/* The origin of a unit and a domain, which may be a new one. 0, -EBADMSG or -ENOMEM. */
int units_find_origin(struct cluster_units *units, int64_t unit, int64_t domain_id, uint32_t *ret);

/* SQL that selects places whose names are to be lent; the caller frees it. NULL: no memory. */
char *units_lendable_sql(bool disputed);

int units_report_lack(const struct cluster_units *units, struct reason *why);

#endif
