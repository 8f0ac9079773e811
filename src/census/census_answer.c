// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "census/census.h"
#include "census/census_json.h"
#include "render/emitter.h"

#define SIZE(bytes) format_size((char[UNIT_TEXT_MAX]){}, bytes, false)
#define CHANGE(bytes) format_size((char[UNIT_TEXT_MAX]){}, bytes, true)
#define MUCH (1u << 20) /* less free memory than this is not worth a word */
#define LITTLE (64u << 10) /* a change of fewer bytes is none */

static int64_t minus(uint64_t new, uint64_t old)
{
	return (int64_t)(new - old);
}

/* ---- one census ---- */

/* Bytes of glibc's free chunks that are resident. */
static uint64_t resident_free(const struct census_sum *sum)
{
	return sum->free.bytes > sum->absent_bytes ? sum->free.bytes - sum->absent_bytes : 0;
}

/* Resident bytes, by what they are. */
struct census_shares {
	uint64_t in_use, free, elsewhere;
};

static struct census_shares census_shares_of(const struct census *census, const struct census_sum *sum)
{
	struct census_shares shares = { .in_use = sum->in_use.bytes + sum->overhead_bytes };
	const struct census_python *python = &census->python;
	uint64_t heaps = sum->resident_bytes + census->mmapped.told.bytes, python_used;

	shares.free = resident_free(sum);
	python_used = python->in_use.bytes + python->overhead_bytes + python->unwalked_bytes;
	shares.in_use += python_used;
	shares.free += python->resident_bytes > python_used ? python->resident_bytes - python_used : 0;
	heaps += python->resident_bytes;
	shares.elsewhere = census->resident_bytes > heaps ? census->resident_bytes - heaps : 0;
	return shares;
}

static void put_in_use(struct emitter *out, const struct census *census, const struct census_sum *sum)
{
	const struct census_count *own = &census->mmapped.told;
	char mapped[96] = "";

	if (own->count)
		snprintf(mapped, sizeof(mapped), ", %" PRIu64 " of them with a mapping of their own (%s)", own->count,
			 SIZE(own->bytes));
	emit_line(out, "  %-14s %10s  %" PRIu64 " blocks%s", "in use", SIZE(sum->in_use.bytes), sum->in_use.count,
		  mapped);
}

static void put_python(struct emitter *out, const struct census_python *python)
{
	if (!*python->version)
		return;
	if (*python->why)
		emit_line(out, "  %-14s %10s  %s: its small objects are elsewhere", "Python", python->version,
			  python->why);
	else
		emit_line(out, "  %-14s %10s  %" PRIu64 " small blocks of Python %s; %s free between them, %s in free "
			  "pools", "in use, Python", SIZE(python->in_use.bytes), python->in_use.count, python->version,
			  SIZE(python->free.bytes), SIZE(python->free_pool_bytes));
}

static void put_census_shares(struct emitter *out, const struct census *census, const struct census_sum *sum)
{
	struct census_shares shares = census_shares_of(census, sum);

	put_in_use(out, census, sum);
	emit_line(out, "  %-14s %10s  %s of it resident; malloc_trim() would give back %s", "free in heaps",
		  SIZE(sum->free.bytes), SIZE(resident_free(sum)), SIZE(sum->trimmable_bytes));
	put_python(out, &census->python);
	if (sum->unwalked_bytes)
		emit_line(out, "  %-14s %10s  of heaps: their blocks could not be told apart", "not known",
			  SIZE(sum->unwalked_bytes));
	emit_line(out, "  %-14s %10s  resident: code, stacks, the program's own mappings, other allocators",
		  "elsewhere", SIZE(shares.elsewhere));
}

/* Leak, cache or fragmentation? One census cannot tell the first two apart. */
static void put_census_verdict(struct emitter *out, const struct census *census, const struct census_sum *sum)
{
	struct census_shares shares = census_shares_of(census, sum);
	uint64_t heap = shares.in_use + shares.free;
	double free_part = heap ? 100.0 * shares.free / heap : 0;

	if (!census->arena_nr)
		emit_toned_line(out, TONE_ALARM, "%s", census->no_heap);
	else if (census->loss[CENSUS_LOSS_BYTES_UNWALKED] > heap)
		emit_toned_line(out, TONE_ALARM, "Most of the heap could not be read: what it holds is not known.");
	else if (shares.elsewhere > heap)
		emit_toned_line(out, TONE_HEAD, "Most of the resident memory is in none of these heaps.");
	else if (free_part >= 50 && shares.free >= MUCH)
		emit_toned_line(out, TONE_HEAD, "Free blocks hold %.0f %% of the heap's resident memory: "
				"fragmentation, or what is left of a peak. This is no leak.", free_part);
	else if (free_part >= 20 && shares.free >= MUCH)
		emit_toned_line(out, TONE_HEAD, "Free blocks hold %.0f %% of the heap's resident memory: the rest is "
				"in use.", free_part);
	else
		emit_toned_line(out, TONE_HEAD, "The heap is in use (%.0f %%): if it grows, the program keeps blocks, "
				"as a leak or a cache.", 100 - free_part);
}

/* ---- tables: at most `top` of `nr` rows ---- */

struct census_table {
	uint64_t shown;
	size_t nr;
};

static struct census_table begin_table(struct emitter *out, const char *head, uint64_t top, size_t nr)
{
	if (nr) {
		emit_line(out, "%s", "");
		emit_toned_line(out, TONE_HEAD, "%s", head);
	}
	return (struct census_table){ top && top < nr ? top : nr, nr };
}

static void end_table(struct emitter *out, const struct census_table *table)
{
	if (table->shown < table->nr)
		emit_line(out, "  … and %" PRIu64 " more (--top 0 lists all)", table->nr - table->shown);
}

static uint64_t state_bytes(const struct census_arena *arena, enum census_state from, enum census_state to)
{
	uint64_t bytes = 0;

	for (enum census_state s = from; s <= to; s++)
		bytes += arena->state[s].bytes;
	return bytes;
}

static int compare_arenas(const void *one, const void *two)
{
	const struct census_arena *const *a = one, *const *b = two;

	return ((*a)->system_bytes < (*b)->system_bytes) - ((*a)->system_bytes > (*b)->system_bytes) ?:
	       ((*a)->address > (*b)->address) - ((*a)->address < (*b)->address);
}

static void put_arena(struct emitter *out, const struct census_arena *arena)
{
	emit_line(out, "  %-14s %10" PRIu64 " %10s %10s %10s %10s %10s",
		  arena->is_main ? "main" : SIZE(arena->system_bytes),
		  arena->state[CENSUS_IN_USE].count, SIZE(arena->state[CENSUS_IN_USE].bytes),
		  SIZE(state_bytes(arena, CENSUS_TCACHE, CENSUS_FASTBINS)),
		  SIZE(state_bytes(arena, CENSUS_UNSORTED, CENSUS_LARGE)), SIZE(arena->state[CENSUS_TOP].bytes),
		  SIZE(arena->resident_bytes));
}

static void put_arenas(struct emitter *out, const struct census *census, uint64_t top)
{
	const struct census_arena **arena = calloc(census->arena_nr ?: 1, sizeof(*arena));
	struct census_table table = begin_table(out, "  arena              blocks     in use     cached     binned"
						"        top   resident", top, census->arena_nr);

	emit_err(out, arena ? 0 : -ENOMEM);
	for (size_t i = 0; arena && i < table.nr; i++)
		arena[i] = &census->arena[i];
	if (arena)
		qsort(arena, table.nr, sizeof(*arena), compare_arenas);
	for (size_t i = 0; arena && i < table.shown; i++)
		put_arena(out, arena[i]);
	end_table(out, &table);
	free(arena);
}

struct class_row {
	size_t class;
	const struct census_class *counts;
};

static uint64_t class_bytes(const struct class_row *row)
{
	return row->counts->in_use.bytes + row->counts->cached.bytes + row->counts->free.bytes;
}

static int compare_classes(const void *one, const void *two)
{
	uint64_t a = class_bytes(one), b = class_bytes(two);

	return (a < b) - (a > b);
}

/* "64 B", "to 4096 B" */
static const char *class_label(char text[UNIT_TEXT_MAX], size_t class)
{
	uint64_t most = census_class_most(class);

	if (class < CENSUS_EXACT_CLASSES)
		snprintf(text, UNIT_TEXT_MAX, "%" PRIu64 " B", most);
	else
		snprintf(text, UNIT_TEXT_MAX, "to %s", SIZE(most));
	return text;
}

static void put_classes(struct emitter *out, const struct census_sum *sum, uint64_t top)
{
	struct class_row row[CENSUS_CLASS_NR];
	struct census_table table;
	char label[UNIT_TEXT_MAX];
	size_t nr = 0;

	for (size_t i = 0; i < CENSUS_CLASS_NR; i++)
		if (class_bytes(&(struct class_row){ i, &sum->class[i] }))
			row[nr++] = (struct class_row){ i, &sum->class[i] };
	qsort(row, nr, sizeof(*row), compare_classes);
	table = begin_table(out, "  chunks of          blocks     in use     cached     binned", top, nr);
	for (size_t i = 0; i < table.shown; i++)
		emit_line(out, "  %-14s %10" PRIu64 " %10s %10s %10s", class_label(label, row[i].class),
			  row[i].counts->in_use.count, SIZE(row[i].counts->in_use.bytes),
			  SIZE(row[i].counts->cached.bytes), SIZE(row[i].counts->free.bytes));
	end_table(out, &table);
}

static const char *type_label(const char *name)
{
	return *name ? name : "(no object: tables of dicts, lists and sets, …)";
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

/* The change from no object at all. */
static void put_python_types(struct emitter *out, const struct census_python *python, uint64_t top)
{
	static const struct census_python none;
	size_t nr = 0;
	struct type_change *row = type_changes(&none, python, &nr);
	struct census_table table = begin_table(out, "      blocks     in use  Python's objects of type", top, nr);

	emit_err(out, row ? 0 : -ENOMEM);
	for (size_t i = 0; i < table.shown; i++)
		emit_line(out, "  %10" PRIu64 " %10s  %s", row[i].new.count, SIZE(row[i].new.bytes),
			  type_label(row[i].name));
	end_table(out, &table);
	free(row);
}

/* Losses: facts that the census lacks. */
static void put_census_losses(struct emitter *out, const struct census *census)
{
	for (enum census_loss i = 0; i < CENSUS_LOSS_NR; i++)
		if (census->loss[i])
			emit_line(out, "%s %" PRIu64 ": %s", census_loss_names[i], census->loss[i],
				  census_loss_texts[i]);
}

static void put_census(struct emitter *out, const struct census *census, uint64_t top)
{
	struct census_sum sum;

	census_add_up(census, &sum);
	emit_line(out, "process %" PRIu64 " (%s): %s resident", census->pid, census->name,
		  SIZE(census->resident_bytes));
	if (census->arena_nr)
		put_census_shares(out, census, &sum);
	put_census_verdict(out, census, &sum);
	put_python_types(out, &census->python, top);
	put_arenas(out, census, top);
	put_classes(out, &sum, top);
	put_census_losses(out, census);
}

int census_put(FILE *file, const struct census *census, uint64_t top, bool is_json)
{
	struct emitter out = emit_to(file, is_json);

	if (is_json)
		emit_census(&out, census);
	else
		put_census(&out, census, top);
	return emit_finish(&out);
}

/* ---- the change from one to another ---- */

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

/* The part that has grown most; GREW_UNKNOWN if at least as many bytes have no known place. */
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

static void emit_diff_verdict(struct emitter *out, enum census_verdict verdict, uint64_t unknown)
{
	emit_text(out, "grew_most", verdicts[verdict].name);
	emit_uint(out, "unknown_bytes", unknown);
	if (verdict == GREW_UNKNOWN)
		emit_toned_line(out, TONE_ALARM, "What grew is not known: the two censuses do not know the place of "
				"%s, and no part grew by more.", SIZE(unknown));
	else
		emit_toned_line(out, verdicts[verdict].tone, "%s", verdicts[verdict].text);
}

static void emit_change_members(struct emitter *out, const struct census_count *old, const struct census_count *new)
{
	emit_uint(out, "count", new->count);
	emit_uint(out, "bytes", new->bytes);
	emit_int(out, "count_diff", minus(new->count, old->count));
	emit_int(out, "bytes_diff", minus(new->bytes, old->bytes));
}

static void emit_change(struct emitter *out, const char *key, const struct census_count *old,
			const struct census_count *new)
{
	emit_object(out, key);
	emit_change_members(out, old, new);
	emit_end(out);
}

/* ---- Python's types ---- */

/* Whether both censuses know Python's small blocks. */
static bool has_python(const struct census *old, const struct census *new)
{
	return *old->python.version && *new->python.version && !*old->python.why && !*new->python.why;
}

static void emit_type_changes(struct emitter *out, const struct census_python *old, const struct census_python *new,
			      uint64_t top)
{
	size_t nr = 0;
	struct type_change *row = type_changes(old, new, &nr);
	struct census_table table = begin_table(out, "     blocks +    in use +      in use  Python's objects of type",
						top, nr);

	emit_err(out, row ? 0 : -ENOMEM);
	emit_list(out, "types");
	for (size_t i = 0; i < nr; i++) {
		emit_object(out, NULL);
		emit_text(out, "name", *row[i].name ? row[i].name : NULL);
		emit_change_members(out, &row[i].old, &row[i].new);
		emit_end(out);
		if (i < table.shown)
			emit_line(out, "  %+11" PRId64 " %11s %11s  %s", minus(row[i].new.count, row[i].old.count),
				  CHANGE(minus(row[i].new.bytes, row[i].old.bytes)), SIZE(row[i].new.bytes),
				  type_label(row[i].name));
	}
	emit_end(out);
	end_table(out, &table);
	free(row);
}

static void emit_python_change(struct emitter *out, const struct census_python *old, const struct census_python *new,
			       uint64_t top)
{
	emit_object(out, "python");
	emit_change(out, "in_use", &old->in_use, &new->in_use);
	emit_change(out, "free", &old->free, &new->free);
	emit_type_changes(out, old, new, top);
	emit_end(out);
}

/* ---- chunks ---- */

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

static void emit_class_part(struct emitter *out, const char *key, const struct census_count *old,
			    const struct census_count *new)
{
	if (old->count || new->count)
		emit_change(out, key, old, new);
}

/* As text, the largest change first. */
static void emit_class_changes(struct emitter *out, const struct census_sum *old, const struct census_sum *new,
			       uint64_t top)
{
	struct class_change change[CENSUS_CLASS_NR], *row = change;
	struct census_table table;
	char label[UNIT_TEXT_MAX];
	size_t nr = 0;

	for (size_t i = 0; i < CENSUS_CLASS_NR; i++) {
		change[nr] = (struct class_change){ i, &old->class[i], &new->class[i] };
		nr += used_change(&change[nr]) || unused_change(&change[nr]);
	}
	if (!out->is_json)
		qsort(change, nr, sizeof(*change), compare_class_changes);
	table = begin_table(out, "  chunks of         blocks +    in use +      in use      free +", top, nr);
	emit_list(out, "classes");
	for (; row < change + nr; row++) {
		emit_object(out, NULL);
		emit_uint(out, "chunk_bytes", census_class_most(row->class));
		emit_class_part(out, "in_use", &row->old->in_use, &row->new->in_use);
		emit_class_part(out, "cached", &row->old->cached, &row->new->cached);
		emit_class_part(out, "free", &row->old->free, &row->new->free);
		emit_end(out);
		if (row < change + table.shown)
			emit_line(out, "  %-14s %+11" PRId64 " %11s %11s %11s", class_label(label, row->class),
				  minus(row->new->in_use.count, row->old->in_use.count), CHANGE(used_change(row)),
				  SIZE(row->new->in_use.bytes), CHANGE(unused_change(row)));
	}
	emit_end(out);
	end_table(out, &table);
}

static void emit_glibc_change(struct emitter *out, const struct census_sum *old, const struct census_sum *new,
			      uint64_t top)
{
	emit_object(out, "glibc");
	emit_change(out, "in_use", &old->in_use, &new->in_use);
	emit_change(out, "free", &old->free, &new->free);
	emit_class_changes(out, old, new, top);
	emit_end(out);
}

/* ---- all ---- */

static void emit_census_origin(struct emitter *out, const char *key, const struct census *census)
{
	emit_object(out, key);
	emit_text(out, "name", census->name);
	emit_uint(out, "pid", census->pid);
	emit_uint(out, "time_ns", census->time_ns);
	emit_end(out);
}

static void emit_diff_head(struct emitter *out, const struct census *old, const struct census *new)
{
	char than[UNIT_TEXT_MAX + CENSUS_NAME_MAX + 48], seconds[UNIT_TEXT_MAX];

	emit_text(out, "schema", CENSUS_DIFF_SCHEMA);
	emit_census_origin(out, "old", old);
	emit_census_origin(out, "new", new);
	emit_uint(out, "resident_bytes", new->resident_bytes);
	emit_int(out, "resident_bytes_diff", minus(new->resident_bytes, old->resident_bytes));
	format_seconds(seconds, new->time_ns > old->time_ns ? new->time_ns - old->time_ns : 0);
	if (old->pid == new->pid)
		snprintf(than, sizeof(than), "after %s", seconds);
	else
		snprintf(than, sizeof(than), "compared with process %" PRIu64 " (%s)", old->pid, old->name);
	emit_line(out, "process %" PRIu64 " (%s), %s: %s resident, %s", new->pid, new->name, than,
		  SIZE(new->resident_bytes), CHANGE(minus(new->resident_bytes, old->resident_bytes)));
}

static void put_share(struct emitter *out, const char *name, uint64_t old, uint64_t new)
{
	emit_line(out, "  %-14s %11s  now %s", name, CHANGE(minus(new, old)), SIZE(new));
}

static void emit_diff(struct emitter *out, const struct census *old, const struct census *new, uint64_t top)
{
	bool has_both = has_python(old, new);
	struct census_shares before, after;
	struct census_sum old_sum, new_sum;

	census_add_up(old, &old_sum);
	census_add_up(new, &new_sum);
	before = census_shares_of(old, &old_sum);
	after = census_shares_of(new, &new_sum);
	emit_diff_head(out, old, new);
	put_share(out, "in use", old_sum.in_use.bytes, new_sum.in_use.bytes);
	if (has_both)
		put_share(out, "in use, Python", old->python.in_use.bytes, new->python.in_use.bytes);
	put_share(out, "free, resident", before.free, after.free);
	put_share(out, "elsewhere", before.elsewhere, after.elsewhere);
	emit_diff_verdict(out, grown_part(&before, &after, unknown_bytes(old, new)), unknown_bytes(old, new));
	if (has_both && !out->is_json)
		emit_python_change(out, &old->python, &new->python, top);
	emit_glibc_change(out, &old_sum, &new_sum, top);
	if (has_both && out->is_json)
		emit_python_change(out, &old->python, &new->python, top);
	if (census_unknown_bytes(old))
		emit_line(out, "The first census does not know the place of %s.", SIZE(census_unknown_bytes(old)));
	put_census_losses(out, new);
}

int census_put_diff(FILE *file, const struct census *old, const struct census *new, uint64_t top, bool is_json)
{
	struct emitter out = emit_to(file, is_json);

	emit_diff(&out, old, new, top);
	return emit_finish(&out);
}
