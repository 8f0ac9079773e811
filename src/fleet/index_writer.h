/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_INDEX_WRITER_H
#define ALLOCSNAP_FLEET_INDEX_WRITER_H

#include "fleet/index_private.h"

enum statement {
	INSERT_FILE, UPDATE_FILE, DELETE_FILE, SELECT_LINE,
	SELECT_SNAPSHOT, DELETE_SNAPSHOT, DELETE_ROWS, DELETE_LABELS, DELETE_LOSSES,
	INSERT_SNAPSHOT, INSERT_ROWS, INSERT_LABEL, INSERT_LOSS,
	INSERT_ORIGIN, INSERT_TRACEBACK, INSERT_FRAME, INSERT_DOMAIN,
	STATEMENT_NR,
};

struct index_writer {
	const struct catalogue *catalogue;
	struct library *library;
	sqlite3_stmt *statement[STATEMENT_NR];
	bool is_open; /* a transaction is open */
	struct fleet_rows room;
	int64_t *frame_ids; /* of one traceback */
	size_t frame_ids_alloc;
};

/*
 * Adds what is new in the rows to library and catalogue, and sets the rows' origins. If an id belongs to something
 * else, it sets found->problem.
 */
int index_writer_add_news(struct index_writer *writer, struct found *found, const char *path,
			  struct reason *why);

#endif
