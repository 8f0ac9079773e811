// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The names of a catalogue as rows: frames, tracebacks with their first own frames, and domains. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine/trace_source.h"
#include "fleet/catalogue_private.h"
#include "fleet/index_private.h"
#include "fleet/row_export.h"
#include "fleet/row_top.h"
#include "fleet/dictionary.h"
#include "snapshot.h"

#define NAMES_A_BATCH 100000
#define NAME_BYTES_A_BATCH (16 << 20) /* a file may have names of 64 KiB */

/* Where a frame is, and what it says of that (dictionary.h). */
struct named_place {
	int64_t place, outer_name;
	uint64_t name; /* a hash of function, file and line */
	bool is_inlined;
	enum name_detail detail;
};

/* A frame or traceback of the catalogue, and what the builder calls it. */
struct named_row {
	struct hash_id hash;
	uint32_t id;
	uint32_t first, nr; /* of a traceback: its frames in gathered_frame */
	uint64_t site;	    /* of a frame: equal for frames with the same names */
	struct named_place place; /* of a frame */
};

struct row_naming {
	struct catalogue *catalogue;
	const struct row_known *known;
	bool has_sums;
	struct row_sink *sink;
	struct snapshot_builder *builder;
	struct known frames; /* by id: their numbers in `frame` */
	struct named_row *frame, *traceback;
	size_t frame_nr, frame_alloc, traceback_nr, traceback_alloc;
	uint32_t *gathered; /* the frames of all tracebacks, by their numbers in `frame` */
	size_t gathered_nr, gathered_alloc;
	uint32_t *id; /* the frames of one traceback, by the builder's ids */
	size_t id_alloc;
	struct known chains; /* those that were sent */
	struct row_batch frames_batch, traceback_frames, tracebacks, places, domains;
};

void row_known_release(struct row_known *known)
{
	known_release(&known->tracebacks);
	known_release(&known->frames);
	known_release(&known->domains);
}

static int flush_batch(struct row_sink *sink, struct row_batch *batch, struct reason *why)
{
	int err = batch->row_nr ? sink->insert(sink, batch, why) : 0;

	row_batch_clear(batch);
	return err;
}

/* A traceback that is known has all its frames. */
static int flush_names(struct row_naming *n, struct reason *why)
{
	return flush_batch(n->sink, &n->frames_batch, why) ?: flush_batch(n->sink, &n->traceback_frames, why) ?:
	       flush_batch(n->sink, &n->places, why) ?: flush_batch(n->sink, &n->tracebacks, why);
}

static int flush_names_if_many(struct row_naming *n, struct reason *why)
{
	bool are_many = n->frames_batch.row_nr + n->traceback_frames.row_nr >= NAMES_A_BATCH ||
			row_batch_bytes(&n->frames_batch) >= NAME_BYTES_A_BATCH;

	return are_many ? flush_names(n, why) : 0;
}

/* Returns 1 if the sink has the name, 0 if not, or -EBADMSG if it has another name with the id. */
static int is_name_known(const struct known *known, const struct hash_id *hash, const char *what, struct reason *why)
{
	const struct known_row *row = known_find(known, hash->id, 0);

	if (row && row->hash.verify != hash->verify)
		return reason_set(why, -EBADMSG, "there is another %s with the id %lld", what, (long long)hash->id);
	return row != NULL;
}

/* ---- frames --------------------------------------------------------------------------------------------------- */

struct raw_frame {
	const char *filename, *function, *object, *build_id;
	uint32_t lineno, first_line, flags;
	uint64_t offset;
};

static uint64_t hash_site_text(uint64_t hash, const char *text)
{
	const struct {
		uint64_t hash;
		struct hash_id text;
	} both = { hash, hash_id_make(text, strlen(text)) };

	return hash_id_make(&both, sizeof(both)).verify;
}

/* As sites are equal (keys.sql). Native tracebacks differ if their functions do. */
static uint64_t frame_site_hash(const struct raw_frame *frame)
{
	uint64_t hash = hash_site_text(frame->lineno, frame->function);

	if (frame->lineno)
		return hash_site_text(hash, frame->filename);
	hash = hash_site_text(hash, frame->object);
	return *frame->function ? hash : hash_site_text(hash + frame->offset, frame->build_id);
}

static struct named_place place_of_frame(const struct raw_frame *frame)
{
	uint64_t name = hash_site_text(frame->lineno, frame->function);

	return (struct named_place){
		.place = nameable_place(frame->build_id, frame->offset, frame->flags),
		.outer_name = hash_id_make(frame->function, strlen(frame->function)).id,
		.name = frame->lineno ? hash_site_text(name, frame->filename) : name,
		.is_inlined = frame->flags & SNAP_FRAME_INLINE,
		.detail = frame->lineno ? DETAIL_LINE : *frame->function ? DETAIL_FUNCTION : DETAIL_NONE,
	};
}

static int send_frame(struct row_naming *n, const struct hash_id *hash, const struct raw_frame *frame)
{
	const union row_value row[] = {
		{ .number = hash->id }, { .number = hash->verify }, { .text = frame->function }, { .text = frame->filename },
		{ .number = frame->lineno }, { .number = frame->first_line }, { .text = frame->object },
		{ .text = frame->build_id }, { .number = frame->offset }, { .number = frame->flags },
	};

	return row_batch_add(&n->frames_batch, row);
}

static int build_raw_frame(struct row_naming *n, const struct raw_frame *raw, uint32_t *ret_id)
{
	struct snapshot_builder *b = n->builder;
	struct snap_frame frame = { .lineno = raw->lineno, .offset = raw->offset, .flags = raw->flags };
	struct snap_object object = {};

	return snapshot_builder__string(b, raw->filename, &frame.filename) ?:
	       snapshot_builder__string(b, raw->function, &frame.function) ?:
	       snapshot_builder__string(b, raw->object, &object.path) ?:
	       snapshot_builder__string(b, raw->build_id, &object.build_id) ?:
	       snapshot_builder__object(b, &object, &frame.object) ?:
	       snapshot_builder__frame_declared(b, &frame, raw->first_line, ret_id);
}

static int name_catalogue_frame(struct row_naming *n, sqlite3_stmt *row, struct reason *why)
{
	struct known_row known = {
		.hash = { sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1) }, .number = n->frame_nr,
	};
	const struct raw_frame raw = {
		.filename = sql_text(row, 2), .lineno = sqlite3_column_int64(row, 3), .function = sql_text(row, 4),
		.first_line = sqlite3_column_int64(row, 5), .object = sql_text(row, 6), .build_id = sql_text(row, 7),
		.offset = sqlite3_column_int64(row, 8), .flags = sqlite3_column_int64(row, 9),
	};
	struct named_row named = { .hash = known.hash, .site = frame_site_hash(&raw), .place = place_of_frame(&raw) };
	int is_known, err;

	if (known.hash.id <= 0)
		return -EINVAL;
	err = build_raw_frame(n, &raw, &named.id) ?: known_add(&n->frames, &known) ?: array_push(n, frame, named);
	if (err)
		return err;
	is_known = is_name_known(&n->known->frames, &named.hash, "frame", why);
	if (is_known)
		return is_known < 0 ? is_known : 0;
	return send_frame(n, &named.hash, &raw) ?: flush_names_if_many(n, why);
}

/* ---- tracebacks ----------------------------------------------------------------------------------------------- */

static int gather_frames(struct row_naming *n, sqlite3_stmt *row, struct named_row *named)
{
	const char *bytes = sqlite3_column_blob(row, 2);
	size_t len = sqlite3_column_bytes(row, 2), nr = len / sizeof(int64_t);
	int err = array_reserve(&n->id, &n->id_alloc, nr);

	if (named->hash.id <= 0 || len % sizeof(int64_t) || n->gathered_nr + nr > UINT32_MAX)
		return -EINVAL;
	named->first = n->gathered_nr;
	named->nr = nr;
	for (size_t i = 0; i < nr && !err; i++) {
		const struct known_row *frame;
		int64_t id;

		memcpy(&id, bytes + i * sizeof(id), sizeof(id));
		frame = known_find(&n->frames, id, 0);
		if (!frame)
			return -EINVAL;
		n->id[i] = n->frame[frame->number].id;
		err = array_push(n, gathered, frame->number);
	}
	return err;
}

static int name_traceback(struct row_naming *n, sqlite3_stmt *row, struct reason *why)
{
	struct named_row named = { .hash = { sqlite3_column_int64(row, 0), sqlite3_column_int64(row, 1) } };
	int is_known = is_name_known(&n->known->tracebacks, &named.hash, "traceback", why), err;

	if (is_known)
		return is_known < 0 ? is_known : 0;
	err = gather_frames(n, row, &named) ?: snapshot_builder__traceback(n->builder, n->id, named.nr, 0, 0, &named.id);
	return err ?: array_push(n, traceback, named);
}

/* The number of the first own frame. A traceback without frames has frame 0. */
static uint32_t own_position(struct source *source, const struct named_row *traceback)
{
	return traceback->nr ? traceback->nr - source_frames(source, traceback->id).nframe : 0;
}

static const struct named_row *frame_of(const struct row_naming *n, const struct named_row *traceback, uint32_t at)
{
	return &n->frame[n->gathered[traceback->first + at]];
}

/* The number of frames, from `at` on, that are one place: as dictionary.c has them. */
static uint32_t count_chain(const struct row_naming *n, const struct named_row *traceback, uint32_t at)
{
	uint32_t end = at + 1;

	while (end < traceback->nr && frame_of(n, traceback, end - 1)->place.is_inlined &&
	       frame_of(n, traceback, end - 1)->place.place == frame_of(n, traceback, end)->place.place)
		end++;
	return end - at;
}

static int send_chain(struct row_naming *n, const struct named_row *traceback, uint32_t at, uint32_t len)
{
	const struct named_place *outer = &frame_of(n, traceback, at + len - 1)->place;
	uint64_t both[2] = {}, names[2] = {};
	struct known_row chain = {};
	int err;

	if (!outer->place || outer->is_inlined || len > NAME_CHAIN_MAX)
		return 0;
	for (uint32_t i = at; i < at + len; i++) {
		both[1] = frame_of(n, traceback, i)->hash.id;
		names[1] = frame_of(n, traceback, i)->place.name;
		both[0] = hash_id_make(both, sizeof(both)).id;
		names[0] = hash_id_make(names, sizeof(names)).id;
	}
	chain.hash.id = both[0];
	if (known_find(&n->chains, chain.hash.id, 0))
		return 0;
	err = known_add(&n->chains, &chain);
	for (uint32_t i = 0; i < len && !err; i++)
		err = row_batch_add(&n->places, (union row_value[]){
			{ .number = outer->place }, { .number = chain.hash.id }, { .number = traceback->hash.id },
			{ .number = i }, { .number = frame_of(n, traceback, at + i)->hash.id },
			{ .number = len > 1 ? DETAIL_LINE : outer->detail }, { .number = outer->outer_name },
			{ .number = names[0] },
		});
	return err;
}

static int send_chains(struct row_naming *n, const struct named_row *traceback)
{
	int err = 0;

	for (uint32_t at = 0, len; at < traceback->nr && !err; at += len) {
		len = count_chain(n, traceback, at);
		err = send_chain(n, traceback, at, len);
	}
	return err;
}

int64_t row_own_frame_rules(void)
{
	return hash_id_make(ALLOCSNAP_VERSION, strlen(ALLOCSNAP_VERSION)).id;
}

static int send_traceback(struct row_naming *n, struct source *source, const struct named_row *traceback)
{
	uint32_t own = own_position(source, traceback);
	int64_t own_id = 0, stack = 0;
	int err = 0;

	for (uint32_t i = 0; i < traceback->nr && !err; i++) {
		const struct named_row *frame = frame_of(n, traceback, i);
		const union row_value row[] = {
			{ .number = traceback->hash.id }, { .number = i }, { .number = frame->hash.id },
		};
		const uint64_t both[] = { stack, frame->site };

		if (i == own)
			own_id = frame->hash.id;
		if (i >= own)
			stack = hash_id_make(both, sizeof(both)).id;
		err = row_batch_add(&n->traceback_frames, row);
	}
	return err ?: send_chains(n, traceback) ?: row_batch_add(&n->tracebacks, (union row_value[]){
		{ .number = traceback->hash.id }, { .number = traceback->hash.verify }, { .number = own },
		{ .number = own_id }, { .number = stack }, { .number = row_own_frame_rules() },
	});
}

static int send_tracebacks(struct row_naming *n, struct reason *why)
{
	static const struct engine_options options;
	struct snapshot *snapshot = NULL;
	struct source source = {};
	int err = snapshot_builder__finish(n->builder, &snapshot);

	n->builder = NULL;
	err = err ?: source_init(&source, snapshot, &options);
	for (size_t i = 0; i < n->traceback_nr && !err; i++)
		err = send_traceback(n, &source, &n->traceback[i]) ?: flush_names_if_many(n, why);
	source_release(&source);
	snapshot__close(snapshot);
	return err ?: flush_names(n, why);
}

/* ---- sums ----------------------------------------------------------------------------------------------------- */

/* A traceback of one frame. */
static int send_name_of_sums(struct row_naming *n, struct reason *why)
{
	static const struct raw_frame raw = { .filename = "", .function = ROW_OTHER_NAME, .object = ROW_OTHER_NAME,
					      .build_id = "" };
	const struct hash_id frame = row_other_frame(), traceback = row_other_traceback();
	int is_known = is_name_known(&n->known->tracebacks, &traceback, "traceback", why);

	if (is_known)
		return is_known < 0 ? is_known : 0;
	return send_frame(n, &frame, &raw) ?: row_batch_add(&n->traceback_frames, (union row_value[]){
		{ .number = traceback.id }, { .number = 0 }, { .number = frame.id },
	}) ?: row_batch_add(&n->tracebacks, (union row_value[]){
		{ .number = traceback.id }, { .number = traceback.verify }, { .number = 0 }, { .number = frame.id },
		{ .number = traceback.id }, { .number = row_own_frame_rules() },
	}) ?: flush_names(n, why);
}

/* ---- domains -------------------------------------------------------------------------------------------------- */

int64_t row_domain_id(int64_t number, const char *name)
{
	return number < DOMAIN_OWN ? number : domain_name_id(name).id;
}

static int name_domain(struct row_naming *n, sqlite3_stmt *row, struct reason *why)
{
	const char *name = sql_text(row, 1);
	int64_t number = sqlite3_column_int64(row, 0), id = row_domain_id(number, name);

	(void)why;
	/* An id of 0 is none to known_find(). */
	if (known_find(&n->known->domains, id + 1, 0))
		return 0;
	return row_batch_add(&n->domains, (union row_value[]){ { .number = id }, { .text = name }, { .number = number } });
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static int name_each(struct row_naming *n, const char *sql,
		     int (*name)(struct row_naming *n, sqlite3_stmt *row, struct reason *why), struct reason *why)
{
	sqlite3_stmt *row;
	int more, err = sql_prepare(n->catalogue, sql, &row, why);

	if (err)
		return err;
	while ((more = sql_step(n->catalogue, row, why)) > 0 && !err)
		err = name(n, row, why);
	sqlite3_finalize(row);
	if (err == -EINVAL)
		return catalogue_report_damage(n->catalogue, why, "a frame, traceback or domain");
	return more < 0 ? more : err;
}

static int send_all_names(struct row_naming *n, struct reason *why)
{
	static const struct raw_frame unknown = { "", "", "", "" };
	static const struct hash_id none = {};
	int err = send_frame(n, &none, &unknown);

	n->builder = snapshot_builder__new(0);
	if (err || !n->builder)
		return -ENOMEM;
	err = name_each(n, "SELECT frame_id, verify, filename, lineno, function, first_line, object, build_id, offset, flags"
			" FROM frame", name_catalogue_frame, why) ?:
	      name_each(n, "SELECT traceback_id, verify, frames FROM traceback", name_traceback, why) ?:
	      send_tracebacks(n, why) ?:
	      name_each(n, "SELECT DISTINCT o.domain, coalesce(name, '#' || o.domain) FROM origin AS o"
			" LEFT JOIN domain AS d ON d.number = o.domain", name_domain, why);
	if (!err && n->has_sums)
		err = send_name_of_sums(n, why);
	return err ?: flush_batch(n->sink, &n->domains, why);
}

int row_export_names(struct catalogue *catalogue, const struct row_known *known, bool has_sums, struct row_sink *sink,
		     struct reason *why)
{
	static const struct row_known none;
	struct row_naming n = { .catalogue = catalogue, .known = known ?: &none, .has_sums = has_sums, .sink = sink };
	int err;

	reason_set(why, 0, "out of memory");
	row_batch_init(&n.frames_batch, ROW_FRAME);
	row_batch_init(&n.traceback_frames, ROW_TRACEBACK_FRAME);
	row_batch_init(&n.tracebacks, ROW_TRACEBACK);
	row_batch_init(&n.places, ROW_PLACE);
	row_batch_init(&n.domains, ROW_DOMAIN);
	err = send_all_names(&n, why);
	snapshot_builder__free(n.builder);
	known_release(&n.frames);
	known_release(&n.chains);
	free(n.frame);
	free(n.traceback);
	free(n.gathered);
	free(n.id);
	row_batch_release(&n.frames_batch);
	row_batch_release(&n.traceback_frames);
	row_batch_release(&n.tracebacks);
	row_batch_release(&n.places);
	row_batch_release(&n.domains);
	return err;
}
