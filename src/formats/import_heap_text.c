// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Heap profiles as text.
 *
 *	jemalloc				tcmalloc, gperftools
 *	heap_v2/524288				heap profile:  2: 30 [ 5: 70] @ heap_v2/524288
 *	  t*: 2: 30 [5: 70]			     1: 10 [ 3: 40] @ 0x4005d 0x4006f
 *	@ 0x4005d 0x4006f			     1: 20 [ 2: 30] @ 0x4005d 0x40080
 *	  t*: 1: 10 [3: 40]
 *	  t7: 1: 10 [3: 40]
 *	MAPPED_LIBRARIES:			MAPPED_LIBRARIES:
 *	00400000-0041c000 r-xp 00000000 …	00400000-0041c000 r-xp 00000000 …
 *
 * A line has live blocks and bytes, then what was allocated since the start. Of sampled profiles these are the samples
 * alone. Addresses are return addresses; names are not in the file.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/progress.h"
#include "formats/profile_import.h"

#define JEMALLOC_HEAD "heap_v2/"
#define TCMALLOC_HEAD "heap profile:"
#define MAPPINGS_HEAD "MAPPED_LIBRARIES:"

/* A line of /proc/PID/maps. */
struct text_mapping {
	uint64_t start, end, offset;
	uint32_t path, object; /* ids of the builder */
};

struct text_counts {
	uint64_t live, live_bytes, allocated, allocated_bytes;
};

/* A sum of bytes: as they are in the text, and of all blocks that the samples stand for. */
struct text_sum {
	uint64_t bytes;
	double estimate;
};

struct heap_text {
	struct profile_import *in;
	const char *begin, *at, *end;
	size_t line_nr;
	struct progress progress;
	uint64_t sample_bytes; /* 0: every block */
	bool is_jemalloc, has_allocated, has_mappings, has_cr; /* lines end with CR and LF */
	struct text_counts totals; /* in the head */
	struct text_sum live, allocated; /* of the rows */
	size_t row_nr;
	struct text_mapping *mapping;
	size_t mapping_nr, mapping_alloc;
};

/* ---- lines ------------------------------------------------------------------------------------------ */

static bool text_starts(const char *at, const char *end, const char *head)
{
	size_t len = strlen(head);

	return (size_t)(end - at) >= len && !memcmp(at, head, len);
}

bool is_heap_text(const char *bytes, size_t len)
{
	return text_starts(bytes, bytes + len, JEMALLOC_HEAD) || text_starts(bytes, bytes + len, TCMALLOC_HEAD);
}

bool is_symbolized_heap(const char *bytes, size_t len)
{
	return text_starts(bytes, bytes + len, "--- symbol");
}

static int refuse_line(const struct heap_text *text, const char *what)
{
	return import_refuse(text->in, -EBADMSG, "line %zu: %s", text->line_nr, what);
}

/* Returns false at the end of the text. */
static bool next_text_line(struct heap_text *text, const char **ret_at, const char **ret_end)
{
	const char *newline;

	if (text->at == text->end)
		return false;
	newline = memchr(text->at, '\n', text->end - text->at);
	*ret_at = text->at;
	*ret_end = newline ?: text->end;
	text->at = newline ? newline + 1 : text->end;
	if (!text->line_nr++)
		text->has_cr = *ret_end > *ret_at && (*ret_end)[-1] == '\r';
	if (text->has_cr && *ret_end > *ret_at && (*ret_end)[-1] == '\r')
		--*ret_end;
	if (!(text->line_nr % PROGRESS_ROWS))
		progress_show(&text->progress, text->at - text->begin);
	return true;
}

static const char *skip_spaces(const char *at, const char *end)
{
	while (at < end && (*at == ' ' || *at == '\t'))
		at++;
	return at;
}

/* Reads digits of a base, of at most 64 bits. Returns the text behind them, or NULL. */
static const char *read_digits(const char *at, const char *end, unsigned int base, uint64_t *ret)
{
	static const char digits[] = "0123456789abcdef";
	const char *start = at = skip_spaces(at, end);
	uint64_t value = 0;

	for (; at < end; at++) {
		const char *digit = *at ? memchr(digits, *at | (*at >= 'A' && *at <= 'F' ? 0x20 : 0), base) : NULL;

		if (!digit)
			break;
		if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, digit - digits, &value))
			return NULL;
	}
	*ret = value;
	return at > start ? at : NULL;
}

/* Skips spaces and one character; NULL: it is another. */
static const char *expect_char(const char *at, const char *end, char wanted)
{
	at = at ? skip_spaces(at, end) : NULL;
	return at && at < end && *at == wanted ? at + 1 : NULL;
}

/* "2: 30 [5: 70]". Returns the text behind it, or NULL. */
static const char *read_counts(const char *at, const char *end, struct text_counts *ret)
{
	uint64_t *const number[] = { &ret->live, &ret->live_bytes, &ret->allocated, &ret->allocated_bytes };
	static const char behind[] = { ':', '[', ':', ']' };

	for (size_t i = 0; i < ARRAY_SIZE(number) && at; i++) {
		at = read_digits(at, end, 10, number[i]);
		at = expect_char(at, end, behind[i]);
	}
	return at;
}

/* ---- mappings --------------------------------------------------------------------------------------- */

static int add_mapping(struct heap_text *text, const struct text_mapping *mapping, const char *path, size_t len)
{
	struct snapshot_builder *builder = text->in->builder;
	struct text_mapping known = *mapping;
	struct snap_object object = {};
	char *copy = strndup(path, len);
	int err = copy ? snapshot_builder__string(builder, copy, &known.path) : -ENOMEM;

	free(copy);
	object.path = known.path;
	err = err ?: snapshot_builder__object(builder, &object, &known.object) ?: array_push(text, mapping, known);
	return err ? import_no_memory(text->in) : 0;
}

/* Lines of another form, and memory without a file, name no object. */
static int read_mapping(struct heap_text *text, const char *at, const char *end)
{
	struct text_mapping mapping = {};
	uint64_t unused;
	const char *path;

	at = read_digits(at, end, 16, &mapping.start);
	at = expect_char(at, end, '-');
	at = at ? read_digits(at, end, 16, &mapping.end) : NULL;
	at = at ? skip_spaces(at, end) : NULL;
	at = at ? memchr(at, ' ', end - at) : NULL; /* behind the permissions */
	at = at ? read_digits(at, end, 16, &mapping.offset) : NULL;
	at = at ? read_digits(at, end, 16, &unused) : NULL;
	at = expect_char(at, end, ':');
	at = at ? read_digits(at, end, 16, &unused) : NULL;
	at = at ? read_digits(at, end, 10, &unused) : NULL;
	path = at ? skip_spaces(at, end) : NULL;
	if (!path || path == end || *path != '/' || mapping.start >= mapping.end)
		return 0;
	return add_mapping(text, &mapping, path, end - path);
}

/* The mappings stand behind the tracebacks that need them. */
static int read_text_mappings(struct heap_text *text)
{
	struct heap_text rest = *text;
	const char *at, *end;
	bool has_begun = false;
	int err = 0;

	while (!err && next_text_line(&rest, &at, &end)) {
		if (has_begun)
			err = read_mapping(&rest, at, end);
		else
			has_begun = text_starts(at, end, MAPPINGS_HEAD);
	}
	text->has_mappings = has_begun;
	text->mapping = rest.mapping;
	text->mapping_nr = rest.mapping_nr;
	if (text->mapping_nr)
		qsort(text->mapping, text->mapping_nr, sizeof(*text->mapping), array_by_number);
	return err;
}

/* ---- tracebacks ------------------------------------------------------------------------------------- */

static const struct text_mapping *find_text_mapping(const struct heap_text *text, uint64_t address)
{
	size_t begun = array_first(text->mapping_nr, i, text->mapping[i].start > address);

	return begun && address < text->mapping[begun - 1].end ? &text->mapping[begun - 1] : NULL;
}

static int add_address(struct heap_text *text, uint64_t address)
{
	const struct text_mapping *mapping = find_text_mapping(text, address);
	struct snap_frame frame = { .offset = address };
	int err = mapping ? 0 : import_unknown_file(text->in, &frame.filename);
	uint32_t id;

	if (err)
		return err;
	if (mapping) {
		frame.filename = mapping->path;
		frame.object = mapping->object;
		frame.offset = address - mapping->start + mapping->offset;
	}
	return snapshot_builder__frame(text->in->builder, &frame, &id) ? import_no_memory(text->in) :
	       import_frame(text->in, id);
}

/* "0x4005d 0x4006f", to the end of the line. */
static int read_addresses(struct heap_text *text, const char *at, const char *end)
{
	uint64_t address;
	int err = 0;

	text->in->frame_nr = 0;
	for (at = skip_spaces(at, end); at < end && !err; at = skip_spaces(at, end)) {
		if (text_starts(at, end, "0x"))
			at += 2;
		at = read_digits(at, end, 16, &address);
		if (!at)
			return refuse_line(text, "not an address");
		err = add_address(text, address);
	}
	return err;
}

/*
 * How many blocks a sample stands for. A block of `size` bytes is sampled with the probability 1 - e^(-size/rate); all
 * samples of a line are taken to have the mean size, as pprof and jeprof do.
 */
static double sample_scale(const struct heap_text *text, uint64_t count, uint64_t bytes)
{
	double weight;

	if (!text->sample_bytes || !count || !bytes)
		return 1;
	weight = -1 / expm1(-((double)bytes / count) / text->sample_bytes);
	return weight > 1 && weight < 0x1p63 ? weight : 1;
}

static int scale_churn(const struct heap_text *text, const struct text_counts *counts, struct snap_churn *ret)
{
	double weight = sample_scale(text, counts->allocated, counts->allocated_bytes);
	double blocks = counts->allocated * weight, bytes = counts->allocated_bytes * weight;

	if (blocks >= 0x1p63 || bytes >= 0x1p63)
		return refuse_line(text, "more than 2^63 blocks or bytes");
	*ret = (struct snap_churn){ .allocations = llround(blocks), .allocated_bytes = llround(bytes) };
	return 0;
}

static double estimated_bytes(const struct heap_text *text, uint64_t count, uint64_t bytes)
{
	return bytes * sample_scale(text, count, bytes);
}

static void count_text_row(const struct heap_text *text, uint64_t count, uint64_t bytes, struct text_sum *sum)
{
	if (__builtin_add_overflow(sum->bytes, bytes, &sum->bytes))
		sum->bytes = UINT64_MAX;
	sum->estimate += estimated_bytes(text, count, bytes);
}

static int end_text_sample(struct heap_text *text, const struct text_counts *counts)
{
	const struct profile_blocks live = { counts->live, counts->live_bytes,
					     sample_scale(text, counts->live, counts->live_bytes) };
	struct snap_churn churn;
	int err = scale_churn(text, counts, &churn);

	count_text_row(text, counts->live, counts->live_bytes, &text->live);
	count_text_row(text, counts->allocated, counts->allocated_bytes, &text->allocated);
	text->row_nr++;
	return err ?: import_sample(text->in, &live, text->has_allocated ? &churn : NULL);
}

/* ---- the two forms ---------------------------------------------------------------------------------- */

/* A traceback has a line of its own; the line "t*:" behind it counts it, and lines of threads repeat that. */
static int read_jemalloc(struct heap_text *text)
{
	struct text_counts counts;
	const char *at, *end;
	bool has_traceback = false;
	int err = 0;

	while (!err && next_text_line(text, &at, &end) && !text_starts(at, end, MAPPINGS_HEAD)) {
		at = skip_spaces(at, end);
		if (at < end && *at == '@') {
			err = read_addresses(text, at + 1, end);
			has_traceback = true;
		} else if (text_starts(at, end, "t*:") && has_traceback) {
			if (!read_counts(at + 3, end, &counts))
				return refuse_line(text, "not 't*: COUNT: BYTES [COUNT: BYTES]'");
			err = end_text_sample(text, &counts);
			has_traceback = false;
		} else if (at < end && *at != 't') {
			return refuse_line(text, "neither '@ ADDRESS…' nor 't…: COUNT: BYTES [COUNT: BYTES]'");
		}
	}
	return err;
}

static int read_tcmalloc(struct heap_text *text)
{
	struct text_counts counts;
	const char *at, *end;
	int err = 0;

	while (!err && next_text_line(text, &at, &end) && !text_starts(at, end, MAPPINGS_HEAD)) {
		at = skip_spaces(at, end);
		if (at == end || *at == '#')
			continue;
		at = read_counts(at, end, &counts);
		at = expect_char(at, end, '@');
		if (!at)
			return refuse_line(text, "not 'COUNT: BYTES [COUNT: BYTES] @ ADDRESS…'");
		err = read_addresses(text, at, end) ?: end_text_sample(text, &counts);
	}
	return err;
}

/* "heap_v2/524288", "heap/1048576", "heapprofile": which blocks are in it. Returns false: not a heap profile. */
static bool read_kind(struct heap_text *text, const char *at, const char *end)
{
	static const struct {
		const char *name;
		unsigned int divisor; /* 0: every block */
	} kinds[] = {
		{ "heapprofile", 0 }, { "heap_v2/", 1 }, { "heapz_v2/", 1 }, { "heap/", 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const char *behind = at + strlen(kinds[i].name);
		uint64_t rate = 0;

		if (!text_starts(at, end, kinds[i].name))
			continue;
		if (kinds[i].divisor)
			behind = read_digits(behind, end, 10, &rate);
		if (!behind || skip_spaces(behind, end) != end)
			return false;
		text->sample_bytes = kinds[i].divisor ? rate / kinds[i].divisor : 0;
		text->sample_bytes = text->sample_bytes > 1 ? text->sample_bytes : 0;
		return text->sample_bytes < INT64_MAX;
	}
	return false;
}

/* The totals say whether there are figures of what was allocated; jemalloc writes zeros without prof_accum. */
static int read_text_head(struct heap_text *text)
{
	struct text_counts *totals = &text->totals;
	const char *at = text->at, *end = text->at;

	next_text_line(text, &at, &end);
	if (text->is_jemalloc && !read_kind(text, at, end))
		return refuse_line(text, "not 'heap_v2/RATE'");
	if (text->is_jemalloc &&
	    (!next_text_line(text, &at, &end) || !text_starts(skip_spaces(at, end), end, "t*:") ||
	     !read_counts(skip_spaces(at, end) + 3, end, totals)))
		return refuse_line(text, "not 't*: COUNT: BYTES [COUNT: BYTES]'");
	if (!text->is_jemalloc) {
		at = expect_char(read_counts(at + strlen(TCMALLOC_HEAD), end, totals), end, '@');
		if (!at || !read_kind(text, skip_spaces(at, end), end))
			return refuse_line(text, "not 'heap profile: COUNT: BYTES [COUNT: BYTES] @ heap_v2/RATE', or "
					   "no profile of a heap");
	}
	text->has_allocated = totals->allocated || totals->allocated_bytes;
	return 0;
}

static int count_text_loss(const struct heap_text *text, const char *name, uint64_t nr)
{
	return nr && snapshot_builder__counter(text->in->builder, SNAP_LOST, name, nr) ? import_no_memory(text->in) : 0;
}

/*
 * By how many bytes the rows differ from the total in the head. jemalloc 5.3 writes samples so that the estimates of the
 * rows add up to the estimate of the total, and not the samples; both have counts that were rounded.
 */
static uint64_t unlike_total(const struct heap_text *text, uint64_t count, uint64_t bytes, const struct text_sum *rows)
{
	double estimate = fabs(estimated_bytes(text, count, bytes) - rows->estimate);
	double rounded = (text->row_nr + 1) * (double)text->sample_bytes / 2;

	if (text->is_jemalloc && text->sample_bytes && bytes != rows->bytes)
		return estimate > rounded ? fmin(estimate, 0x1p62) : 0;
	return bytes > rows->bytes ? bytes - rows->bytes : rows->bytes - bytes;
}

/* Rows are missing if the text was cut off, or if the program had no room for them. The mappings end each text. */
static int count_text_losses(const struct heap_text *text)
{
	const struct text_counts *totals = &text->totals;

	return count_text_loss(text, "bytes_unlike_total",
			       unlike_total(text, totals->live, totals->live_bytes, &text->live)) ?:
	       count_text_loss(text, "allocated_bytes_unlike_total",
			       unlike_total(text, totals->allocated, totals->allocated_bytes, &text->allocated)) ?:
	       count_text_loss(text, "mappings_cut_off", text->in->frames_all && !text->has_mappings);
}

int import_heap_text(struct profile_import *in, const char *bytes, size_t len)
{
	struct heap_text text = {
		.in = in, .begin = bytes, .at = bytes, .end = bytes + len,
		.is_jemalloc = text_starts(bytes, bytes + len, JEMALLOC_HEAD),
	};
	int err = read_text_head(&text);

	if (err)
		return err;
	in->builder = snapshot_builder__new((text.sample_bytes ? SNAP_WITH_WEIGHT : 0) |
					    (text.has_allocated ? SNAP_WITH_CHURN : 0));
	err = in->builder ? read_text_mappings(&text) : import_no_memory(in);
	text.progress = progress_begin("parsing", NULL, len);
	err = err ?: (text.is_jemalloc ? read_jemalloc(&text) : read_tcmalloc(&text));
	progress_end(&text.progress);
	free(text.mapping);
	return err ?: count_text_losses(&text) ?:
	       import_metadata(in, text.is_jemalloc ? "jemalloc heap profile" : "tcmalloc heap profile", text.sample_bytes);
}
