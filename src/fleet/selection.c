// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/selection.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/text_stream.h"
#include "base/units.h"
#include "engine/pattern.h"

/* ---- times -------------------------------------------------------------------------------- */

/* A time as a user writes it: a range as long as its last unit, a day or a minute. Both ends are included. */
struct when {
	int64_t first_ns, last_ns; /* since 1970 */
	bool is_ago; /* counted back from now; the range is an instant */
};

#define SECOND_NS 1000000000ll

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int range_of(int64_t first_s, int64_t end_s, struct when *ret)
{
	if (__builtin_mul_overflow(first_s, SECOND_NS, &ret->first_ns) ||
	    __builtin_mul_overflow(end_s, SECOND_NS, &ret->last_ns))
		return -ERANGE;
	ret->last_ns--;
	return 0;
}

/* Parses ".5" after whole seconds. The last digit gives the length of the range. Digits below 1 ns are ignored. */
static int parse_fraction(const char **text, struct when *when)
{
	int64_t unit_ns = SECOND_NS;

	if (**text != '.')
		return 0;
	if (!is_digit(*++*text))
		return -EINVAL;
	for (; is_digit(**text); ++*text) {
		if (unit_ns == 1)
			continue;
		unit_ns /= 10;
		when->first_ns += (**text - '0') * unit_ns;
	}
	when->last_ns = when->first_ns + unit_ns - 1;
	return 0;
}

/* ---- seconds, and ago ----------------------------------------------------------------------- */

static int parse_seconds(const char *text, struct when *ret)
{
	char *end;
	int64_t seconds = strtoll(text, &end, 10);
	const char *at = end;
	int err = seconds == INT64_MAX ? -ERANGE : range_of(seconds, seconds + 1, ret);

	return err ?: parse_fraction(&at, ret) ?: *at ? -EINVAL : 0;
}

static int parse_ago(const char *text, int64_t now_ns, struct when *ret)
{
	uint64_t ago_ns;

	if (parse_duration(text, &ago_ns))
		return -EINVAL;
	if (__builtin_sub_overflow(now_ns, ago_ns, &ret->first_ns))
		return -ERANGE;
	ret->last_ns = ret->first_ns;
	ret->is_ago = true;
	return 0;
}

/* ---- dates ------------------------------------------------------------------------------------ */

static const struct date_form {
	const char *format;
	size_t last; /* the member that one unit is added to */
} date_forms[] = {
	{ "%Y-%m-%dT%H:%M:%S", offsetof(struct tm, tm_sec) },
	{ "%Y-%m-%dT%H:%M", offsetof(struct tm, tm_min) },
	{ "%Y-%m-%dT%H", offsetof(struct tm, tm_hour) },
	{ "%Y-%m-%d", offsetof(struct tm, tm_mday) },
	{ "%Y-%m", offsetof(struct tm, tm_mon) },
	{ "%Y", offsetof(struct tm, tm_year) },
};
#define HOUR_FORM 2

/* Returns the row of the form, or -EINVAL. */
static int parse_calendar(const char **text, struct tm *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(date_forms); i++) {
		struct tm tm = { .tm_mday = 1 };
		const char *end = strptime(*text, date_forms[i].format, &tm);

		if (!end)
			continue;
		*text = end;
		*ret = tm;
		return i;
	}
	return -EINVAL;
}

static bool is_day(const struct tm *tm)
{
	struct tm day = { .tm_year = tm->tm_year, .tm_mon = tm->tm_mon, .tm_mday = tm->tm_mday };

	timegm(&day);
	return day.tm_mday == tm->tm_mday;
}

static int parse_date(const char *text, struct when *ret)
{
	struct tm tm, first, zone = {};
	int form = parse_calendar(&text, &tm), err;
	int64_t first_s, offset_ns;

	if (form < 0 || !is_day(&tm))
		return -EINVAL;
	first = tm;
	first_s = timegm(&first);
	++*(int *)((char *)&tm + date_forms[form].last);
	err = range_of(first_s, timegm(&tm), ret);
	if (!err && form == 0)
		err = parse_fraction(&text, ret);
	if (!err && form < HOUR_FORM && *text)
		text = strptime(text, "%z", &zone);
	if (err || !text || *text)
		return err ?: -EINVAL;
	offset_ns = zone.tm_gmtoff * SECOND_NS;
	return __builtin_sub_overflow(ret->first_ns, offset_ns, &ret->first_ns) ||
	       __builtin_sub_overflow(ret->last_ns, offset_ns, &ret->last_ns) ? -ERANGE : 0;
}

/* ---- the whole ---------------------------------------------------------------------------------- */

/*
 * Parses "2026-11-21T03:15:00.5Z" (RFC 3339, also with an offset) or the beginning of it, UTC; "1763694900" or
 * "1763694900.5", seconds since 1970 (four digits are a year); or "-24h", ago. Returns 0, -EINVAL, or -ERANGE: the
 * time does not fit into 64 bits.
 */
static int time_range_parse(const char *text, int64_t now_ns, struct when *ret)
{
	size_t digits = strspn(text, "0123456789");
	struct when when = {};
	int err;

	if (*text == '-')
		err = parse_ago(text + 1, now_ns, &when);
	else if (digits == 4 && text[4] != '.')
		err = parse_date(text, &when);
	else
		err = digits ? parse_seconds(text, &when) : -EINVAL;
	if (!err)
		*ret = when;
	return err;
}

/* ---- keys and values ------------------------------------------------------------------------ */

enum operator {
	OP_NOT_EQUAL,
	OP_AT_MOST,
	OP_AT_LEAST,
	OP_EQUAL,
	OP_LESS,
	OP_MORE,
	OP_NONE,
};

/* An operator stands before any operator that it begins with: "<=" before "<". */
static const char *const operators[] = {
	[OP_NOT_EQUAL] = "!=", [OP_AT_MOST] = "<=", [OP_AT_LEAST] = ">=",
	[OP_EQUAL] = "=",      [OP_LESS] = "<",	    [OP_MORE] = ">",
};

struct selection_term {
	const struct selection_key *key;
	enum operator operator;
	const char *label;   /* NAME of label.NAME */
	const char *pattern; /* NULL: the value is a number from first to last, both included */
	int64_t first, last;
};

/* The state while a selection is parsed. */
struct parsing {
	struct fleet_selection *selection;
	int64_t now_ns;
	struct reason *why;
};

/* ---- numbers ----------------------------------------------------------------------------------- */

static int set_range(struct selection_term *term, int64_t first, int64_t last)
{
	term->first = first;
	term->last = last;
	return 0;
}

static int parse_term_number(const struct parsing *parsing, struct selection_term *term, const char *value)
{
	uint64_t number;

	(void)parsing;
	return parse_count(value, 0, INT64_MAX, &number) ?: set_range(term, number, number);
}

static int parse_term_bytes(const struct parsing *parsing, struct selection_term *term, const char *value)
{
	uint64_t bytes;
	int err = parse_size(value, &bytes);

	(void)parsing;
	return err ?: bytes > INT64_MAX ? -ERANGE : set_range(term, bytes, bytes);
}

static int parse_term_time(const struct parsing *parsing, struct selection_term *term, const char *value)
{
	struct when when;
	int err = time_range_parse(value, parsing->now_ns, &when);

	if (err)
		return err;
	if (when.is_ago && (term->operator == OP_EQUAL || term->operator == OP_NOT_EQUAL))
		return reason_set(parsing->why, -EINVAL, "time%s%.100s is an instant that no snapshot has; "
				  "a time ago goes with < <= > >=", operators[term->operator], value);
	return set_range(term, when.first_ns, when.last_ns);
}

/* ---- the keys ---------------------------------------------------------------------------------- */

#define LABEL_PREFIX "label."

#define STRING(name_, member) { .name = name_, .column = #member, .offset = offsetof(struct fleet_snapshot, member) }
#define LABEL(name_, label_) { .name = name_, .is_label = true, .label = label_ }
#define NUMBER(name_, member, parse_, right_) \
	{ .name = name_, .column = #member, .offset = offsetof(struct fleet_snapshot, member), .parse = parse_, .right = right_ }

/* A key without parse() takes a pattern. */
static const struct selection_key {
	const char *name;
	const char *column; /* of the row table */
	size_t offset;
	bool is_label;
	const char *label; /* a label that has a key of its own */
	int (*parse)(const struct parsing *parsing, struct selection_term *term, const char *value);
	const char *right; /* says in an error what a right value is */
} keys[] = {
	STRING("host", host),
	STRING("comm", comm),
	STRING("exe", exe),
	STRING("build-id", exe_build_id),
	STRING("cgroup", cgroup),
	STRING("container", container),
	STRING("boot", boot_id),
	STRING("kernel", kernel),
	STRING("version", version),
	STRING("trigger", trigger),
	STRING("end", ending),
	STRING("path", path),
	LABEL("pod", "k8s.pod.name"),
	LABEL("namespace", "k8s.namespace.name"),
	{ .name = LABEL_PREFIX, .is_label = true },
	NUMBER("pid", pid, parse_term_number, "a pid is a whole number"),
	NUMBER("size", size, parse_term_bytes, "a size is a whole number, as 4096, 64K or 10MiB"),
	NUMBER("count", count, parse_term_number, "a count is a whole number"),
	NUMBER("time", time_ns, parse_term_time, "a time is RFC 3339 (2026-11-21T03:15:00Z) or the beginning of "
	       "it, seconds since 1970, or a duration ago (-24h)"),
};

static enum operator operator_at(const char *text)
{
	enum operator op = 0;

	while (op < OP_NONE && strncmp(text, operators[op], strlen(operators[op])))
		op++;
	return op;
}

/* Returns the length of the key's name: "host", "label.version". */
static size_t name_len(const char *text)
{
	return strcspn(text, "=!<>,");
}

/* Returns the key that text begins with, or NULL. */
static const struct selection_key *selection_key_at(const char *text)
{
	size_t len = name_len(text), prefix_len = strlen(LABEL_PREFIX);

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct selection_key *key = &keys[i];

		if (key->is_label && !key->label ? len > prefix_len && !strncmp(text, LABEL_PREFIX, prefix_len) :
				    len == strlen(key->name) && !strncmp(text, key->name, len))
			return key;
	}
	return NULL;
}

/* ---- parsing ----------------------------------------------------------------------------------- */

static void list_keys(char names[256])
{
	*names = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		strcat(names, i ? ", " : "");
		strcat(names, keys[i].name);
		strcat(names, keys[i].is_label && !keys[i].label ? "NAME" : "");
	}
}

/* Whether text looks as if the user meant a term: "com=redis". */
static bool is_like_term(const char *text)
{
	size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");

	return len && operator_at(text + len) != OP_NONE;
}

static int report_unlike_term(const char *text, struct reason *why)
{
	size_t len = name_len(text);
	char names[256];

	list_keys(names);
	return reason_set(why, -EINVAL, "unknown key '%.*s' after a comma; there are %s; a comma of a pattern is "
			  "written [,]", len > 64 ? 64 : (int)len, text, names);
}

static int report_nothing_follows(struct reason *why)
{
	return reason_set(why, -EINVAL, "nothing follows a comma; a comma of a pattern is written [,]");
}

/*
 * Ends the term that begins at text. *next is the text after its comma, or NULL. An error is a comma before text that
 * looks like a term but is none: as part of a pattern it would match nothing, or everything with !=. Another error is
 * a comma with nothing after it.
 */
static int cut_term(char *text, char **next, struct reason *why)
{
	*next = NULL;
	for (char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
		char *after = comma + 1 + strspn(comma + 1, " \t");

		if (after == comma + 1 && selection_key_at(after) && operator_at(after + name_len(after)) != OP_NONE) {
			*comma = '\0';
			*next = after;
			return 0;
		}
		if (!*after || *after == ',')
			return report_nothing_follows(why);
		if (is_like_term(after))
			return report_unlike_term(comma + 1, why);
	}
	return 0;
}

static int report_unknown_key(const char *text, struct reason *why)
{
	size_t len = name_len(text);
	char names[256];

	list_keys(names);
	if (!len)
		return reason_set(why, -EINVAL, "\"%.100s\" does not begin with a key; a selection is "
				  "KEY=VALUE, with commas between", text);
	return reason_set(why, -EINVAL, "unknown key '%.*s%s'; there are %s", len > 64 ? 64 : (int)len, text,
			  len > 64 ? "…" : "", names);
}

static int check_operator(const struct selection_term *term, const char *name, struct reason *why)
{
	const char *right = term->key->parse ? "= != < <= > >=" : "= and !=";

	if (term->operator == OP_NONE)
		return reason_set(why, -EINVAL, "'%.64s' lacks an operator; it goes with %s", name, right);
	if (!term->key->parse && term->operator != OP_EQUAL && term->operator != OP_NOT_EQUAL)
		return reason_set(why, -EINVAL, "'%.64s' is a text; it goes with %s, not with %s", name,
				  right, operators[term->operator]);
	return 0;
}

/* Refuses "==" and "!==" of other languages: no text begins with =, so that != would choose all. */
static int set_term_pattern(const struct parsing *parsing, struct selection_term *term, const char *value)
{
	const char *operator = operators[term->operator];

	if (*value == '=')
		return reason_set(parsing->why, -EINVAL, "a text goes with %s, not with %s=; a = that a pattern begins with "
				  "is written [=]", operator, operator);
	term->pattern = value;
	return 0;
}

static int set_term_value(const struct parsing *parsing, struct selection_term *term, const char *value)
{
	int err;

	if (!term->key->parse)
		return set_term_pattern(parsing, term, value);
	*parsing->why = (struct reason){};
	err = term->key->parse(parsing, term, value);
	if (err && !*parsing->why->text)
		reason_set(parsing->why, -EINVAL, "%s, not \"%.100s\"%s", term->key->right, value,
			   err == -ERANGE ? ": that is out of range" : "");
	return err ? -EINVAL : 0;
}

static int add_term(const struct parsing *parsing, char *text)
{
	size_t len = name_len(text);
	struct selection_term term = { .key = selection_key_at(text), .operator = operator_at(text + len) };
	const char *value;
	int err;

	if (!term.key)
		return report_unknown_key(text, parsing->why);
	value = term.operator == OP_NONE ? NULL : text + len + strlen(operators[term.operator]);
	text[len] = '\0';
	if (term.key->is_label)
		term.label = term.key->label ?: text + strlen(LABEL_PREFIX);
	err = check_operator(&term, text, parsing->why) ?: set_term_value(parsing, &term, value);
	return err ?: array_push(parsing->selection, term, term);
}

int fleet_selection_parse(const char *text, int64_t now_ns, struct fleet_selection *ret,
			  struct reason *why)
{
	struct fleet_selection selection = { .text = strdup(text) };
	struct reason line = {};
	const struct parsing parsing = { &selection, now_ns, &line };
	int err = selection.text ? 0 : -ENOMEM;

	for (char *at = selection.text, *next; !err && at && *text; at = next) {
		err = cut_term(at, &next, &line) ?: add_term(&parsing, at);
	}
	if (!err) {
		*ret = selection;
		return 0;
	}
	fleet_selection_release(&selection);
	if (why)
		*why = line;
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

void fleet_selection_release(struct fleet_selection *selection)
{
	free(selection->term);
	free(selection->text);
	*selection = (struct fleet_selection){};
}

/* ---- matching ---------------------------------------------------------------------------------- */

static const char *label_of(const struct fleet_facts *facts, const struct fleet_snapshot *snapshot,
			    const char *name)
{
	const struct fleet_pair *label = &facts->label[snapshot->label];

	for (uint32_t i = 0; i < snapshot->label_nr; i++)
		if (!strcmp(label[i].name, name))
			return label[i].value;
	return "";
}

static bool term_matches_text(const struct selection_term *term, const struct fleet_facts *facts,
			      const struct fleet_snapshot *snapshot)
{
	const char *const *string = (const void *)((const char *)snapshot + term->key->offset);
	const char *text = term->label ? label_of(facts, snapshot, term->label) : *string;

	return pattern_matches(term->pattern, text) == (term->operator == OP_EQUAL);
}

static bool term_matches_number(const struct selection_term *term, const struct fleet_snapshot *snapshot)
{
	int64_t number = *(const int64_t *)((const char *)snapshot + term->key->offset);
	bool is_in = number >= term->first && number <= term->last;

	switch (term->operator) {
	case OP_EQUAL:
		return is_in;
	case OP_NOT_EQUAL:
		return !is_in;
	case OP_LESS:
		return number < term->first;
	case OP_AT_MOST:
		return number <= term->last;
	case OP_MORE:
		return number > term->last;
	case OP_AT_LEAST:
		return number >= term->first;
	case OP_NONE:
		break;
	}
	return false;
}

bool fleet_selection_matches(const struct fleet_selection *selection, const struct fleet_facts *facts,
			     const struct fleet_snapshot *snapshot)
{
	for (size_t i = 0; i < selection->term_nr; i++) {
		const struct selection_term *term = &selection->term[i];

		if (!(term->pattern ? term_matches_text(term, facts, snapshot) :
				      term_matches_number(term, snapshot)))
			return false;
	}
	return true;
}

/* ---- SQL ---------------------------------------------------------------------------------------- */

/* A server ends no text at a byte that we have: texts have no NUL. */
static void write_sql_text(FILE *out, const char *text)
{
	putc('\'', out);
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			putc('\\', out);
		putc(*text, out);
	}
	putc('\'', out);
}

static int write_sql_match(FILE *out, const char *column, const char *pattern, struct reason *why)
{
	char *regex = NULL;
	size_t len;
	FILE *text;
	int err;

	if (pattern_is_plain(pattern)) {
		fprintf(out, "%s = ", column);
		write_sql_text(out, pattern);
		return 0;
	}
	text = open_memstream(&regex, &len);
	err = text ? pattern_write_regex(pattern, text) : -ENOMEM;
	if (text)
		err = text_stream_close(text, &regex) ?: err;
	if (!err) {
		fprintf(out, "match(%s, ", column);
		write_sql_text(out, regex);
		putc(')', out);
	}
	free(regex);
	return err != -EILSEQ ? err : reason_set(why, -EINVAL, "a ClickHouse cannot compare with \"%.100s\", which is no UTF-8: "
						 "replace what is not by *, or ask a --catalogue", pattern);
}

/* A condition, while it is written. */
struct sql_writing {
	const struct fleet_selection *const *selection;
	size_t selection_nr;
	const char *fates;
	FILE *out;
	struct reason *why;
};

/* Partitions go by `time`, in seconds. */
static void write_sql_seconds(const struct selection_term *term, FILE *out)
{
	enum operator op = term->operator;

	if (term->pattern || term->key->offset != offsetof(struct fleet_snapshot, time_ns) || op == OP_NOT_EQUAL)
		return;
	if (op != OP_LESS && op != OP_AT_MOST)
		fprintf(out, " AND time >= %" PRId64, term->first / 1000000000);
	if (op != OP_MORE && op != OP_AT_LEAST)
		fprintf(out, " AND time <= %" PRId64, term->last / 1000000000);
}

static void write_sql_all_seconds(const struct sql_writing *writing)
{
	for (size_t i = 0; i < writing->selection_nr; i++)
		for (size_t k = 0; k < writing->selection[i]->term_nr; k++)
			write_sql_seconds(&writing->selection[i]->term[k], writing->out);
}

/* A label that a snapshot lacks is the empty text. */
static int write_sql_label(const struct selection_term *term, const struct sql_writing *writing)
{
	FILE *out = writing->out;
	bool matches_none = pattern_matches(term->pattern, "");
	int err;

	fprintf(out, "upload_id %sIN (SELECT upload_id FROM label WHERE name = ", matches_none ? "NOT " : "");
	write_sql_text(out, term->label);
	fprintf(out, " AND %s(", matches_none ? "NOT " : "");
	err = write_sql_match(out, "value", term->pattern, writing->why);
	putc(')', out);
	write_sql_all_seconds(writing);
	putc(')', out);
	return err;
}

static int write_sql_pattern(const struct selection_term *term, const struct sql_writing *writing)
{
	FILE *out = writing->out;
	int err;

	if (term->label)
		return write_sql_label(term, writing);
	if (term->key->offset != offsetof(struct fleet_snapshot, ending))
		return write_sql_match(out, term->key->column, term->pattern, writing->why);
	fprintf(out, "process_id IN (SELECT process_id FROM (%s) AS known WHERE ", writing->fates);
	err = write_sql_match(out, "fate", term->pattern, writing->why);
	putc(')', out);
	return err;
}

static void write_sql_number(const struct selection_term *term, FILE *out)
{
	const char *column = term->key->column;

	if (term->operator == OP_EQUAL || term->operator == OP_NOT_EQUAL)
		fprintf(out, "%s >= %" PRId64 " AND %s <= %" PRId64, column, term->first, column, term->last);
	else
		fprintf(out, "%s %s %" PRId64, column, operators[term->operator],
			term->operator == OP_LESS || term->operator == OP_AT_LEAST ? term->first : term->last);
}

static int write_sql_term(const struct selection_term *term, const struct sql_writing *writing)
{
	int err = 0;

	fputs(term->operator == OP_NOT_EQUAL ? " AND NOT (" : " AND (", writing->out);
	if (term->pattern)
		err = write_sql_pattern(term, writing);
	else
		write_sql_number(term, writing->out);
	putc(')', writing->out);
	return err;
}

int fleet_selections_write_sql(const struct fleet_selection *const *selection, size_t selection_nr, const char *fates,
			       FILE *out, struct reason *why)
{
	const struct sql_writing writing = { selection, selection_nr, fates, out, why };
	int err = 0;

	putc('1', out);
	for (size_t i = 0; i < selection_nr; i++)
		for (size_t k = 0; k < selection[i]->term_nr && !err; k++)
			err = write_sql_term(&selection[i]->term[k], &writing);
	write_sql_all_seconds(&writing);
	return err;
}

/* "end=killed*", "time<2026-11-21": what has ended since then lived at that time. */
static bool is_about_ended(const struct selection_term *term)
{
	enum operator op = term->operator;

	return term->key->offset == offsetof(struct fleet_snapshot, ending) ||
	       (term->key->offset == offsetof(struct fleet_snapshot, time_ns) &&
		(op == OP_LESS || op == OP_AT_MOST || op == OP_EQUAL));
}

bool fleet_selection_asks_for_ended(const struct fleet_selection *selection)
{
	for (size_t i = 0; i < selection->term_nr; i++)
		if (is_about_ended(&selection->term[i]))
			return true;
	return false;
}
