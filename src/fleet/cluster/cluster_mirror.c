// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/cluster/cluster_mirror.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/cluster/mirror_private.h"

/* ---- inserts into the catalogue ------------------------------------------------------------------------------- */

static const char *const inserts[MIRROR_INSERT_NR] = {
	[MIRROR_FILE] = "INSERT OR IGNORE INTO file (path, size, mtime_ns, inode, problem, line) VALUES (?, 0, 0, 0, 0, '')",
	[MIRROR_SNAPSHOT] = "INSERT INTO snapshot (number, snapshot_id, verify, process_id, time_ns, monotonic_ns,"
			    " recording_ns, interval_ns, host, comm, exe, exe_build_id, cgroup, container, boot_id, kernel,"
			    " version, trigger, ending, file, pid, start_ticks, exec_count, size, count, gap_size, gap_count, row_nr,"
			    " traceback_limit, is_sampled, sample_bytes_most, is_part)"
			    " VALUES (?1, ?2, 0, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
			    " (SELECT number FROM file WHERE path = ?19), ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29,"
			    " ?30, ?31)",
	[MIRROR_ROWS] = "INSERT INTO snapshot_rows VALUES (?, ?)",
	[MIRROR_LABEL] = "INSERT INTO label VALUES (?, ?, ?)",
	[MIRROR_LOSS] = "INSERT INTO loss VALUES (?, ?, ?)",
	[MIRROR_ORIGIN] = "INSERT INTO origin VALUES (?, ?, ?)",
	[MIRROR_TRACEBACK] = "INSERT INTO traceback VALUES (?, 0, ?)",
	[MIRROR_FRAME] = "INSERT INTO frame VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
	[MIRROR_DOMAIN] = "INSERT INTO domain VALUES (?, ?)",
};

int mirror_insert(struct cluster_mirror *mirror, enum mirror_insert what, const char *types,
		  const union row_value *value, struct reason *why)
{
	sqlite3_stmt *insert = mirror->insert[what];

	for (int i = 0; types[i]; i++) {
		if (types[i] == 't')
			sqlite3_bind_text(insert, i + 1, value[i].text, -1, SQLITE_STATIC);
		else
			sqlite3_bind_int64(insert, i + 1, value[i].number);
	}
	return sql_finish(mirror->catalogue, insert, why);
}

/* ---- snapshots ------------------------------------------------------------------------------------------------ */

/* The receiver of an answer's rows, and the line of its error. */
struct mirror_reading {
	struct cluster_mirror *mirror;
	struct reason *why;
};

static int take_snapshot(void *reading_, const union row_value *value)
{
	struct mirror_reading *reading = reading_;
	struct cluster_mirror *mirror = reading->mirror;
	const struct known_row upload = { .hash.id = value[0].number, .number = mirror->upload_nr };
	const struct known_row snapshot = { .hash.id = value[1].number, .number = mirror->upload_nr };
	union row_value row[31] = { { .number = mirror->upload_nr + 1 } };
	int err;

	if (upload.hash.id <= 0 || snapshot.hash.id <= 0)
		return -EBADMSG;
	if (known_find(&mirror->snapshots, snapshot.hash.id, 0)) /* a later upload of it */
		return 0;
	memcpy(&row[1], &value[1], 30 * sizeof(*row));
	err = mirror_insert(mirror, MIRROR_FILE, "t", &row[18], reading->why) ?:
	      mirror_insert(mirror, MIRROR_SNAPSHOT, "iiiiiiittttttttttttiiiiiiiiiiii", row, reading->why);
	return err ?: known_add(&mirror->snapshots, &snapshot) ?: known_add(&mirror->uploads, &upload) ?:
	       array_push(mirror, upload, ((struct mirror_upload){ value[0].number, false }));
}

static int read_snapshots(struct cluster_mirror *mirror, struct reason *why)
{
	static const enum row_type types[31] = {
		[7 ... 18] = ROW_TEXT,
	};
	struct mirror_reading reading = { mirror, why };
	const struct cluster_query query = {
		.sql = "SELECT DISTINCT upload_id, snapshot_id, process_id, time_ns, monotonic_ns, recording_ns, interval_ns, host,"
		       " comm, exe, exe_build_id, cgroup, container, boot_id, kernel, version, trigger, ending, path, pid, start_ticks,"
		       " exec_count, size, count, gap_size, gap_count, row_nr, traceback_limit, is_sampled, sample_bytes_most,"
		       " is_part FROM snapshot ORDER BY snapshot_id, upload_id",
		.type = types, .column_nr = 31, .row = take_snapshot, .what = &reading,
	};

	return cluster__ask(mirror->cluster, &query, why);
}

/* ---- labels and losses ---------------------------------------------------------------------------------------- */

static int take_pair(struct mirror_reading *reading, enum mirror_insert what, const char *types,
		     const union row_value *value)
{
	const struct known_row *upload = known_find(&reading->mirror->uploads, value[0].number, 0);

	if (!upload)
		return 0;
	return mirror_insert(reading->mirror, what, types, (union row_value[]){
		{ .number = upload->number + 1 }, value[1], value[2],
	}, reading->why);
}

static int take_label(void *reading, const union row_value *value)
{
	return take_pair(reading, MIRROR_LABEL, "itt", value);
}

static int take_loss(void *reading, const union row_value *value)
{
	return take_pair(reading, MIRROR_LOSS, "iti", value);
}

static int read_pairs(struct cluster_mirror *mirror, struct reason *why)
{
	static const enum row_type label[] = { ROW_INT, ROW_TEXT, ROW_TEXT }, loss[] = { ROW_INT, ROW_TEXT, ROW_INT };
	struct mirror_reading reading = { mirror, why };
	const struct cluster_query labels = {
		.sql = "SELECT DISTINCT upload_id, name, value FROM label", .type = label, .column_nr = 3, .row = take_label,
		.what = &reading,
	};
	const struct cluster_query losses = {
		.sql = "SELECT DISTINCT upload_id, name, value FROM loss", .type = loss, .column_nr = 3, .row = take_loss,
		.what = &reading,
	};

	return cluster__ask(mirror->cluster, &labels, why) ?: cluster__ask(mirror->cluster, &losses, why);
}

/* ---- origins -------------------------------------------------------------------------------------------------- */

int mirror_find_origin(struct cluster_mirror *mirror, int64_t traceback_id, int64_t domain, uint32_t *ret,
		       struct reason *why)
{
	const struct known_row *number = known_find(&mirror->domains, domain + 1, 0), *origin;
	struct known_row row = { .hash.id = traceback_id, .number = mirror->origin_nr };

	if (traceback_id <= 0 || !number || mirror->origin_nr == UINT32_MAX)
		return -EBADMSG;
	row.domain = number->number;
	origin = known_find(&mirror->origins, traceback_id, row.domain);
	*ret = origin ? origin->number : row.number;
	if (origin)
		return 0;
	mirror->origin_nr++;
	return known_add(&mirror->origins, &row) ?: mirror_insert(mirror, MIRROR_ORIGIN, "iii", (union row_value[]){
		{ .number = row.number }, { .number = traceback_id }, { .number = row.domain },
	}, why);
}

int mirror_list_uploads(const struct cluster_mirror *mirror, const struct cohort *cohort, int64_t **ret)
{
	int64_t *upload = calloc(cohort->snapshot_nr + 1, sizeof(*upload));

	if (!upload)
		return -ENOMEM;
	for (size_t i = 0; i < cohort->snapshot_nr; i++) {
		const struct known_row *row = known_find(&mirror->snapshots, cohort->snapshot[i]->snapshot_id, 0);

		upload[i] = row ? mirror->upload[row->number].upload_id : 0;
	}
	*ret = upload;
	return 0;
}

int mirror_report_lack(const struct cluster_mirror *mirror, struct reason *why)
{
	return reason_set(why, -EBADMSG, "%s: rows of the chosen snapshots are missing there",
			  cluster__options(mirror->cluster)->url);
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static int prepare_mirror(struct cluster_mirror *mirror, struct reason *why)
{
	int err = catalogue__make_in_memory(cluster__options(mirror->cluster)->url, &mirror->catalogue, why);

	for (enum mirror_insert i = 0; i < MIRROR_INSERT_NR && !err; i++)
		err = sql_prepare(mirror->catalogue, inserts[i], &mirror->insert[i], why);
	return err ?: read_snapshots(mirror, why) ?: read_pairs(mirror, why) ?: mirror_read_domains(mirror, why);
}

static void end_inserts(struct cluster_mirror *mirror)
{
	for (enum mirror_insert i = 0; i < MIRROR_INSERT_NR; i++) {
		sqlite3_finalize(mirror->insert[i]);
		mirror->insert[i] = NULL;
	}
}

int cluster_mirror__new(struct cluster *cluster, struct cluster_mirror **ret, struct reason *why)
{
	struct cluster_mirror *mirror = calloc(1, sizeof(*mirror));
	int err;

	if (!mirror)
		return reason_set(why, -ENOMEM, "out of memory");
	mirror->cluster = cluster;
	err = prepare_mirror(mirror, why);
	if (!err) {
		*ret = mirror;
		return 0;
	}
	end_inserts(mirror);
	catalogue__close(mirror->catalogue);
	cluster_mirror__free(mirror);
	return err;
}

struct catalogue *cluster_mirror__catalogue(const struct cluster_mirror *mirror)
{
	return mirror->catalogue;
}

void cluster_mirror__want_tracebacks(struct cluster_mirror *mirror)
{
	mirror->wants_tracebacks = true;
}

int cluster_mirror__finish(struct cluster_mirror *mirror, uint32_t *ret_origin_nr, struct reason *why)
{
	int err = mirror_read_names(mirror, why);

	*ret_origin_nr = mirror->origin_nr;
	end_inserts(mirror);
	return err ?: catalogue__seal(mirror->catalogue, why);
}

void cluster_mirror__free(struct cluster_mirror *mirror)
{
	if (!mirror)
		return;
	end_inserts(mirror);
	free(mirror->upload);
	known_release(&mirror->snapshots);
	known_release(&mirror->uploads);
	known_release(&mirror->origins);
	known_release(&mirror->domains);
	free(mirror);
}
