// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/census_diff.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "cli/census_text.h"
#include "collect/census/census.h"
#include "render/clean.h"
#include "render/json_parts.h"

#define SIZE(bytes) format_size((char[UNIT_TEXT_MAX]){}, bytes, false)
#define CHANGE(bytes) format_size((char[UNIT_TEXT_MAX]){}, bytes, true)
#define LITTLE (64u << 10) /* a change of fewer bytes is none */

static int64_t minus(uint64_t new, uint64_t old)
{
	return (int64_t)(new - old);
}

/* ---- the answer ---- */

enum census_verdict {
	GREW_UNKNOWN,
	GREW_NOTHING,
	GREW_IN_USE,
	GREW_FREE,
	GREW_ELSEWHERE,
};

static const struct {
	const char *name; /* in JSON */
	enum tone tone;
	const char *text;
} verdicts[] = {
	[GREW_UNKNOWN] = { "unknown", TONE_ALARM, NULL },
	[GREW_NOTHING] = { "nothing", TONE_HEAD, "Nothing grew." },
	[GREW_IN_USE] = { "in_use", TONE_GROWTH,
			  "Blocks in use grew most: the program keeps them, as a leak or a cache. 'allocsnap leaks PID' names the "
			  "lines." },
	[GREW_FREE] = { "free", TONE_GROWTH,
			"Free memory in the heap grew most: fragmentation, or what is left of a peak." },
	[GREW_ELSEWHERE] = { "elsewhere", TONE_GROWTH, "Memory outside of glibc's heap grew most." },
};

static uint64_t unknown_bytes(const struct census *old, const struct census *new)
{
	return census_unknown_bytes(old) + census_unknown_bytes(new);
}

/* The part that has grown most. Where more is not known than any part has grown, nothing tells which one it is. */
static enum census_verdict grown_part(const struct census_shares *old, const struct census_shares *new, uint64_t unknown)
{
	int64_t used = minus(new->in_use, old->in_use), unused = minus(new->free, old->free);
	int64_t elsewhere = minus(new->elsewhere, old->elsewhere);
	int64_t most = used > unused ? used : unused;

	if (elsewhere > most)
		most = elsewhere;
	if (unknown >= LITTLE && (most < 0 || unknown >= (uint64_t)most))
		return GREW_UNKNOWN;
	if (most < LITTLE)
		return GREW_NOTHING;
	return used == most ? GREW_IN_USE : unused == most ? GREW_FREE : GREW_ELSEWHERE;
}

static int put_diff_verdict(FILE *out, enum census_verdict verdict, uint64_t unknown)
{
	if (verdict == GREW_UNKNOWN)
		return put_toned_line(out, TONE_ALARM, "What grew is not known: the two censuses do not know the place of %s, and no part "
				      "grew by more.", SIZE(unknown));
	return put_toned_line(out, verdicts[verdict].tone, "%s", verdicts[verdict].text);
}

/* ---- Python's types ---- */

/* Whether both censuses know Python's small blocks. */
static bool has_python(const struct census *old, const struct census *new)
{
	return *old->python.version && *new->python.version && !*old->python.why && !*new->python.why;
}

struct type_change {
	const char *name;
	struct census_count old, new;
};

static int compare_change_names(const void *one, const void *two)
{
	const struct type_change *a = one, *b = two;

	return strcmp(a->name, b->name);
}

static int compare_type_changes(const void *one, const void *two)
{
	const struct type_change *a = one, *b = two;
	int64_t x = llabs(minus(a->new.bytes, a->old.bytes)), y = llabs(minus(b->new.bytes, b->old.bytes));

	return (x < y) - (x > y) ?: strcmp(a->name, b->name);
}

/* The types whose blocks changed, the largest change first. The caller frees them; NULL: no memory. */
static struct type_change *type_changes(const struct census_python *old, const struct census_python *new, size_t *ret_nr)
{
	struct type_change *row = calloc(old->type_nr + new->type_nr + 1, sizeof(*row));
	size_t all = 0, names = 0, nr = 0;

	if (!row)
		return NULL;
	for (size_t i = 0; i < old->type_nr; i++)
		row[all++] = (struct type_change){ .name = old->type[i].name, .old = old->type[i].blocks };
	for (size_t i = 0; i < new->type_nr; i++)
		row[all++] = (struct type_change){ .name = new->type[i].name, .new = new->type[i].blocks };
	qsort(row, all, sizeof(*row), compare_change_names);
	for (size_t i = 0; i < all; i++) {
		if (!names || strcmp(row[names - 1].name, row[i].name)) {
			row[names++] = row[i];
			continue;
		}
		census_add_count(&row[names - 1].old, &row[i].old);
		census_add_count(&row[names - 1].new, &row[i].new);
	}
	for (size_t i = 0; i < names; i++)
		if (row[i].old.count != row[i].new.count || row[i].old.bytes != row[i].new.bytes)
			row[nr++] = row[i];
	qsort(row, nr, sizeof(*row), compare_type_changes);
	*ret_nr = nr;
	return row;
}

/* ---- text ---- */

static int put_type_changes(FILE *out, const struct census_python *old, const struct census_python *new, uint64_t top)
{
	size_t nr = 0;
	struct type_change *row = type_changes(old, new, &nr);
	int err = row ? 0 : -ENOMEM;

	if (nr)
		err = census_put_table_head(out, "  %11s %11s %11s  %s", "blocks +", "in use +", "in use", "Python's objects of type");
	for (size_t i = 0; i < nr && !err && (!top || i < top); i++)
		err = put_line(out, "  %+11" PRId64 " %11s %11s  %s", minus(row[i].new.count, row[i].old.count),
			       CHANGE(minus(row[i].new.bytes, row[i].old.bytes)), SIZE(row[i].new.bytes), census_type_label(row[i].name));
	free(row);
	return err ?: census_put_more(out, top, nr);
}

static int put_share(FILE *out, const char *name, uint64_t old, uint64_t new)
{
	return put_line(out, "  %-14s %11s  now %s", name, CHANGE(minus(new, old)), SIZE(new));
}

struct class_change {
	size_t class;
	const struct census_class *old, *new;
};

static int64_t used_change(const struct class_change *row)
{
	return minus(row->new->in_use.bytes, row->old->in_use.bytes);
}

static int64_t unused_change(const struct class_change *row)
{
	return minus(row->new->cached.bytes + row->new->free.bytes, row->old->cached.bytes + row->old->free.bytes);
}

static int compare_class_changes(const void *one, const void *two)
{
	const struct class_change *a = one, *b = two;
	int64_t x = llabs(used_change(a)) ?: llabs(unused_change(a)), y = llabs(used_change(b)) ?: llabs(unused_change(b));

	return (x < y) - (x > y) ?: (a->class > b->class) - (a->class < b->class);
}

static int put_class_change(FILE *out, const struct class_change *row)
{
	char label[UNIT_TEXT_MAX];

	return put_line(out, "  %-14s %+11" PRId64 " %11s %11s %11s", census_class_label(label, row->class),
			minus(row->new->in_use.count, row->old->in_use.count), CHANGE(used_change(row)),
			SIZE(row->new->in_use.bytes), CHANGE(unused_change(row)));
}

static int put_class_changes(FILE *out, const struct census_sum *old, const struct census_sum *new, uint64_t top)
{
	struct class_change row[CENSUS_CLASS_NR];
	size_t nr = 0;
	int err = 0;

	for (size_t i = 0; i < CENSUS_CLASS_NR; i++) {
		row[nr] = (struct class_change){ i, &old->class[i], &new->class[i] };
		nr += used_change(&row[nr]) || unused_change(&row[nr]);
	}
	qsort(row, nr, sizeof(*row), compare_class_changes);
	if (nr)
		err = census_put_table_head(out, "  %-14s %11s %11s %11s %11s", "chunks of", "blocks +", "in use +", "in use", "free +");
	for (size_t i = 0; i < nr && !err && (!top || i < top); i++)
		err = put_class_change(out, &row[i]);
	return err ?: census_put_more(out, top, nr);
}

static int put_diff_losses(FILE *out, const struct census *old, const struct census *new)
{
	int err = 0;

	if (census_unknown_bytes(old))
		err = put_line(out, "The first census does not know the place of %s.", SIZE(census_unknown_bytes(old)));
	return err ?: census_put_losses(out, new);
}

int census_diff_text(FILE *out, const struct census *old, const struct census *new, uint64_t top)
{
	struct census_sum old_sum, new_sum;
	struct census_shares before, after;
	char seconds[UNIT_TEXT_MAX];
	int err;

	census_add_up(old, &old_sum);
	census_add_up(new, &new_sum);
	before = census_shares_of(old, &old_sum);
	after = census_shares_of(new, &new_sum);
	format_seconds(seconds, new->time_ns > old->time_ns ? new->time_ns - old->time_ns : 0);
	if (old->pid == new->pid)
		err = put_line(out, "process %" PRIu64 " (%s), after %s: %s resident, %s", new->pid, new->name, seconds,
			       SIZE(new->resident_bytes), CHANGE(minus(new->resident_bytes, old->resident_bytes)));
	else
		err = put_line(out, "process %" PRIu64 " (%s), compared with process %" PRIu64 " (%s): %s resident, %s", new->pid,
			       new->name, old->pid, old->name, SIZE(new->resident_bytes),
			       CHANGE(minus(new->resident_bytes, old->resident_bytes)));
	err = err ?: put_share(out, "in use", old_sum.in_use.bytes, new_sum.in_use.bytes);
	if (has_python(old, new))
		err = err ?: put_share(out, "in use, Python", old->python.in_use.bytes, new->python.in_use.bytes);
	err = err ?: put_share(out, "free, resident", before.free, after.free);
	err = err ?: put_share(out, "elsewhere", before.elsewhere, after.elsewhere);
	err = err ?: put_diff_verdict(out, grown_part(&before, &after, unknown_bytes(old, new)), unknown_bytes(old, new));
	if (has_python(old, new))
		err = err ?: put_type_changes(out, &old->python, &new->python, top);
	err = err ?: put_class_changes(out, &old_sum, &new_sum, top);
	return err ?: put_diff_losses(out, old, new);
}

/* ---- JSON ---- */

static int set_count_members(json_t *object, const struct census_count *old, const struct census_count *new)
{
	int err = json_set_uint(object, "count", new->count) ?: json_set_uint(object, "bytes", new->bytes);

	err = err ?: json_set_int(object, "count_diff", minus(new->count, old->count));
	return err ?: json_set_int(object, "bytes_diff", minus(new->bytes, old->bytes));
}

static json_t *count_change_json(const struct census_count *old, const struct census_count *new)
{
	json_t *object = json_object();

	return json_unless(set_count_members(object, old, new), object);
}

static int set_count_change(json_t *object, const char *key, const struct census_count *old, const struct census_count *new)
{
	return old->count || new->count ? json_set(object, key, count_change_json(old, new)) : 0;
}

static json_t *class_change_json(const struct class_change *row)
{
	json_t *object = json_object();
	int err = json_set_uint(object, "chunk_bytes", census_class_most(row->class));

	err = err ?: set_count_change(object, "in_use", &row->old->in_use, &row->new->in_use);
	err = err ?: set_count_change(object, "cached", &row->old->cached, &row->new->cached);
	err = err ?: set_count_change(object, "free", &row->old->free, &row->new->free);
	return json_unless(err, object);
}

static json_t *class_changes_json(const struct census_sum *old, const struct census_sum *new)
{
	json_t *list = json_array();
	int err = 0;

	for (size_t i = 0; i < CENSUS_CLASS_NR && !err; i++) {
		struct class_change row = { i, &old->class[i], &new->class[i] };

		if (used_change(&row) || unused_change(&row))
			err = json_array_append_new(list, class_change_json(&row)) ? -ENOMEM : 0;
	}
	return json_unless(err, list);
}

static json_t *type_change_json(const struct type_change *row)
{
	json_t *object = json_object();
	int err = *row->name ? json_set_text(object, "name", row->name) : 0;

	return json_unless(err ?: set_count_members(object, &row->old, &row->new), object);
}

static json_t *python_change_json(const struct census_python *old, const struct census_python *new)
{
	json_t *object = json_object(), *list = json_array();
	size_t nr = 0;
	struct type_change *row = type_changes(old, new, &nr);
	int err = row ? 0 : -ENOMEM;

	for (size_t i = 0; i < nr && !err; i++)
		err = json_array_append_new(list, type_change_json(&row[i])) ? -ENOMEM : 0;
	free(row);
	list = json_unless(err, list);
	err = json_set(object, "in_use", count_change_json(&old->in_use, &new->in_use));
	err = err ?: json_set(object, "free", count_change_json(&old->free, &new->free));
	if (json_set(object, "types", list))
		err = -ENOMEM;
	return json_unless(err, object);
}

static json_t *census_origin_json(const struct census *census)
{
	json_t *object = json_object();
	int err = json_set_text(object, "name", census->name) ?: json_set_uint(object, "pid", census->pid);

	return json_unless(err ?: json_set_uint(object, "time_ns", census->time_ns), object);
}

json_t *census_diff_json(const struct census *old, const struct census *new)
{
	struct census_sum old_sum, new_sum;
	struct census_shares before, after;
	json_t *object = json_object(), *glibc = json_object();
	int err;

	census_add_up(old, &old_sum);
	census_add_up(new, &new_sum);
	before = census_shares_of(old, &old_sum);
	after = census_shares_of(new, &new_sum);
	err = json_set(glibc, "in_use", count_change_json(&old_sum.in_use, &new_sum.in_use));
	err = err ?: json_set(glibc, "free", count_change_json(&old_sum.free, &new_sum.free));
	err = err ?: json_set(glibc, "classes", class_changes_json(&old_sum, &new_sum));
	glibc = json_unless(err, glibc);
	err = json_set_text(object, "schema", CENSUS_DIFF_SCHEMA);
	err = err ?: json_set(object, "old", census_origin_json(old));
	err = err ?: json_set(object, "new", census_origin_json(new));
	err = err ?: json_set_uint(object, "resident_bytes", new->resident_bytes);
	err = err ?: json_set_int(object, "resident_bytes_diff", minus(new->resident_bytes, old->resident_bytes));
	err = err ?: json_set_text(object, "grew_most", verdicts[grown_part(&before, &after, unknown_bytes(old, new))].name);
	err = err ?: json_set_uint(object, "unknown_bytes", unknown_bytes(old, new));
	if (json_set(object, "glibc", glibc))
		err = -ENOMEM;
	if (has_python(old, new))
		err = err ?: json_set(object, "python", python_change_json(&old->python, &new->python));
	return json_unless(err, object);
}
