// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/census_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "collect/census/census.h"
#include "render/clean.h"

#define SIZE(bytes) format_size((char[UNIT_TEXT_MAX]){}, bytes, false)
#define MUCH (1u << 20) /* less free memory than this is not worth a word */

/* ---- the answer ---- */

/* Bytes of glibc's free chunks that are resident. */
static uint64_t resident_free(const struct census_sum *sum)
{
	return sum->free.bytes > sum->absent_bytes ? sum->free.bytes - sum->absent_bytes : 0;
}

struct census_shares census_shares_of(const struct census *census, const struct census_sum *sum)
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

static int put_in_use(FILE *out, const struct census *census, const struct census_sum *sum)
{
	const struct census_count *own = &census->mmapped.told;

	if (!own->count)
		return put_line(out, "  %-14s %10s  %" PRIu64 " blocks", "in use", SIZE(sum->in_use.bytes), sum->in_use.count);
	return put_line(out, "  %-14s %10s  %" PRIu64 " blocks, %" PRIu64 " of them with a mapping of their own (%s)", "in use",
			SIZE(sum->in_use.bytes), sum->in_use.count, own->count, SIZE(own->bytes));
}

static int put_python(FILE *out, const struct census_python *python)
{
	if (!*python->version)
		return 0;
	if (*python->why)
		return put_line(out, "  %-14s %10s  %s: its small objects are elsewhere", "Python", python->version, python->why);
	return put_line(out, "  %-14s %10s  %" PRIu64 " small blocks of Python %s; %s free between them, %s in free pools", "in use, Python",
			SIZE(python->in_use.bytes), python->in_use.count, python->version, SIZE(python->free.bytes),
			SIZE(python->free_pool_bytes));
}

static int put_census_shares(FILE *out, const struct census *census, const struct census_sum *sum)
{
	struct census_shares shares = census_shares_of(census, sum);
	int err = put_in_use(out, census, sum);

	err = err ?: put_line(out, "  %-14s %10s  %s of it resident; malloc_trim() would give back %s", "free in heaps",
			      SIZE(sum->free.bytes), SIZE(resident_free(sum)), SIZE(sum->trimmable_bytes));
	err = err ?: put_python(out, &census->python);
	if (sum->unwalked_bytes)
		err = err ?: put_line(out, "  %-14s %10s  of heaps: their blocks could not be told apart", "not known",
				      SIZE(sum->unwalked_bytes));
	return err ?: put_line(out, "  %-14s %10s  resident: code, stacks, the program's own mappings, other allocators",
			       "elsewhere", SIZE(shares.elsewhere));
}

/* Leak, cache or fragmentation? One census cannot tell the first two apart. */
static int put_census_verdict(FILE *out, const struct census *census, const struct census_sum *sum)
{
	struct census_shares shares = census_shares_of(census, sum);
	uint64_t heap = shares.in_use + shares.free;
	double free_part = heap ? 100.0 * shares.free / heap : 0;

	if (!census->arena_nr)
		return put_toned_line(out, TONE_ALARM, "%s", census->no_heap);
	if (census->loss[CENSUS_LOSS_BYTES_UNWALKED] > heap)
		return put_toned_line(out, TONE_ALARM, "Most of the heap could not be read: what it holds is not known.");
	if (shares.elsewhere > heap)
		return put_toned_line(out, TONE_HEAD, "Most of the resident memory is in none of these heaps.");
	if (free_part >= 50 && shares.free >= MUCH)
		return put_toned_line(out, TONE_HEAD, "Free blocks hold %.0f %% of the heap's resident memory: fragmentation, or "
				      "what is left of a peak. This is no leak.", free_part);
	if (free_part >= 20 && shares.free >= MUCH)
		return put_toned_line(out, TONE_HEAD, "Free blocks hold %.0f %% of the heap's resident memory: the rest is in use.",
				      free_part);
	return put_toned_line(out, TONE_HEAD, "The heap is in use (%.0f %%): if it grows, the program keeps blocks, as a leak or a "
			      "cache.", 100 - free_part);
}

/* ---- tables ---- */

static uint64_t row_limit(uint64_t top, size_t nr)
{
	return top && top < nr ? top : nr;
}

int census_put_more(FILE *out, uint64_t top, size_t nr)
{
	uint64_t shown = row_limit(top, nr);

	return nr > shown ? put_line(out, "  … and %" PRIu64 " more (--top 0 lists all)", nr - shown) : 0;
}

int census_put_table_head(FILE *out, const char *fmt, ...)
{
	va_list args;
	char *line;
	int err;

	va_start(args, fmt);
	line = clean_vformat(fmt, args);
	va_end(args);
	err = !line ? -ENOMEM : putc('\n', out) == EOF ? -EIO : put_toned_line(out, TONE_HEAD, "%s", line);
	free(line);
	return err;
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

static int put_arena(FILE *out, const struct census_arena *arena)
{
	return put_line(out, "  %-14s %10" PRIu64 " %10s %10s %10s %10s %10s", arena->is_main ? "main" : SIZE(arena->system_bytes),
			arena->state[CENSUS_IN_USE].count, SIZE(arena->state[CENSUS_IN_USE].bytes),
			SIZE(state_bytes(arena, CENSUS_TCACHE, CENSUS_FASTBINS)),
			SIZE(state_bytes(arena, CENSUS_UNSORTED, CENSUS_LARGE)), SIZE(arena->state[CENSUS_TOP].bytes),
			SIZE(arena->resident_bytes));
}

static int put_arenas(FILE *out, const struct census *census, uint64_t top)
{
	const struct census_arena **arena = calloc(census->arena_nr ?: 1, sizeof(*arena));
	uint64_t nr = row_limit(top, census->arena_nr);
	int err = arena ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < census->arena_nr; i++)
		arena[i] = &census->arena[i];
	if (!err && census->arena_nr) {
		qsort(arena, census->arena_nr, sizeof(*arena), compare_arenas);
		err = census_put_table_head(out, "  %-14s %10s %10s %10s %10s %10s %10s", "arena", "blocks", "in use", "cached",
				     "binned", "top", "resident");
	}
	for (size_t i = 0; !err && i < nr; i++)
		err = put_arena(out, arena[i]);
	err = err ?: census_put_more(out, top, census->arena_nr);
	free(arena);
	return err;
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

const char *census_class_label(char text[UNIT_TEXT_MAX], size_t class)
{
	uint64_t most = census_class_most(class);

	if (class < CENSUS_EXACT_CLASSES)
		snprintf(text, UNIT_TEXT_MAX, "%" PRIu64 " B", most);
	else
		snprintf(text, UNIT_TEXT_MAX, "to %s", SIZE(most));
	return text;
}

static int put_class(FILE *out, const struct class_row *row)
{
	char label[UNIT_TEXT_MAX];

	return put_line(out, "  %-14s %10" PRIu64 " %10s %10s %10s", census_class_label(label, row->class), row->counts->in_use.count,
			SIZE(row->counts->in_use.bytes), SIZE(row->counts->cached.bytes), SIZE(row->counts->free.bytes));
}

static int put_classes(FILE *out, const struct census_sum *sum, uint64_t top)
{
	struct class_row row[CENSUS_CLASS_NR];
	size_t nr = 0;
	uint64_t shown;
	int err = 0;

	for (size_t i = 0; i < CENSUS_CLASS_NR; i++)
		if (class_bytes(&(struct class_row){ i, &sum->class[i] }))
			row[nr++] = (struct class_row){ i, &sum->class[i] };
	qsort(row, nr, sizeof(*row), compare_classes);
	shown = row_limit(top, nr);
	if (nr)
		err = census_put_table_head(out, "  %-14s %10s %10s %10s %10s", "chunks of", "blocks", "in use", "cached", "binned");
	for (size_t i = 0; !err && i < shown; i++)
		err = put_class(out, &row[i]);
	return err ?: census_put_more(out, top, nr);
}

const char *census_type_label(const char *name)
{
	return *name ? name : "(no object: tables of dicts, lists and sets, …)";
}

static int compare_types(const void *one, const void *two)
{
	const struct census_type *const *a = one, *const *b = two;

	return ((*a)->blocks.bytes < (*b)->blocks.bytes) - ((*a)->blocks.bytes > (*b)->blocks.bytes) ?:
	       strcmp((*a)->name, (*b)->name);
}

static int put_python_types(FILE *out, const struct census_python *python, uint64_t top)
{
	const struct census_type **type = calloc(python->type_nr ?: 1, sizeof(*type));
	uint64_t nr = row_limit(top, python->type_nr);
	int err = type ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < python->type_nr; i++)
		type[i] = &python->type[i];
	if (!err && python->type_nr) {
		qsort(type, python->type_nr, sizeof(*type), compare_types);
		err = census_put_table_head(out, "  %10s %10s  %s", "blocks", "in use", "Python's objects of type");
	}
	for (size_t i = 0; !err && i < nr; i++)
		err = put_line(out, "  %10" PRIu64 " %10s  %s", type[i]->blocks.count, SIZE(type[i]->blocks.bytes),
			       census_type_label(type[i]->name));
	free(type);
	return err ?: census_put_more(out, top, python->type_nr);
}

/* ---- what is not known ---- */

int census_put_losses(FILE *out, const struct census *census)
{
	int err = 0;

	for (enum census_loss i = 0; i < CENSUS_LOSS_NR && !err; i++) {
		if (!census->loss[i])
			continue;
		err = put_line(out, "%s %" PRIu64 ": %s", census_loss_names[i], census->loss[i], census_loss_texts[i]);
	}
	return err;
}

int census_text(FILE *out, const struct census *census, uint64_t top)
{
	struct census_sum sum;
	int err;

	census_add_up(census, &sum);
	err = put_line(out, "process %" PRIu64 " (%s): %s resident", census->pid, census->name, SIZE(census->resident_bytes));
	if (census->arena_nr)
		err = err ?: put_census_shares(out, census, &sum);
	err = err ?: put_census_verdict(out, census, &sum);
	err = err ?: put_python_types(out, &census->python, top);
	err = err ?: put_arenas(out, census, top);
	err = err ?: put_classes(out, &sum, top);
	return err ?: census_put_losses(out, census);
}
