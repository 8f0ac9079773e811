// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/dictionary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "base/reason.h"
#include "fleet/catalogue_private.h"
#include "fleet/id_set.h"
#include "snapshot.h"

/* ---- names that are lent ------------------------------------------------------------------- */

/*
 * Names that some snapshots of a catalogue have for a place and others have not: a place is an offset in an object with
 * a build-id. All tracebacks get the best names of a place, so that snapshots with and without names are comparable.
 *
 * Any host can send names for any build-id. So nothing is lent for a place of which snapshots say different things:
 * another function, or other lines or inlined calls. Its frames keep what they have, and the place is counted.
 *
 *	for each frame:     shared_names_add_frame()
 *	if names.is_needed, for each traceback: shared_names_learn()
 *	for each traceback: shared_names_apply()
 *
 * symbolize/share_names.h does the same for two snapshots.
 */
struct shared_names {
	struct named_frame *frame; /* in the order of shared_names_add_frame() */
	size_t frame_nr, frame_alloc;
	struct known places; /* place → its number in chain[] */
	struct name_chain *chain;
	size_t chain_nr, chain_alloc;
	uint32_t *joined; /* the frames of all chains, by their numbers */
	size_t joined_nr, joined_alloc;
	bool is_needed; /* a place has frames with more and with fewer names */
	uint64_t refused_nr; /* places whose frames lack names that were not lent */
};

/* A frame as the catalogue has it. */
struct nameable_frame {
	const char *build_id;
	uint32_t filename, function; /* equal numbers are equal texts; function 0: none */
	uint32_t lineno, first_line, flags;
	uint64_t offset;
};

struct named_frame {
	int64_t place; /* a hash; 0: not known */
	uint32_t id;
	uint32_t filename, function, lineno, first_line;
	uint8_t detail;
	bool is_inlined;
};

/* The names of a place: inlined calls, then the frame that they were inlined into. */
struct name_chain {
	size_t first; /* in joined[] */
	uint32_t nr;  /* 0: not known yet */
	uint8_t detail;
	bool is_disputed, is_refused; /* snapshots differ; a frame lacks its names for that reason */
};

int64_t nameable_place(const char *build_id, uint64_t offset, uint32_t flags)
{
	uint64_t seed = offset * 2 + !!(flags & SNAP_FRAME_EXACT);

	if (!*build_id || !offset || flags & SNAP_FRAME_SKIPPED)
		return 0;
	return (hash_bytes(build_id, strlen(build_id), seed) & INT64_MAX) ?: 1;
}

static struct name_chain *find_name_chain(const struct shared_names *names, int64_t place)
{
	const struct known_row *row = place ? known_find(&names->places, place, 0) : NULL;

	return row ? &names->chain[row->number] : NULL;
}

static int add_place(struct shared_names *names, const struct named_frame *frame)
{
	const struct known_row row = { .hash.id = frame->place, .number = names->chain_nr };
	const struct name_chain chain = { .detail = frame->detail };

	return array_push(names, chain, chain) ?: known_add(&names->places, &row);
}

/* id: what the frame is called in tracebacks; its number is the count of frames before. 0 or -ENOMEM. */
static int shared_names_add_frame(struct shared_names *names, const struct nameable_frame *from, uint32_t id)
{
	const struct named_frame frame = {
		.place = nameable_place(from->build_id, from->offset, from->flags),
		.id = id,
		.filename = from->lineno ? from->filename : 0, /* without a line it is the object's path */
		.function = from->function,
		.lineno = from->lineno,
		.first_line = from->first_line,
		.detail = from->lineno ? DETAIL_LINE : from->function ? DETAIL_FUNCTION : DETAIL_NONE,
		.is_inlined = from->flags & SNAP_FRAME_INLINE,
	};
	const struct name_chain *chain = find_name_chain(names, frame.place);
	int err = array_push(names, frame, frame);

	if (err || !frame.place || frame.is_inlined)
		return err;
	if (!chain)
		return add_place(names, &frame);
	names->is_needed |= chain->detail != frame.detail;
	return 0;
}

/* Returns the number of frames, from number[0] on, that are one place. */
static size_t chain_length(const struct shared_names *names, const uint32_t *number, size_t nr)
{
	size_t len = 1;

	while (len < nr && names->frame[number[len - 1]].is_inlined &&
	       names->frame[number[len - 1]].place == names->frame[number[len]].place)
		len++;
	return len;
}

static uint8_t detail_of(const struct shared_names *names, const uint32_t *number, size_t len)
{
	return len > 1 ? DETAIL_LINE : names->frame[number[0]].detail;
}

static bool is_same_name(const struct named_frame *a, const struct named_frame *b)
{
	return a->function == b->function && a->filename == b->filename && a->lineno == b->lineno &&
	       (a->first_line == b->first_line || !a->first_line || !b->first_line);
}

/* Whether two chains of a place say the same, as far as both say anything. */
static bool is_agreed(const struct shared_names *names, const struct name_chain *chain, const uint32_t *number,
		      size_t len)
{
	const uint32_t *known = &names->joined[chain->first];
	uint8_t detail = detail_of(names, number, len);

	if (chain->detail == DETAIL_NONE || detail == DETAIL_NONE)
		return true;
	if (chain->detail != detail)
		return names->frame[known[chain->nr - 1]].function == names->frame[number[len - 1]].function;
	for (size_t i = 0; i < len && chain->nr == len; i++)
		if (!is_same_name(&names->frame[known[i]], &names->frame[number[i]]))
			return false;
	return chain->nr == len;
}

static int learn_chain(struct shared_names *names, const uint32_t *number, size_t len)
{
	const struct named_frame *last = &names->frame[number[len - 1]];
	struct name_chain *chain = last->is_inlined ? NULL : find_name_chain(names, last->place);
	uint8_t detail = detail_of(names, number, len);
	int err = 0;

	if (!chain || len > NAME_CHAIN_MAX)
		return 0;
	if (chain->nr && !is_agreed(names, chain, number, len))
		chain->is_disputed = true;
	if (chain->nr && chain->detail >= detail)
		return 0;
	chain->first = names->joined_nr;
	chain->nr = len;
	chain->detail = detail;
	for (size_t i = 0; i < len && !err; i++)
		err = array_push(names, joined, number[i]);
	return err;
}

/* number: the frames of a traceback, most recent call first. 0 or -ENOMEM. */
static int shared_names_learn(struct shared_names *names, const uint32_t *number, size_t nr)
{
	int err = 0;

	for (size_t at = 0, len; at < nr && !err; at += len) {
		len = chain_length(names, number + at, nr - at);
		err = learn_chain(names, number + at, len);
	}
	return err;
}

/* NULL: the frames themselves say as much, or nothing is lent. */
static const struct name_chain *better_chain(struct shared_names *names, const uint32_t *number, size_t len)
{
	const struct named_frame *last = &names->frame[number[len - 1]];
	struct name_chain *chain = last->is_inlined ? NULL : find_name_chain(names, last->place);

	if (!chain || !chain->nr || chain->detail <= detail_of(names, number, len))
		return NULL;
	if (!chain->is_disputed)
		return chain;
	names->refused_nr += !chain->is_refused;
	chain->is_refused = true;
	return NULL;
}

static size_t applied_nr(struct shared_names *names, const uint32_t *number, size_t nr)
{
	size_t sum = 0;

	for (size_t at = 0, len; at < nr; at += len) {
		const struct name_chain *chain;

		len = chain_length(names, number + at, nr - at);
		chain = better_chain(names, number + at, len);
		sum += chain ? chain->nr : len;
	}
	return sum;
}

/* The ids of a traceback's frames, with better names where they are known. The caller frees *ids. 0 or -ENOMEM. */
static int shared_names_apply(struct shared_names *names, const uint32_t *number, size_t nr, uint32_t **ids,
		       size_t *ids_alloc, size_t *ret_nr)
{
	size_t all = names->is_needed ? applied_nr(names, number, nr) : nr;
	bool fits = names->is_needed && all <= SNAP_TRACEBACK_MAX;
	size_t to = 0;
	int err = array_reserve(ids, ids_alloc, all > nr ? all : nr);

	for (size_t at = 0, len; at < nr && !err; at += len) {
		const struct name_chain *chain = NULL;

		len = fits ? chain_length(names, number + at, nr - at) : 1;
		if (fits)
			chain = better_chain(names, number + at, len);
		for (size_t i = 0; i < (chain ? chain->nr : len); i++)
			(*ids)[to++] = names->frame[chain ? names->joined[chain->first + i] : number[at + i]].id;
	}
	*ret_nr = to;
	return err;
}

static void shared_names_release(struct shared_names *names)
{
	free(names->frame);
	known_release(&names->places);
	free(names->chain);
	free(names->joined);
	*names = (struct shared_names){};
}

/* ---- tables -------------------------------------------------------------------------------- */

#define BUILD_ID_DIGITS "12"

struct dictionary_maker {
	const struct dictionary_options *options;
	struct snapshot_builder *builder;
	struct known frames;		 /* by the catalogue's id; number: from shared_names_add_frame() */
	struct known tracebacks;	 /* by the catalogue's id; number: the builder's id */
	struct shared_names names;
	uint32_t *key;			 /* by the builder's frame: the frame that stands for it as a key */
	size_t key_nr, key_alloc;
	uint32_t *number;		 /* the frames of one traceback, by their numbers in names */
	size_t number_nr, number_alloc;
	uint32_t *frame;		 /* by the builder's ids */
	size_t frame_alloc;
	struct snap_trace *trace; /* of each origin */
	size_t trace_nr, trace_alloc;
	int64_t *traceback_id; /* of each origin, too */
	size_t traceback_id_nr, traceback_id_alloc;
	char *name; /* the last string of put_together() */
};

/* ---- frames ----------------------------------------------------------------------------------------- */

/* Returns NULL if there is no memory. The string is valid until the next call. */
__attribute__((format(printf, 2, 3)))
static const char *put_together(struct dictionary_maker *m, const char *fmt, ...)
{
	va_list args;
	char *name;

	va_start(args, fmt);
	if (vasprintf(&name, fmt, args) < 0)
		name = NULL;
	va_end(args);
	free(m->name);
	m->name = name;
	return name;
}

static const char *strip_path_prefix(const struct dictionary_options *options, const char *path)
{
	for (size_t i = 0; i < options->strip_prefix_nr; i++) {
		size_t len = strlen(options->strip_prefix[i]);

		if (!strncmp(path, options->strip_prefix[i], len))
			return path + len;
	}
	return path;
}

/* If paths are the keys, they need no additions: these would split one path into several keys. */
static bool has_keys_of_its_own(const struct dictionary_maker *m)
{
	return m->options->key_type != KEY_FILENAME && m->options->key_type != KEY_OBJECT;
}

static bool is_nameless(const struct dictionary_frame *frame)
{
	return !frame->lineno && !*frame->function && *frame->object;
}

static bool is_key_by_distance(const struct dictionary_maker *m, const struct dictionary_frame *frame)
{
	return m->options->line_drift && *frame->function && frame->first_line &&
	       frame->lineno >= frame->first_line;
}

/* Distance 0 is no line number to the engine. The object is left out: it would tell builds apart. */
static int make_distance_key(struct dictionary_maker *m, struct dictionary_frame *frame)
{
	frame->filename = put_together(m, "%s:%s", frame->filename, frame->function);
	frame->lineno -= frame->first_line;
	frame->first_line = 0;
	frame->object = "";
	return frame->filename ? 0 : -ENOMEM;
}

/* Code without a name: its offset means something in one build only, so the key names the build. */
static int name_build(struct dictionary_maker *m, struct dictionary_frame *frame)
{
	bool is_file = !strcmp(frame->filename, frame->object) || !*frame->filename;
	const char *name = put_together(m, "%s@%." BUILD_ID_DIGITS "s", frame->object, frame->build_id);

	if (!name)
		return -ENOMEM;
	frame->filename = is_file ? name : frame->filename;
	frame->object = name;
	return 0;
}

/* Drops what differs from build to build, unless the frame has nothing else. */
static void drop_build_details(struct dictionary_maker *m, struct dictionary_frame *frame)
{
	frame->filename = strip_path_prefix(m->options, frame->filename);
	frame->object = strip_path_prefix(m->options, frame->object);
	if (is_nameless(frame))
		return;
	frame->offset = 0;
	frame->build_id = "";
}

/* A filename and a function are the builder's strings. */
static int make_nameable(struct dictionary_maker *m, const struct dictionary_frame *text, struct nameable_frame *ret)
{
	*ret = (struct nameable_frame){
		.build_id = text->build_id, .lineno = text->lineno, .first_line = text->first_line,
		.flags = text->flags, .offset = text->offset,
	};
	return snapshot_builder__string(m->builder, strip_path_prefix(m->options, text->filename), &ret->filename) ?:
	       snapshot_builder__string(m->builder, text->function, &ret->function);
}

static int build_frame(struct dictionary_maker *m, const struct dictionary_frame *text, uint32_t *ret_id)
{
	struct snap_object object = {};
	struct snap_frame frame = {
		.lineno = text->lineno, .offset = text->offset, .flags = text->flags,
	};
	struct snapshot_builder *b = m->builder;

	return snapshot_builder__string(b, text->filename, &frame.filename) ?:
	       snapshot_builder__string(b, text->function, &frame.function) ?:
	       snapshot_builder__string(b, text->object, &object.path) ?:
	       snapshot_builder__string(b, text->build_id, &object.build_id) ?:
	       snapshot_builder__object(b, &object, &frame.object) ?:
	       snapshot_builder__frame_declared(b, &frame, text->first_line, ret_id);
}

/* Leaves *ret_id as it is if the key needs no other names than the frame. */
static int build_key(struct dictionary_maker *m, const struct dictionary_frame *text, uint32_t *ret_id)
{
	struct dictionary_frame key = *text;
	int err;

	if (is_nameless(&key) && *key.build_id)
		err = name_build(m, &key);
	else if (is_key_by_distance(m, &key))
		err = make_distance_key(m, &key);
	else
		return 0;
	return err ?: build_frame(m, &key, ret_id);
}

static int add_key(struct dictionary_maker *m, const struct dictionary_frame *text, uint32_t frame)
{
	uint32_t key = frame;
	int err;

	if (!has_keys_of_its_own(m))
		return 0;
	err = build_key(m, text, &key);
	while (!err && m->key_nr <= frame)
		err = array_push(m, key, 0);
	if (!err)
		m->key[frame] = key;
	return err;
}

static bool is_u32(int64_t number)
{
	return number >= 0 && number <= UINT32_MAX;
}

int dictionary_maker__frame(struct dictionary_maker *m, const struct dictionary_frame *raw)
{
	struct known_row known = { .hash.id = raw->id, .number = m->names.frame_nr };
	struct dictionary_frame frame = *raw;
	struct nameable_frame nameable;
	uint32_t id;
	int err;

	if (raw->id <= 0 || !is_u32(raw->lineno) || !is_u32(raw->first_line) || !is_u32(raw->flags))
		return -EINVAL;
	err = make_nameable(m, &frame, &nameable);
	drop_build_details(m, &frame);
	err = err ?: build_frame(m, &frame, &id) ?: add_key(m, &frame, id);
	return err ?: shared_names_add_frame(&m->names, &nameable, id) ?: known_add(&m->frames, &known);
}

/* ---- tracebacks ------------------------------------------------------------------------------------- */

/* frame_id: nr ids, which need not be aligned. */
static int find_frame_numbers(struct dictionary_maker *m, const void *frame_id, size_t nr)
{
	int err = array_reserve(&m->number, &m->number_alloc, nr);

	for (size_t i = 0; i < nr && !err; i++) {
		const struct known_row *frame;
		int64_t id;

		memcpy(&id, (const char *)frame_id + i * sizeof(id), sizeof(id));
		frame = known_find(&m->frames, id, 0);
		if (!frame)
			return -EINVAL;
		m->number[i] = frame->number;
	}
	return err;
}

int dictionary_maker__learn(struct dictionary_maker *m, const void *frame_id, size_t nr)
{
	return find_frame_numbers(m, frame_id, nr) ?: shared_names_learn(&m->names, m->number, nr);
}

static int apply_names(struct dictionary_maker *m, const void *frame_id, size_t nr, size_t *ret_nr)
{
	return find_frame_numbers(m, frame_id, nr) ?:
	       shared_names_apply(&m->names, m->number, nr, &m->frame, &m->frame_alloc, ret_nr);
}

int dictionary_maker__look_up(struct dictionary_maker *m, const void *frame_id, size_t nr)
{
	size_t applied;

	return apply_names(m, frame_id, nr, &applied);
}

int dictionary_maker__traceback(struct dictionary_maker *m, int64_t id, const void *frame_id, size_t nr)
{
	struct known_row traceback = { .hash.id = id };
	size_t applied = 0;
	int err = id ? apply_names(m, frame_id, nr, &applied) : -EINVAL;

	err = err ?: snapshot_builder__traceback(m->builder, m->frame, applied, 0, 0, &traceback.number);
	return err ?: known_add(&m->tracebacks, &traceback);
}

/* ---- origins and domains ---------------------------------------------------------------------------- */

int dictionary_maker__origin(struct dictionary_maker *m, int64_t traceback_id, int64_t domain)
{
	const struct known_row *traceback = known_find(&m->tracebacks, traceback_id, 0);

	if (!traceback || !is_u32(domain))
		return -EINVAL;
	return array_push(m, trace, ((struct snap_trace){ .traceback = traceback->number, .domain = domain })) ?:
	       array_push(m, traceback_id, traceback_id);
}

int dictionary_maker__domain(struct dictionary_maker *m, int64_t number, const char *name)
{
	return is_u32(number) ? snapshot_builder__domain_name(m->builder, number, name) : -EINVAL;
}

static int dictionary_add_traces(struct dictionary_maker *m)
{
	uint64_t first;

	if (!m->trace_nr)
		return 0;
	return snapshot_builder__add_traces(m->builder, m->trace_nr, &first) ?:
	       snapshot_builder__set_traces(m->builder, first, m->trace, m->trace_nr);
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

int dictionary_maker__new(const struct dictionary_options *options, struct dictionary_maker **ret)
{
	struct dictionary_maker *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->options = options;
	/* If a function's first line differs between builds, its lines are different frames with keys of their own. */
	m->builder = snapshot_builder__new(SNAP_WITH_DOMAIN |
					   (options->line_drift && has_keys_of_its_own(m) ? SNAP_WITH_FIRST_LINE : 0));
	if (!m->builder) {
		dictionary_maker__free(m);
		return -ENOMEM;
	}
	*ret = m;
	return 0;
}

int dictionary_maker__finish(struct dictionary_maker *m, struct dictionary *ret)
{
	int err = dictionary_add_traces(m) ?: snapshot_builder__finish(m->builder, &ret->snapshot);

	m->builder = NULL;
	if (err)
		return err;
	ret->key_frame = m->key;
	m->key = NULL;
	ret->traceback_id = m->traceback_id;
	m->traceback_id = NULL;
	ret->refused_nr = m->names.refused_nr;
	return 0;
}

void dictionary_maker__free(struct dictionary_maker *m)
{
	if (!m)
		return;
	snapshot_builder__free(m->builder);
	known_release(&m->frames);
	known_release(&m->tracebacks);
	free(m->key);
	shared_names_release(&m->names);
	free(m->number);
	free(m->frame);
	free(m->trace);
	free(m->traceback_id);
	free(m->name);
	free(m);
}

void dictionary_release(struct dictionary *dictionary)
{
	snapshot__close(dictionary->snapshot);
	free(dictionary->key_frame);
	free(dictionary->traceback_id);
	*dictionary = (struct dictionary){};
}

/* ---- reading the dictionary of a catalogue ------------------------------------------------------------ */

static int read_frame_row(struct dictionary_maker *m, sqlite3_stmt *row)
{
	return dictionary_maker__frame(m, &(struct dictionary_frame){
		.id = sqlite3_column_int64(row, 0), .filename = sql_text(row, 1), .lineno = sqlite3_column_int64(row, 2),
		.function = sql_text(row, 3), .first_line = sqlite3_column_int64(row, 4), .object = sql_text(row, 5),
		.build_id = sql_text(row, 6), .offset = sqlite3_column_int64(row, 7), .flags = sqlite3_column_int64(row, 8),
	});
}

static int take_traceback(struct dictionary_maker *m, sqlite3_stmt *row, bool is_learnt)
{
	int64_t id = sqlite3_column_int64(row, 0);
	const void *frames = sqlite3_column_blob(row, 1);
	size_t len = sqlite3_column_bytes(row, 1);

	if (id <= 0 || len % sizeof(int64_t))
		return -EINVAL;
	return is_learnt ? dictionary_maker__learn(m, frames, len / sizeof(int64_t)) :
			   dictionary_maker__traceback(m, id, frames, len / sizeof(int64_t));
}

/* Only if names are to be shared. */
static int learn_traceback_row(struct dictionary_maker *m, sqlite3_stmt *row)
{
	return m->names.is_needed ? take_traceback(m, row, true) : 0;
}

static int read_traceback_row(struct dictionary_maker *m, sqlite3_stmt *row)
{
	return take_traceback(m, row, false);
}

static int read_origin_row(struct dictionary_maker *m, sqlite3_stmt *row)
{
	if (sqlite3_column_int64(row, 0) != (int64_t)m->trace_nr)
		return -EINVAL;
	return dictionary_maker__origin(m, sqlite3_column_int64(row, 1), sqlite3_column_int64(row, 2));
}

static int read_domain_row(struct dictionary_maker *m, sqlite3_stmt *row)
{
	return dictionary_maker__domain(m, sqlite3_column_int64(row, 0), sql_text(row, 1));
}

static const struct {
	const char *sql;
	int (*add)(struct dictionary_maker *m, sqlite3_stmt *row);
} tables[] = {
	{ "SELECT frame_id, filename, lineno, function, first_line, object, build_id, offset, flags FROM frame", read_frame_row },
	{ "SELECT traceback_id, frames FROM traceback", learn_traceback_row },
	{ "SELECT traceback_id, frames FROM traceback", read_traceback_row },
	{ "SELECT number, traceback_id, domain FROM origin ORDER BY number", read_origin_row },
	{ "SELECT number, name FROM domain ORDER BY number", read_domain_row },
};

static int dictionary_report_error(const struct catalogue *catalogue, int err, struct reason *why)
{
	if (err == -EINVAL)
		return catalogue_report_damage(catalogue, why, "a frame, traceback, origin or domain");
	return reason_set(why, err, "%s: %s", catalogue->path, strerror(-err));
}

static int read_table(struct dictionary_maker *m, const struct catalogue *catalogue, size_t at, struct reason *why)
{
	sqlite3_stmt *row;
	int more, err = sql_prepare(catalogue, tables[at].sql, &row, why);

	if (err)
		return err;
	while ((more = sql_step(catalogue, row, why)) > 0 && !err)
		err = tables[at].add(m, row);
	sqlite3_finalize(row);
	return more < 0 ? more : err ? dictionary_report_error(catalogue, err, why) : 0;
}

int dictionary_read_catalogue(struct catalogue *catalogue, const struct dictionary_options *options,
		    struct dictionary *ret, struct reason *why)
{
	static const struct dictionary_options none;
	struct dictionary_maker *m = NULL;
	int err = dictionary_maker__new(options ?: &none, &m);

	if (err)
		return dictionary_report_error(catalogue, err, why);
	for (size_t i = 0; i < ARRAY_SIZE(tables) && !err; i++)
		err = read_table(m, catalogue, i, why);
	if (!err && dictionary_maker__finish(m, ret))
		err = dictionary_report_error(catalogue, -ENOMEM, why);
	dictionary_maker__free(m);
	return err;
}
