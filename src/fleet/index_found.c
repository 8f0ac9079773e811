// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "fleet/index_private.h"

/* ---- facts that a snapshot states about itself ---- */

#define LABEL_PREFIX "label."

static const char *get_fact_metadata(const struct snapshot *snapshot, const char *key)
{
	return snapshot__metadata(snapshot, key) ?: "";
}

/* Returns 0 if the snapshot does not have the number. */
static int64_t metadata_number(const struct snapshot *snapshot, const char *key)
{
	uint64_t number = snapshot__metadata_u64(snapshot, key, 0);

	return number <= INT64_MAX ? number : 0;
}

int found_copy_any_text(struct found *found, const char *text, size_t *ret)
{
	size_t len = strlen(text) + 1;
	int err = array_reserve(&found->text, &found->text_alloc, found->text_nr + len);

	if (err)
		return err;
	memcpy(found->text + found->text_nr, text, len);
	*ret = found->text_nr;
	found->text_nr += len;
	return 0;
}

static int found_copy_text(struct found *found, const char *text, size_t *ret)
{
	size_t len = strlen(text);

	if (len > FOUND_TEXT_MAX)
		return reason_set(&found->why, -EBADMSG, "a text of %zu bytes: no more than %d are taken", len,
				  FOUND_TEXT_MAX);
	if (found->text_nr + len > FOUND_TEXTS_MAX)
		return reason_set(&found->why, -EBADMSG, "more than %d bytes of texts", FOUND_TEXTS_MAX);
	return found_copy_any_text(found, text, ret);
}

/* ---- which snapshot it is --------------------------------------------------------------------------------- */

/* Parses "2026-11-21T03:15:00.123Z"; returns -1 for any other text. */
static int64_t parse_wall_time(const char *text)
{
	struct tm utc = {};
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);
	int64_t unit = 1000000000, ns = 0;

	if (!end)
		return -1;
	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9'; end++)
			ns += (*end - '0') * (unit /= 10);
	if (strcmp(end, "Z") || timegm(&utc) < 0 || timegm(&utc) > INT64_MAX / 1000000000 - 1)
		return -1;
	return timegm(&utc) * 1000000000 + ns;
}

static int64_t snapshot_wall_ns(const struct snapshot *snapshot)
{
	uint64_t wall_ns = snapshot__metadata_u64(snapshot, "wall_ns", 0);

	if (wall_ns && wall_ns <= INT64_MAX)
		return wall_ns;
	return parse_wall_time(get_fact_metadata(snapshot, "wall_time"));
}

static int not_ours(struct found *found, const char *path, const char *missing)
{
	found->problem = INDEX_FOREIGN;
	return reason_set(&found->why, -EBADMSG, "%s: it does not say %s", path, missing);
}

/*
 * Ids are of texts, each with its NUL: no text contains one, so that different texts make different bytes. They stay in
 * found->text until the caller drops them.
 */
static int make_snapshot_ids(struct found *found, const struct snapshot *snapshot)
{
	static const char *const process[] = {
		"host", "boot_id", "pid", "start_time_ticks", "exec_count",
	};
	size_t first = found->text_nr, at;
	char time[24];
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(process) && !err; i++)
		err = found_copy_any_text(found, get_fact_metadata(snapshot, process[i]), &at);
	if (err)
		return err;
	found->process_id = hash_id_make(found->text + first, found->text_nr - first).id;
	snprintf(time, sizeof(time), "%lld", (long long)found->time_ns);
	err = found_copy_any_text(found, time, &at) ?:
	      found_copy_any_text(found, get_fact_metadata(snapshot, "filters"), &at);
	if (!err)
		found->snapshot = hash_id_make(found->text + first, found->text_nr - first);
	return err;
}

static int find_ids(struct found *found, const struct snapshot *snapshot, const char *path)
{
	uint64_t pid = snapshot__metadata_u64(snapshot, "pid", 0);
	size_t text_nr = found->text_nr;
	int err;

	found->time_ns = snapshot_wall_ns(snapshot);
	if (!*get_fact_metadata(snapshot, "host"))
		return not_ours(found, path, "of which host it is");
	if (!pid || pid > INT64_MAX)
		return not_ours(found, path, "of which process it is");
	if (found->time_ns < 0)
		return not_ours(found, path, "when it was taken");
	found->pid = pid;
	found->monotonic_ns = metadata_number(snapshot, "monotonic_ns");
	found->recording_ns = metadata_number(snapshot, "recording_start_monotonic_ns");
	found->interval_ns = metadata_number(snapshot, "interval_ns");
	found->start_ticks = metadata_number(snapshot, "start_time_ticks");
	found->exec_count = metadata_number(snapshot, "exec_count");
	err = make_snapshot_ids(found, snapshot);
	found->text_nr = text_nr;
	return err;
}

/* ---- other facts ------------------------------------------------------------------------------ */

/* Returns the build-id of the program: the object whose path is the executable's. */
static const char *exe_build_id(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	const char *exe = get_fact_metadata(snapshot, "exe"), *said = get_fact_metadata(snapshot, "exe_build_id");

	for (uint32_t i = 1; !*said && *exe && i < t->object_nr; i++)
		if (!strcmp(snapshot__string(snapshot, t->object[i].path), exe))
			said = snapshot__string(snapshot, t->object[i].build_id);
	return said;
}

static int found_add_texts(struct found *found, const struct snapshot *snapshot)
{
	const char *const text[FLEET_TEXT_NR] = {
		[FLEET_TEXT_host] = get_fact_metadata(snapshot, "host"),
		[FLEET_TEXT_comm] = get_fact_metadata(snapshot, "comm"),
		[FLEET_TEXT_exe] = get_fact_metadata(snapshot, "exe"),
		[FLEET_TEXT_exe_build_id] = exe_build_id(snapshot),
		[FLEET_TEXT_cgroup] = get_fact_metadata(snapshot, "cgroup"),
		[FLEET_TEXT_container] = get_fact_metadata(snapshot, "container_id"),
		[FLEET_TEXT_boot_id] = get_fact_metadata(snapshot, "boot_id"),
		[FLEET_TEXT_kernel] = get_fact_metadata(snapshot, "kernel"),
		[FLEET_TEXT_version] = get_fact_metadata(snapshot, "allocsnap_version"),
		[FLEET_TEXT_trigger] = get_fact_metadata(snapshot, "trigger"),
		[FLEET_TEXT_ending] = get_fact_metadata(snapshot, "end"),
	};
	int err = 0;

	for (int i = 0; i < FLEET_TEXT_NR && !err; i++)
		err = found_copy_text(found, text[i], &found->fact[i]);
	return err;
}

static int found_add_labels(struct found *found, const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	int err = 0;

	for (uint32_t i = 0; i < t->metadata_nr && !err; i++) {
		const char *key = snapshot__string(snapshot, t->metadata[i].key);
		struct found_pair pair = {};

		if (strncmp(key, LABEL_PREFIX, strlen(LABEL_PREFIX)))
			continue;
		err = found_copy_text(found, key + strlen(LABEL_PREFIX), &pair.name) ?:
		      found_copy_text(found, snapshot__string(snapshot, t->metadata[i].value), &pair.text) ?:
		      array_push(found, label, pair);
	}
	return err;
}

/* Adds the losses that are not zero. */
static int found_add_losses(struct found *found, const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	int err = 0;

	for (uint32_t i = 0; i < t->counter_nr && !err; i++) {
		struct found_pair pair = { .value = t->counter[i].value };

		if (t->counter[i].kind != SNAP_LOST || !pair.value)
			continue;
		err = found_copy_text(found, snapshot__string(snapshot, t->counter[i].name), &pair.name) ?:
		      array_push(found, loss, pair);
	}
	return err;
}

static int check_size(struct found *found)
{
	return found->text_nr <= FOUND_FACTS_MAX ? 0 :
	       reason_set(&found->why, -EBADMSG, "labels and losses of more than %d bytes", FOUND_FACTS_MAX);
}

/*
 * The steps of index_read(). They return 0, -ENOMEM, or -EBADMSG with a line in found->why. If found->problem is set,
 * the line has the path. Otherwise it has no path.
 */
static int found_read_facts(struct found *found, const struct snapshot *snapshot, const char *path)
{
	uint64_t limit = snapshot__metadata_u64(snapshot, "traceback_limit", 0);

	found->traceback_limit = limit <= UINT32_MAX ? limit : 0;
	found->is_part = snapshot__metadata(snapshot, "filters");
	found->sample_bytes_most = metadata_number(snapshot, "sample_bytes_most");
	return find_ids(found, snapshot, path) ?: found_add_texts(found, snapshot) ?:
	       found_add_labels(found, snapshot) ?: found_add_losses(found, snapshot) ?: check_size(found);
}

/* ---- a snapshot's rows in the catalogue's numbers, and what the catalogue does not have yet ---- */

#define BYTES_KEPT (4 << 20) /* found_clear() frees everything if it is more than this */

size_t found_memory_bytes(const struct found *found)
{
	return found->text_alloc + found->rows.alloc * sizeof(*found->rows.row) +
	       found->rows.spread_alloc * sizeof(*found->rows.spread_room) +
	       found->label_alloc * sizeof(*found->label) + found->loss_alloc * sizeof(*found->loss) +
	       found->origin_alloc * sizeof(*found->origin) + found->domain_alloc * sizeof(*found->domain) +
	       found->traceback_alloc * sizeof(*found->traceback) +
	       found->traceback_frame_alloc * sizeof(*found->traceback_frame) +
	       found->frame_alloc * sizeof(*found->frame);
}

size_t found_catalogue_bytes(const struct found *found)
{
	return found->text_nr + found->traceback_frame_nr * sizeof(uint64_t) + (found->blob ? found->blob_len : 0);
}

void found_clear(struct found *found)
{
	if (found_memory_bytes(found) > BYTES_KEPT)
		found_release(found);
	free(found->blob);
	found->blob = NULL;
	found->is_gone = found->is_part = found->is_sampled = found->is_open = found->is_moved = false;
	found->moved_from = 0;
	found->problem = 0;
	found->rows.nr = 0;
	found->label_nr = found->loss_nr = found->origin_nr = found->domain_nr = 0;
	found->traceback_nr = found->traceback_frame_nr = found->frame_nr = found->text_nr = 0;
}

void found_release(struct found *found)
{
	free(found->blob);
	fleet_rows_release(&found->rows);
	free(found->label);
	free(found->loss);
	free(found->origin);
	free(found->domain);
	free(found->traceback);
	free(found->traceback_frame);
	free(found->frame);
	free(found->text);
	*found = (struct found){};
}

/* ---- domains ------------------------------------------------------------------------------------------ */

/* Our own domains have fixed numbers. A program's own domains are known by their names. */
static void look_up_domain(struct found_domain *domain, const struct library *library, const char *name)
{
	char number[DOMAIN_NAME_MAX];
	const struct known_row *known;

	if (domain->wanted < DOMAIN_OWN) {
		domain->number = domain->wanted;
		domain->is_news = *name && !known_find(&library->domain_numbers, domain->wanted + 1, 0);
		return;
	}
	snprintf(number, sizeof(number), "#%u", domain->wanted);
	known = known_find(&library->domains, domain_name_id(*name ? name : number).id, 0);
	domain->number = known ? known->number : DOMAIN_NONE;
	domain->is_news = !known;
}

static int add_domains(struct found *found, const struct index_reading *reading)
{
	const struct digest *digest = &reading->digest;
	int err = 0;

	for (size_t i = 0; i < digest->domain_nr && !err; i++) {
		const char *name = snapshot__domain_name(digest->snapshot, digest->domain[i]) ?: "";
		struct found_domain domain = { .wanted = digest->domain[i] };

		look_up_domain(&domain, reading->library, name);
		err = found_copy_text(found, name, &domain.name) ?: array_push(found, domain, domain);
	}
	return err;
}

/* ---- what is new to the catalogue ------------------------------------------------------------------------- */

static int make_frame(struct found *found, struct index_reading *reading, uint32_t at)
{
	const struct snapshot *s = reading->digest.snapshot;
	const struct snapshot_tables *t = reading->digest.tables;
	const struct snap_frame *row = &t->frame[at];
	struct found_frame frame = {
		.hash = digest_frame_id(&reading->digest, at),
		.offset = row->object ? row->offset : 0,
		.lineno = row->lineno,
		.first_line = digest_first_line(t, at),
		.flags = row->flags,
	};

	return found_copy_text(found, snapshot__string(s, row->filename), &frame.filename) ?:
	       found_copy_text(found, snapshot__string(s, row->function), &frame.function) ?:
	       found_copy_text(found, snapshot__string(s, t->object[row->object].path), &frame.object) ?:
	       found_copy_text(found, snapshot__string(s, t->object[row->object].build_id), &frame.build_id) ?:
	       array_push(found, frame, frame);
}

static int found_add_frame(struct found *found, struct index_reading *reading, uint32_t at)
{
	uint32_t *memo = &reading->frame_at[at];
	int err = 0;

	if (!*memo) {
		err = make_frame(found, reading, at);
		*memo = found->frame_nr;
	}
	return err ?: array_push(found, traceback_frame, *memo - 1);
}

static int found_add_traceback(struct found *found, struct index_reading *reading, const struct digest_row *row)
{
	const struct snapshot_tables *t = reading->digest.tables;
	const struct snap_traceback *from = &t->traceback[row->traceback];
	struct found_traceback traceback = {
		.hash = row->id,
		.first = found->traceback_frame_nr,
		.nframe = from->nframe,
	};
	int err = array_push(found, traceback, traceback);

	for (uint32_t i = 0; i < from->nframe && !err; i++)
		err = found_add_frame(found, reading, t->traceback_frame[from->first + i]);
	return err;
}

static int found_add_origin(struct found *found, struct index_reading *reading, size_t at)
{
	const struct digest_row *row = &reading->digest.row[at];
	struct found_origin origin = {
		.row = at, .traceback = found->traceback_nr, .domain = row->domain,
	};

	return array_push(found, origin, origin) ?: found_add_traceback(found, reading, row);
}

/* ---- rows ------------------------------------------------------------------------------------------------ */

/* Marks a row with a new origin. The library is locked for the look-up only; new origins are collected after it. */
#define ORIGIN_NONE UINT32_MAX

#define AHEAD 16

static void prefetch_origin(const struct found *found, const struct index_reading *reading, size_t at)
{
	const struct digest_row *row = &reading->digest.row[at];

	if (at < reading->digest.row_nr)
		known_prefetch(&reading->library->origins, row->id.id, found->domain[row->domain].number);
}

static int look_up_origins(struct found *found, const struct index_reading *reading)
{
	const struct library *library = reading->library;
	const struct digest *digest = &reading->digest;

	for (size_t i = 0; i < AHEAD; i++)
		prefetch_origin(found, reading, i);
	for (size_t i = 0; i < digest->row_nr; i++) {
		const struct digest_row *row = &digest->row[i];
		const struct known_row *known = known_find(&library->origins, row->id.id,
							   found->domain[row->domain].number);

		prefetch_origin(found, reading, i + AHEAD);
		if (known && known->hash.verify != row->id.verify)
			return reason_set(&found->why, -EBADMSG, "a traceback has the id of another one");
		found->rows.row[i].origin = known ? known->number : ORIGIN_NONE;
	}
	return 0;
}

static int look_up_rows(struct found *found, const struct index_reading *reading)
{
	int err;

	pthread_rwlock_rdlock(&reading->library->lock);
	err = add_domains(found, reading) ?: look_up_origins(found, reading);
	pthread_rwlock_unlock(&reading->library->lock);
	return err;
}

static int copy_costs(struct found *found, const struct digest *digest)
{
	int err = fleet_rows_reserve(&found->rows, digest->row_nr, digest->is_sampled);

	if (err)
		return err;
	found->rows.nr = digest->row_nr;
	for (size_t i = 0; i < digest->row_nr; i++)
		found->rows.row[i].cost = digest->row[i].cost;
	for (size_t i = 0; digest->is_sampled && i < digest->row_nr; i++)
		found->rows.spread[i] = digest->sums[i].all;
	return 0;
}

static int found_add_news(struct found *found, struct index_reading *reading)
{
	size_t frames = reading->digest.tables->frame_nr;
	int err = 0;

	for (size_t i = 0; i < found->rows.nr && !err; i++) {
		if (found->rows.row[i].origin != ORIGIN_NONE)
			continue;
		if (!found->origin_nr) {
			err = array_reserve(&reading->frame_at, &reading->frame_at_alloc, frames);
			if (!err)
				memset(reading->frame_at, 0, frames * sizeof(*reading->frame_at));
		}
		err = err ?: found_add_origin(found, reading, i);
	}
	return err;
}

static int found_look_up_rows(struct found *found, struct index_reading *reading)
{
	int err = digest_add_up(&reading->digest, reading->digest.snapshot, &found->why) ?:
		  copy_costs(found, &reading->digest);

	if (err)
		return err;
	found->is_sampled = reading->digest.is_sampled;
	found->is_open = found->is_sampled && snapshot_samples_pools(reading->digest.snapshot);
	found->total = reading->digest.total;
	err = look_up_rows(found, reading) ?: found_add_news(found, reading);
	return err || found->origin_nr ? err : found_encode_rows(found, &reading->room);
}

/* ---- sorting rows by their origins ------------------------------------------------------------------------- */

#define DIGIT_BITS 11
#define DIGITS (1 << DIGIT_BITS)

struct order {
	uint32_t origin, row;
};

/* Sorts by one digit; equal digits keep their order. */
static void sort_digit(struct order *to, const struct order *from, size_t nr, unsigned int shift)
{
	size_t first[DIGITS + 1] = {};

	for (size_t i = 0; i < nr; i++)
		first[(from[i].origin >> shift & (DIGITS - 1)) + 1]++;
	for (size_t i = 1; i < DIGITS; i++)
		first[i] += first[i - 1];
	for (size_t i = 0; i < nr; i++)
		to[first[from[i].origin >> shift & (DIGITS - 1)]++] = from[i];
}

/* The result is in one of the two arrays. */
static struct order *sort_by_origin(struct order *order, struct order *other, size_t nr)
{
	uint32_t all = 0;

	for (size_t i = 0; i < nr; i++)
		all |= order[i].origin;
	for (unsigned int shift = 0; shift < 32 && all >> shift; shift += DIGIT_BITS) {
		struct order *sorted = other;

		sort_digit(sorted, order, nr, shift);
		other = order;
		order = sorted;
	}
	return order;
}

static void add_moments(struct moments *to, const struct moments *what)
{
	to->beyond += what->beyond;
	to->variance += what->variance;
	to->covariance += what->covariance;
}

/* The snapshot keeps tracebacks apart that differ in how they ended. Here they are one: their costs are added. */
static void add_equal(struct fleet_rows *to, size_t at, const struct fleet_rows *from, size_t row)
{
	to->row[at].cost.size += from->row[row].cost.size;
	to->row[at].cost.count += from->row[row].cost.count;
	if (!from->spread)
		return;
	add_moments(&to->spread[at].size, &from->spread[row].size);
	add_moments(&to->spread[at].count, &from->spread[row].count);
}

static void merge_equal_origins(struct fleet_rows *to, const struct fleet_rows *from, const struct order *order)
{
	for (size_t i = 0; i < from->nr; i++) {
		uint32_t row = order[i].row;

		if (i && order[i].origin == order[i - 1].origin) {
			add_equal(to, to->nr - 1, from, row);
			continue;
		}
		to->row[to->nr] = from->row[row];
		if (from->spread)
			to->spread[to->nr] = from->spread[row];
		to->nr++;
	}
}

int rows_by_origin(struct fleet_rows *to, const struct fleet_rows *from)
{
	struct order *order = malloc((from->nr ?: 1) * 2 * sizeof(*order));
	int err = order ? fleet_rows_reserve(to, from->nr, from->spread) : -ENOMEM;

	to->nr = 0;
	for (size_t i = 0; !err && i < from->nr; i++)
		order[i] = (struct order){ from->row[i].origin, i };
	if (!err)
		merge_equal_origins(to, from, sort_by_origin(order, order + from->nr, from->nr));
	free(order);
	return err;
}

int found_encode_rows(struct found *found, struct fleet_rows *room)
{
	int err = rows_by_origin(room, &found->rows);

	found->row_nr = room->nr;
	return err ?: fleet_rows_encode(room, &found->blob, &found->blob_len);
}

/* Reads one file, in any thread: opens and checks it, adds up its rows and looks them up. */

/* Whether a file that snapshot__open() rejects begins as a snapshot does. */
static bool begins_as_snapshot(const char *path)
{
	char magic[sizeof(SNAP_MAGIC) - 1] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool is_one;

	if (fd < 0)
		return false;
	is_one = pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
		 !memcmp(magic, SNAP_MAGIC, sizeof(magic));
	close(fd);
	return is_one;
}

/* found->why has the line of snapshot__open(). */
static void not_opened(struct found *found, const char *path, int err)
{
	found->is_gone = err == ENOENT || err == ENOTDIR || err == EISDIR;
	if (err == EBADMSG || err == ENOTSUP)
		found->problem = begins_as_snapshot(path) ? INDEX_DAMAGED : INDEX_FOREIGN;
	else if (!found->is_gone)
		found->problem = INDEX_UNREADABLE;
}

static int add_up_snapshot(struct index_reading *reading, struct found *found)
{
	const struct snapshot *snapshot = reading->digest.snapshot;
	int err = found_look_up_rows(found, reading);

	found->gap_blocks = (struct cost){};
	if (err || !snapshot__tables(snapshot)->gap_nr)
		return err;
	return snapshot_gap_blocks(snapshot, &(struct engine_options){}, &found->gap_blocks, &found->why);
}

static int read_snapshot(struct index_reading *reading, const char *path, struct found *found)
{
	struct reason line;
	int err = found_read_facts(found, reading->digest.snapshot, path) ?: add_up_snapshot(reading, found);

	if (!err || err == -ENOMEM || found->problem)
		return err;
	line = found->why;
	found->problem = INDEX_DAMAGED;
	return reason_set(&found->why, err, "%s: %s", path, line.text);
}

int index_read(struct index_reading *reading, const char *path, struct found *found)
{
	struct snapshot *snapshot = snapshot__open(path, &found->why);
	int err;

	if (!snapshot) {
		not_opened(found, path, errno);
		return 0;
	}
	reading->digest.snapshot = snapshot;
	err = read_snapshot(reading, path, found);
	snapshot__close(snapshot);
	reading->digest.snapshot = NULL;
	return err == -ENOMEM ? err : 0;
}

void index_reading_release(struct index_reading *reading)
{
	digest_release(&reading->digest);
	fleet_rows_release(&reading->room);
	free(reading->frame_at);
}
