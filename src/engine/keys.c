// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "engine/frame.h"
#include "engine/selector.h"
#include "snapshot.h"

/* These append to the text. 0 or -ENOMEM. */
static int key_text_add(struct key_text *text, const char *string)
{
	size_t len = strlen(string);
	/* One byte more than needed, so that an empty text has memory, too. */
	int err = array_reserve(&text->bytes, &text->bytes_alloc, text->bytes_nr + len + 1);

	if (err)
		return err;
	memcpy(text->bytes + text->bytes_nr, string, len);
	text->bytes_nr += len;
	return 0;
}

static int key_text_add_number(struct key_text *text, uint64_t number)
{
	char digits[21] = "";
	char *first = digits + sizeof(digits) - 1;

	do
		*--first = '0' + number % 10;
	while (number /= 10);
	return key_text_add(text, first);
}

/* ---- classes that are numbers: domain, thread ------------------------------------------------ */

static bool same_number(uint32_t class, const void *key, const void *table)
{
	const struct classes *classes = table;
	const uint32_t *number = key;

	return classes->number[class] == *number;
}

static int find_number(struct classes *classes, uint32_t number, uint32_t *ret_class)
{
	uint64_t hash = hash_bytes(&number, sizeof(number), 0);
	uint32_t class = idmap_find(&classes->number_ids, hash, same_number, &number, classes);
	int err;

	if (class == IDMAP_NONE) {
		if (classes->number_nr >= IDMAP_NONE)
			return -ENOMEM;
		class = classes->number_nr;
		err = array_push(classes, number, number);
		if (!err)
			err = idmap_add(&classes->number_ids, hash, class);
		if (err)
			return err;
	}
	*ret_class = class;
	return 0;
}

static int name_number(const struct classes *classes, uint32_t class, struct key_text *text)
{
	return key_text_add_number(text, classes->number[class]);
}

static int find_trace_domain_class(struct classes *classes, uint64_t at, uint32_t *ret_class)
{
	const struct snapshot_tables *tables = classes->source->tables;

	return find_number(classes, tables->trace_domain ? tables->trace_domain[at] : 0, ret_class);
}

static const struct class_type domain_classes = { .find = find_trace_domain_class, .name = name_number };

static int prepare_threads(struct classes *classes, struct reason *why)
{
	return check_threads(classes->source->tables, why);
}

static int find_thread(struct classes *classes, uint64_t at, uint32_t *ret_class)
{
	return find_number(classes, classes->source->tables->trace_thread[at], ret_class);
}

static const struct class_type thread_classes = {
	.prepare = prepare_threads,
	.find = find_thread,
	.name = name_number,
};

/* ---- process ------------------------------------------------------------------------------ */

static int find_process(struct classes *classes, uint64_t at, uint32_t *ret_class)
{
	(void)classes;
	(void)at;
	*ret_class = 0;
	return 0;
}

static int name_process(const struct classes *classes, uint32_t class, struct key_text *text)
{
	const char *comm = snapshot__metadata(classes->source->snapshot, "comm");
	const char *pid = snapshot__metadata(classes->source->snapshot, "pid");
	int err;

	(void)class;
	err = key_text_add(text, comm && *comm ? comm : "<unknown>"); /* no key is empty */
	if (err || !pid)
		return err;
	return key_text_add(text, "[") ?: key_text_add(text, pid) ?: key_text_add(text, "]");
}

static const struct class_type process_classes = { .find = find_process, .name = name_process };

/* ---- size-class --------------------------------------------------------------------------- */

/* Class n has the sizes that need exactly n bits. */
static int find_size(struct classes *classes, uint64_t at, uint32_t *ret_class)
{
	uint64_t size = classes->source->tables->trace_size[at];

	*ret_class = size ? 64 - __builtin_clzll(size) : 0;
	return 0;
}

static int add_power(struct key_text *text, uint32_t bits)
{
	static const char *const units[] = { " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB" };

	return key_text_add_number(text, 1u << bits % 10) ?: key_text_add(text, units[bits / 10]);
}

static int name_size(const struct classes *classes, uint32_t class, struct key_text *text)
{
	(void)classes;
	if (!class)
		return key_text_add(text, "0 B");
	return key_text_add(text, "[") ?: add_power(text, class - 1) ?: key_text_add(text, ", ") ?:
	       add_power(text, class) ?: key_text_add(text, ")");
}

static const struct class_type size_classes = { .find = find_size, .name = name_size };

/* ---- age ---------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	uint64_t below_ns;
} ages[] = {
	{ "< 1s", SECOND_NS },		  { "1s - 10s", 10 * SECOND_NS },
	{ "10s - 1m", 60 * SECOND_NS },	  { "1m - 10m", 600 * SECOND_NS },
	{ "10m - 1h", 3600 * SECOND_NS }, { "1h - 1d", 86400 * SECOND_NS },
	{ ">= 1d", UINT64_MAX },
};

uint64_t age_class_limit_ns(size_t class)
{
	return class < ARRAY_SIZE(ages) - 1 ? ages[class].below_ns : 0;
}

static int prepare_age(struct classes *classes, struct reason *why)
{
	if (!classes->source->tables->trace_nr)
		return 0;
	return age_now(classes->source->snapshot, &classes->now_ns, why);
}

static int find_age(struct classes *classes, uint64_t at, uint32_t *ret_class)
{
	uint64_t age_ns = age_of(classes->source->tables, at, classes->now_ns);
	uint32_t class = 0;

	while (class < ARRAY_SIZE(ages) - 1 && age_ns >= ages[class].below_ns)
		class++;
	*ret_class = class;
	return 0;
}

static int name_age(const struct classes *classes, uint32_t class, struct key_text *text)
{
	(void)classes;
	return key_text_add(text, ages[class].name);
}

const struct class_type age_classes = {
	.prepare = prepare_age,
	.find = find_age,
	.name = name_age,
};

/* ---- life --------------------------------------------------------------------------------- */

static void classes_release(struct classes *classes)
{
	free(classes->number);
	idmap_release(&classes->number_ids);
	memset(classes, 0, sizeof(*classes));
}

static int function_text(const struct frame_view *frame, struct key_text *text)
{
	if (frame->function)
		return key_text_add(text, frame->function);
	if (!frame->object)
		return key_text_add(text, "<unknown>");
	return key_text_add(text, "<unknown> in ") ?: key_text_add(text, frame->object);
}

static int object_text(const struct frame_view *frame, struct key_text *text)
{
	return key_text_add(text, frame_is_java_class(frame) ? frame->function : frame->object ?: "<unknown>");
}

static const struct key_type_row rows[] = {
	[KEY_LINENO] = { "lineno", KEY_IS_FRAME, .has_cumulative = true },
	[KEY_FILENAME] = { "filename", KEY_IS_FRAME, .has_cumulative = true },
	[KEY_TRACEBACK] = { "traceback", KEY_IS_TRACEBACK },
	[KEY_FUNCTION] = { "function", KEY_IS_FRAME_TEXT, .has_cumulative = true,
			   .frame_text = function_text },
	[KEY_OBJECT] = { "object", KEY_IS_FRAME_TEXT, .has_cumulative = true,
			 .frame_text = object_text },
	[KEY_DOMAIN] = { "domain", KEY_IS_CLASS, .classes = &domain_classes },
	[KEY_PROCESS] = { "process", KEY_IS_CLASS, .asks_blocks = true, .classes = &process_classes },
	[KEY_SIZE_CLASS] = { "size-class", KEY_IS_CLASS, .asks_blocks = true, .classes = &size_classes },
	[KEY_AGE] = { "age", KEY_IS_CLASS, .asks_blocks = true, .classes = &age_classes },
	[KEY_THREAD] = { "thread", KEY_IS_CLASS, .asks_blocks = true, .classes = &thread_classes },
};
_Static_assert(ARRAY_SIZE(rows) == KEY_TYPE_NR, "every key type has a row");

const struct key_type_row *key_type_row(enum key_type key_type)
{
	return &rows[key_type];
}

const char *key_type_name(enum key_type key_type)
{
	return rows[key_type].name;
}

bool key_type_has_cumulative(enum key_type key_type)
{
	return rows[key_type].has_cumulative;
}

int key_type_parse(const char *text, enum key_type *ret_key_type, struct reason *why)
{
	char names[256] = "";

	for (enum key_type i = 0; i < KEY_TYPE_NR; i++) {
		if (!strcmp(text, rows[i].name)) {
			*ret_key_type = i;
			return 0;
		}
		strcat(names, i ? ", " : "");
		strcat(names, rows[i].name);
	}
	return reason_set(why, -EINVAL, "unknown key type \"%.100s\"; there are %s", text, names);
}

struct key_traceback {
	size_t first; /* in traceback_view and traceback_frame */
	uint32_t nframe;
};

void keyspace_init(struct keyspace *keys, const struct engine_options *options)
{
	*keys = (struct keyspace){
		.options = options,
		.type = key_type_row(options->key_type),
		.by_function = options->key_type == KEY_TRACEBACK && !options->tracemalloc,
	};
}

void keyspace_release(struct keyspace *keys)
{
	free(keys->frame);
	free(keys->traceback);
	free(keys->traceback_view);
	free(keys->traceback_frame);
	free(keys->scratch.bytes);
	strpool_release(&keys->texts);
	idmap_release(&keys->frame_ids);
	idmap_release(&keys->traceback_ids);
	memset(keys, 0, sizeof(*keys));
}

int key_source_init(struct key_source *source, struct source *traces)
{
	size_t frame_nr = traces->tables->frame_nr ?: 1;

	*source = (struct key_source){ .traces = traces, .classes.source = traces };
	source->frame_key = malloc(frame_nr * sizeof(*source->frame_key));
	source->frame_view = malloc(frame_nr * sizeof(*source->frame_view));
	if (!source->frame_key || !source->frame_view)
		return -ENOMEM;
	for (size_t i = 0; i < frame_nr; i++)
		source->frame_key[i] = IDMAP_NONE;
	return 0;
}

void key_source_release(struct key_source *source)
{
	free(source->frame_key);
	free(source->frame_view);
	classes_release(&source->classes);
	memset(source, 0, sizeof(*source));
}

/* ---- canonical frames --------------------------------------------------------------------- */

static bool keyspace_same_frame(uint32_t id, const void *key, const void *table)
{
	const struct keyspace *keys = table;

	return keys->by_function ? !frame_compare_with_function(&keys->frame[id], key) :
				   !frame_compare(&keys->frame[id], key);
}

static int append_frame(struct keyspace *keys, const struct frame_view *view, uint64_t hash)
{
	int err;

	if (keys->frame_nr >= IDMAP_NONE)
		return -ENOMEM;
	err = array_reserve(&keys->frame, &keys->frame_alloc, keys->frame_nr + 1);
	if (!err)
		err = idmap_add(&keys->frame_ids, hash, keys->frame_nr);
	if (!err)
		keys->frame[keys->frame_nr++] = *view;
	return err;
}

static int keyspace_intern_frame(struct keyspace *keys, const struct frame_view *view, uint32_t *ret_id)
{
	uint64_t hash = frame_hash(view, keys->by_function);
	uint32_t id = idmap_find(&keys->frame_ids, hash, keyspace_same_frame, view, keys);

	if (id == IDMAP_NONE) {
		int err = append_frame(keys, view, hash);

		if (err)
			return err;
		id = keys->frame_nr - 1;
	} else {
		frame_merge(&keys->frame[id], view);
	}
	*ret_id = id;
	return 0;
}

/* ---- texts -------------------------------------------------------------------------------- */

static int intern_scratch(struct keyspace *keys, uint32_t *ret_id)
{
	uint32_t string;
	int err = strpool_add(&keys->texts, keys->scratch.bytes, keys->scratch.bytes_nr, &string);

	if (!err)
		*ret_id = string - 1;
	return err;
}

static int intern_frame_text(struct keyspace *keys, const struct frame_view *view,
			     uint32_t *ret_id)
{
	keys->scratch.bytes_nr = 0;
	return keys->type->frame_text(view, &keys->scratch) ?: intern_scratch(keys, ret_id);
}

static int find_class(struct keyspace *keys, const struct key_source *source, uint32_t class,
		      uint32_t *ret_id)
{
	keys->scratch.bytes_nr = 0;
	return keys->type->classes->name(&source->classes, class, &keys->scratch) ?:
	       intern_scratch(keys, ret_id);
}

/* ---- the key of a frame ------------------------------------------------------------------- */

static struct frame_view key_view(const struct keyspace *keys, const struct key_source *source, uint32_t frame)
{
	const uint32_t *key_frame = keys->options->key_frame;

	return frame_read(source->traces->snapshot, key_frame ? key_frame[frame] : frame,
			  keys->options->key_type);
}

static int find_frame(struct keyspace *keys, struct key_source *source, uint32_t frame,
		      uint32_t *ret_id)
{
	uint32_t *memo = &source->frame_key[frame];
	bool is_traceback = keys->type->kind == KEY_IS_TRACEBACK;
	struct frame_view once, *view = is_traceback ? &source->frame_view[frame] : &once;
	int err = 0;

	if (*memo == IDMAP_NONE) {
		*view = key_view(keys, source, frame);
		err = keys->type->frame_text ? intern_frame_text(keys, view, memo) :
					       keyspace_intern_frame(keys, view, memo);
	}
	*ret_id = *memo;
	return err;
}

/* ---- canonical tracebacks ----------------------------------------------------------------- */

/* list: canonical frames, oldest first */
static bool keyspace_same_traceback(uint32_t id, const void *key, const void *table)
{
	const struct keyspace *keys = table;
	const struct key_traceback *row = &keys->traceback[id];
	const struct key_list *list = key;
	const uint32_t *frame = keys->traceback_frame + row->first;

	return row->nframe == list->id_nr &&
	       !memcmp(frame, list->id, list->id_nr * sizeof(*frame));
}

static int append_traceback(struct keyspace *keys, const struct key_list *list, uint64_t hash)
{
	size_t first = keys->traceback_frame_nr, end = first + list->id_nr;
	int err;

	if (keys->traceback_nr >= IDMAP_NONE)
		return -ENOMEM;
	err = array_reserve(&keys->traceback_frame, &keys->traceback_frame_alloc, end);
	if (!err)
		err = array_reserve(&keys->traceback_view, &keys->traceback_view_alloc, end);
	if (!err)
		err = array_reserve(&keys->traceback, &keys->traceback_alloc,
				    keys->traceback_nr + 1);
	if (!err)
		err = idmap_add(&keys->traceback_ids, hash, keys->traceback_nr);
	if (err)
		return err;
	memcpy(keys->traceback_frame + first, list->id, list->id_nr * sizeof(*list->id));
	keys->traceback_frame_nr = end;
	keys->traceback[keys->traceback_nr++] =
		(struct key_traceback){ .first = first, .nframe = list->id_nr };
	return 0;
}

/*
 * Names come from the traceback itself, not from its canonical frames: without by_function one of these stands for
 * several functions, and an object or an offset may be another in each traceback.
 */
static void view_traceback(struct keyspace *keys, const struct key_source *source,
			   const struct key_traceback *row, const uint32_t *frame)
{
	for (uint32_t i = 0; i < row->nframe; i++) {
		const struct frame_view *view = &source->frame_view[frame[row->nframe - 1 - i]];
		size_t at = row->first + i;

		if (at == keys->traceback_view_nr)
			keys->traceback_view[keys->traceback_view_nr++] = *view;
		else
			frame_merge(&keys->traceback_view[at], view);
	}
}

static int find_traceback(struct keyspace *keys, const struct key_source *source,
			  const struct frame_span *span, struct key_list *list)
{
	uint64_t hash = hash_bytes(list->id, list->id_nr * sizeof(*list->id), 0);
	uint32_t id = idmap_find(&keys->traceback_ids, hash, keyspace_same_traceback, list, keys);

	if (id == IDMAP_NONE) {
		int err = append_traceback(keys, list, hash);

		if (err)
			return err;
		id = keys->traceback_nr - 1;
	}
	view_traceback(keys, source, &keys->traceback[id], span->frame);
	list->id[0] = id;
	list->id_nr = 1;
	return 0;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int find_in_traceback(struct keyspace *keys, struct key_source *source, uint32_t traceback,
			     struct key_list *list)
{
	bool is_traceback = keys->type->kind == KEY_IS_TRACEBACK;
	bool is_object = keys->type->frame_text == object_text && !keys->options->cumulative;
	struct frame_span span = source_frames(source->traces, traceback);
	size_t nr = is_traceback || keys->options->cumulative ? span.nframe : 1;
	int err = array_reserve(&list->id, &list->id_alloc, nr);

	if (is_object)
		span = source_object_frames(source->traces, traceback);
	for (size_t i = 0; i < nr && !err; i++)
		err = find_frame(keys, source, span.frame[nr - 1 - i], &list->id[i]);
	if (err)
		return err;
	list->id_nr = nr;
	return is_traceback ? find_traceback(keys, source, &span, list) : 0;
}

int keyspace_find(struct keyspace *keys, struct key_source *source, uint32_t at,
		  struct key_list *list)
{
	int err;

	if (keys->type->kind != KEY_IS_CLASS)
		return find_in_traceback(keys, source, at, list);
	err = array_reserve(&list->id, &list->id_alloc, 1);
	if (!err)
		err = find_class(keys, source, at, &list->id[0]);
	if (!err)
		list->id_nr = 1;
	return err;
}

size_t keyspace_nr(const struct keyspace *keys)
{
	switch (keys->type->kind) {
	case KEY_IS_FRAME:
		return keys->frame_nr;
	case KEY_IS_TRACEBACK:
		return keys->traceback_nr;
	case KEY_IS_FRAME_TEXT:
	case KEY_IS_CLASS:
		break;
	}
	return keys->texts.start_nr ? keys->texts.start_nr - 1 : 0;
}

/* Frames of Python's tracemalloc have neither function nor place. */
static bool is_native(const struct frame_view *frame)
{
	return frame->function || frame->object || frame->offset;
}

static const struct frame_view *choose_head(const struct keyspace *keys, const struct statistic *statistic)
{
	const struct frame_view *recent = &statistic->frame[statistic->nframe - 1];

	return !keys->options->tracemalloc && is_native(recent) ? recent : statistic->frame;
}

void keyspace_view(const struct keyspace *keys, size_t key, struct statistic *statistic)
{
	switch (keys->type->kind) {
	case KEY_IS_FRAME:
		statistic->frame = &keys->frame[key];
		statistic->nframe = 1;
		statistic->head = statistic->frame;
		break;
	case KEY_IS_TRACEBACK:
		statistic->frame = keys->traceback_view + keys->traceback[key].first;
		statistic->nframe = keys->traceback[key].nframe;
		statistic->head = choose_head(keys, statistic);
		break;
	case KEY_IS_FRAME_TEXT:
	case KEY_IS_CLASS:
		statistic->key = strpool_get(&keys->texts, key + 1);
		break;
	}
}

struct key_memory keyspace_take_memory(struct keyspace *keys)
{
	bool is_traceback = keys->type->kind == KEY_IS_TRACEBACK;
	struct frame_view **views = is_traceback ? &keys->traceback_view : &keys->frame;
	struct key_memory memory = { .views = *views, .texts = keys->texts.bytes };

	*views = NULL;
	keys->texts.bytes = NULL;
	return memory;
}
