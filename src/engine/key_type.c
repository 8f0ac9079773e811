// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/key_type.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "engine/trace_source.h"
#include "engine/selector.h"

int key_text_add(struct key_text *text, const char *string)
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

int key_text_add_number(struct key_text *text, uint64_t number)
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

const struct class_type domain_classes = { .find = find_trace_domain_class, .name = name_number };

static int prepare_threads(struct classes *classes, struct reason *why)
{
	return check_threads(classes->source->tables, why);
}

static int find_thread(struct classes *classes, uint64_t at, uint32_t *ret_class)
{
	return find_number(classes, classes->source->tables->trace_thread[at], ret_class);
}

const struct class_type thread_classes = {
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

const struct class_type process_classes = { .find = find_process, .name = name_process };

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

const struct class_type size_classes = { .find = find_size, .name = name_size };

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

void classes_release(struct classes *classes)
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
	return key_text_add(text, frame->object ?: "<unknown>");
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
