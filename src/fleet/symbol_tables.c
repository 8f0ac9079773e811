// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/symbol_tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/catalogue_private.h"
#include "fleet/id_set.h"
#include "fleet/shared_names.h"
#include "snapshot.h"

#define BUILD_ID_DIGITS "12"

struct making {
	struct catalogue *catalogue;
	const struct dictionary_options *options;
	struct snapshot_builder *builder;
	struct known frames;		 /* by the catalogue's id; number: that of shared_names_add_frame() */
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
	char *name; /* the last string of put_together() */
};

/* ---- frames ----------------------------------------------------------------------------------------- */

/* A frame as the catalogue has it; then as filters see it; then as a key. */
struct frame_text {
	const char *filename, *function, *object, *build_id;
	uint32_t lineno, first_line, flags;
	uint64_t offset;
};

/* Returns NULL if there is no memory. The string is valid until the next call. */
__attribute__((format(printf, 2, 3)))
static const char *put_together(struct making *m, const char *fmt, ...)
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
static bool has_keys_of_its_own(const struct making *m)
{
	return m->options->key_type != KEY_FILENAME && m->options->key_type != KEY_OBJECT;
}

static bool is_nameless(const struct frame_text *frame)
{
	return !frame->lineno && !*frame->function && *frame->object;
}

static bool is_key_by_distance(const struct making *m, const struct frame_text *frame)
{
	return m->options->line_drift && *frame->function && frame->first_line &&
	       frame->lineno >= frame->first_line;
}

/* Distance 0 is no line number to the engine. The object is left out: it would tell builds apart. */
static int make_distance_key(struct making *m, struct frame_text *frame)
{
	frame->filename = put_together(m, "%s:%s", frame->filename, frame->function);
	frame->lineno -= frame->first_line;
	frame->first_line = 0;
	frame->object = "";
	return frame->filename ? 0 : -ENOMEM;
}

/* Code without a name: its offset means something in one build only, so the key names the build. */
static int name_build(struct making *m, struct frame_text *frame)
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
static void drop_build_details(struct making *m, struct frame_text *frame)
{
	frame->filename = strip_path_prefix(m->options, frame->filename);
	frame->object = strip_path_prefix(m->options, frame->object);
	if (is_nameless(frame))
		return;
	frame->offset = 0;
	frame->build_id = "";
}

/* A filename and a function are the builder's strings. */
static int make_nameable(struct making *m, const struct frame_text *text, struct nameable_frame *ret)
{
	*ret = (struct nameable_frame){
		.build_id = text->build_id, .lineno = text->lineno, .first_line = text->first_line,
		.flags = text->flags, .offset = text->offset,
	};
	return snapshot_builder__string(m->builder, strip_path_prefix(m->options, text->filename), &ret->filename) ?:
	       snapshot_builder__string(m->builder, text->function, &ret->function);
}

static int build_frame(struct making *m, const struct frame_text *text, uint32_t *ret_id)
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
static int build_key(struct making *m, const struct frame_text *text, uint32_t *ret_id)
{
	struct frame_text key = *text;
	int err;

	if (is_nameless(&key) && *key.build_id)
		err = name_build(m, &key);
	else if (is_key_by_distance(m, &key))
		err = make_distance_key(m, &key);
	else
		return 0;
	return err ?: build_frame(m, &key, ret_id);
}

static int add_key(struct making *m, const struct frame_text *text, uint32_t frame)
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

static int dictionary_add_frame(struct making *m, sqlite3_stmt *row)
{
	struct known_row known = { .hash.id = sqlite3_column_int64(row, 0) };
	struct frame_text frame = {
		.filename = sql_text(row, 1),
		.lineno = sqlite3_column_int64(row, 2),
		.function = sql_text(row, 3),
		.first_line = sqlite3_column_int64(row, 4),
		.object = sql_text(row, 5),
		.build_id = sql_text(row, 6),
		.offset = sqlite3_column_int64(row, 7),
		.flags = sqlite3_column_int64(row, 8),
	};
	struct nameable_frame nameable;
	uint32_t id;
	int err;

	if (known.hash.id <= 0 || !is_u32(sqlite3_column_int64(row, 2)) ||
	    !is_u32(sqlite3_column_int64(row, 4)) || !is_u32(sqlite3_column_int64(row, 8)))
		return -EINVAL;
	known.number = m->names.frame_nr;
	err = make_nameable(m, &frame, &nameable);
	drop_build_details(m, &frame);
	err = err ?: build_frame(m, &frame, &id) ?: add_key(m, &frame, id);
	return err ?: shared_names_add_frame(&m->names, &nameable, id) ?: known_add(&m->frames, &known);
}

/* ---- tracebacks ------------------------------------------------------------------------------------- */

static int dictionary_read_traceback(struct making *m, sqlite3_stmt *row)
{
	const char *bytes = sqlite3_column_blob(row, 1);
	size_t len = sqlite3_column_bytes(row, 1), nr = len / sizeof(int64_t);
	int err = array_reserve(&m->number, &m->number_alloc, nr);

	if (sqlite3_column_int64(row, 0) <= 0 || len % sizeof(int64_t))
		return -EINVAL;
	m->number_nr = nr;
	for (size_t i = 0; i < nr && !err; i++) {
		const struct known_row *frame;
		int64_t id;

		memcpy(&id, bytes + i * sizeof(id), sizeof(id));
		frame = known_find(&m->frames, id, 0);
		if (!frame)
			return -EINVAL;
		m->number[i] = frame->number;
	}
	return err;
}

static int dictionary_learn_traceback(struct making *m, sqlite3_stmt *row)
{
	return dictionary_read_traceback(m, row) ?: shared_names_learn(&m->names, m->number, m->number_nr);
}

/* Tracebacks with the same names become one. */
static int dictionary_add_traceback(struct making *m, sqlite3_stmt *row)
{
	struct known_row traceback = { .hash.id = sqlite3_column_int64(row, 0) };
	size_t nr = 0;
	int err = dictionary_read_traceback(m, row) ?:
		  shared_names_apply(&m->names, m->number, m->number_nr, &m->frame, &m->frame_alloc, &nr);

	err = err ?: snapshot_builder__traceback(m->builder, m->frame, nr, 0, 0, &traceback.number);
	return err ?: known_add(&m->tracebacks, &traceback);
}

/* ---- origins and domains ---------------------------------------------------------------------------- */

static int dictionary_add_origin(struct making *m, sqlite3_stmt *row)
{
	const struct known_row *traceback = known_find(&m->tracebacks, sqlite3_column_int64(row, 1), 0);
	struct snap_trace trace = { .domain = sqlite3_column_int64(row, 2) };

	if (sqlite3_column_int64(row, 0) != (int64_t)m->trace_nr || !traceback ||
	    !is_u32(sqlite3_column_int64(row, 2)))
		return -EINVAL;
	trace.traceback = traceback->number;
	return array_push(m, trace, trace);
}

static int dictionary_add_domain(struct making *m, sqlite3_stmt *row)
{
	if (!is_u32(sqlite3_column_int64(row, 0)))
		return -EINVAL;
	return snapshot_builder__domain_name(m->builder, sqlite3_column_int64(row, 0), sql_text(row, 1));
}

static int dictionary_add_traces(struct making *m)
{
	uint64_t first;

	if (!m->trace_nr)
		return 0;
	return snapshot_builder__add_traces(m->builder, m->trace_nr, &first) ?:
	       snapshot_builder__set_traces(m->builder, first, m->trace, m->trace_nr);
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

static const struct {
	const char *sql;
	int (*add)(struct making *m, sqlite3_stmt *row);
	bool is_for_names; /* only if names are to be shared */
} tables[] = {
	{ "SELECT frame_id, filename, lineno, function, first_line, object, build_id, offset, flags"
	  " FROM frame", dictionary_add_frame },
	{ "SELECT traceback_id, frames FROM traceback", dictionary_learn_traceback, true },
	{ "SELECT traceback_id, frames FROM traceback", dictionary_add_traceback },
	{ "SELECT number, traceback_id, domain FROM origin ORDER BY number", dictionary_add_origin },
	{ "SELECT number, name FROM domain ORDER BY number", dictionary_add_domain },
};

static int dictionary_report_error(const struct making *m, int err, struct reason *why)
{
	if (err == -EINVAL)
		return catalogue_report_damage(m->catalogue, why, "a frame, traceback, origin or domain");
	return reason_set(why, err, "%s: %s", m->catalogue->path, strerror(-err));
}

static int read_table(struct making *m, size_t at, struct reason *why)
{
	sqlite3_stmt *row;
	int more, err = sql_prepare(m->catalogue, tables[at].sql, &row, why);

	if (err)
		return err;
	while ((more = sql_step(m->catalogue, row, why)) > 0 && !err)
		err = tables[at].add(m, row);
	sqlite3_finalize(row);
	return more < 0 ? more : err ? dictionary_report_error(m, err, why) : 0;
}

static int dictionary_build(struct making *m, struct dictionary *ret, struct reason *why)
{
	/* If a function's first line differs between builds, its lines are different frames with keys of their own. */
	bool has_first_lines = m->options->line_drift && has_keys_of_its_own(m);
	int err = 0;

	m->builder = snapshot_builder__new(SNAP_WITH_DOMAIN | (has_first_lines ? SNAP_WITH_FIRST_LINE : 0));
	if (!m->builder)
		return dictionary_report_error(m, -ENOMEM, why);
	for (size_t i = 0; i < ARRAY_SIZE(tables) && !err; i++)
		if (m->names.is_needed || !tables[i].is_for_names)
			err = read_table(m, i, why);
	if (err)
		return err;
	err = dictionary_add_traces(m);
	if (!err) {
		err = snapshot_builder__finish(m->builder, &ret->snapshot);
		m->builder = NULL;
	}
	if (err)
		return dictionary_report_error(m, err, why);
	ret->key_frame = m->key;
	m->key = NULL;
	ret->refused_nr = m->names.refused_nr;
	return 0;
}

int symbol_tables_read(struct catalogue *catalogue, const struct dictionary_options *options,
		    struct dictionary *ret, struct reason *why)
{
	static const struct dictionary_options none;
	struct making m = { .catalogue = catalogue, .options = options ?: &none };
	int err = dictionary_build(&m, ret, why);

	snapshot_builder__free(m.builder);
	known_release(&m.frames);
	known_release(&m.tracebacks);
	free(m.key);
	shared_names_release(&m.names);
	free(m.number);
	free(m.frame);
	free(m.trace);
	free(m.name);
	return err;
}

void dictionary_release(struct dictionary *dictionary)
{
	snapshot__close(dictionary->snapshot);
	free(dictionary->key_frame);
	*dictionary = (struct dictionary){};
}
