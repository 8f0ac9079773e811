// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/selection.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define SECOND_NS 1000000000ll
#define NOON (1795262400ll * SECOND_NS) /* 2026-11-21T12:00:00Z */
#define HOUR (3600 * SECOND_NS)

static struct fleet_pair labels[] = {
	{ "version", "1.4" }, { "tier", "a,comm=b" }, { "version", "2" }, { "empty", "" },
	{ "k8s.pod.name", "web-0" }, { "k8s.namespace.name", "shop" },
};

#define FACTS(host_, comm_, pid_, time_, ...) { \
	.host = host_, .comm = comm_, .pid = pid_, .time_ns = time_, .exe = "", .exe_build_id = "", \
	.cgroup = "", .container = "", .boot_id = "", .kernel = "", .version = "", .trigger = "", \
	.ending = "running", .path = "", __VA_ARGS__ }

/* a and b are two times of one process; of c nothing is known. */
static struct fleet_snapshot snapshots[] = {
	FACTS("web-1", "redis", 10, NOON - HOUR, .process = 0, .host_nr = 0, .size = 4096, .count = 3, .label = 0,
	      .label_nr = 2),
	FACTS("web-1", "redis", 10, NOON, .process = 0, .host_nr = 0, .size = 8 << 20, .count = 4, .label = 0,
	      .label_nr = 2),
	FACTS("", "", 0, NOON + HOUR, .process = 1, .host_nr = 1),
	{ .host = "db,x",
	  .comm = "post,gres",
	  .pid = 12,
	  .time_ns = NOON + 24 * HOUR,
	  .process = 2,
	  .host_nr = 2,
	  .exe = "/bin/pg",
	  .exe_build_id = "abcd",
	  .cgroup = "/a/b",
	  .container = "c0ffee",
	  .boot_id = "b00",
	  .kernel = "6.1",
	  .version = "1.0",
	  .trigger = "peak",
	  .ending = "killed by signal 9",
	  .path = "d/x.snap",
	  .label = 2,
	  .label_nr = 2 },
	FACTS("web-2", "redis", 11, NOON + 24 * HOUR + 1, .process = 3, .host_nr = 0, .label = 4, .label_nr = 2),
};

static const struct fleet_facts facts = {
	.snapshot = snapshots, .snapshot_nr = ARRAY_SIZE(snapshots), .label = labels,
	.label_nr = ARRAY_SIZE(labels), .process_nr = 4, .host_nr = 3,
};

/* Parses the filter and returns one letter per matching snapshot. */
static const char *chosen(const char *text, char letters[ARRAY_SIZE(snapshots) + 1])
{
	struct fleet_selection selection;
	struct reason why = { "" };
	size_t nr = 0;
	int err = fleet_selection_parse(text, NOON + 48 * HOUR, &selection, &why);

	cr_assert_eq(err, 0, "%s: %s", text, why.text);
	for (size_t i = 0; i < facts.snapshot_nr; i++)
		if (fleet_selection_matches(&selection, &facts, &snapshots[i]))
			letters[nr++] = 'a' + i;
	letters[nr] = '\0';
	fleet_selection_release(&selection);
	return letters;
}

static void expect_chosen(const char *text, const char *want)
{
	char letters[ARRAY_SIZE(snapshots) + 1];

	cr_expect_str_eq(chosen(text, letters), want, "%s: %s, not %s", text, letters, want);
}

Test(fleet_selection, accepts_each_key)
{
	static const struct {
		const char *text, *chosen;
	} rows[] = {
		{ "", "abcde" },
		{ "host=web-*", "abe" },	{ "host!=web-*", "cd" },
		{ "host=", "c" },		{ "host!=", "abde" },
		{ "host=WEB-1", "" },		{ "comm=redis", "abe" },
		{ "comm=[!r]*", "d" },		{ "exe=/bin/*", "d" },
		{ "build-id=ab*", "d" },	{ "cgroup=/a*", "d" },
		{ "container=c0ffee", "d" },	{ "boot=b0?", "d" },
		{ "kernel=6.*", "d" },		{ "version=1.*", "d" },
		{ "trigger=peak", "d" },	{ "path=*.snap", "d" },
		{ "end=running", "abce" },	{ "end=killed*", "d" },
		{ "pod=web-*", "e" },		{ "namespace=shop,pod=web-0", "e" },
		{ "pod=shop", "" },		{ "namespace!=shop", "abcd" },
		{ "label.k8s.pod.name=web-0", "e" },
		{ "label.version=1.4", "ab" },	{ "label.version=2", "d" },
		{ "label.version=", "ce" },	{ "label.version!=", "abd" },
		{ "label.empty=", "abcde" },	{ "label.none=?*", "" },
		{ "pid=10", "ab" },		{ "pid!=10", "cde" },
		{ "pid<11", "abc" },		{ "pid<=11", "abce" },
		{ "pid>11", "d" },		{ "pid>=11", "de" },
		{ "size=4096", "a" },		{ "size=4K", "a" },
		{ "size>4K", "b" },		{ "size>=8MiB", "b" },
		{ "size<=8m", "abcde" },	{ "size!=0", "ab" },
		{ "count=3", "a" },		{ "count>3", "b" },
		{ "count<9223372036854775807", "abcde" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect_chosen(rows[i].text, rows[i].chosen);
}

Test(fleet_selection, accepts_commas_in_values)
{
	expect_chosen("host=web-*,pid=10", "ab");
	expect_chosen("pid>=10,pid<12", "abe");
	expect_chosen("pid=10,host=*,comm!=x,size>0,label.version=1.*,count=3", "a");
	expect_chosen("host=db,x", "d");
	expect_chosen("comm=post,gres,host=db,x", "d");
	expect_chosen("comm=post,gres,host=db,y", "");
	expect_chosen("label.tier=a[,]comm=b", "ab");
	expect_chosen("label.tier=a,comm=b", ""); /* two terms */
	expect_chosen("host=db[,]hosts=x", "");	  /* one: hosts is no key */
	expect_chosen("host=db,x*,pid=12", "d");
	expect_chosen("host=db,host", "");
	expect_chosen("host=db[,]*", "d");
	expect_chosen("host=*[,]", "");
	expect_chosen("host!=[=]*", "abcde");
	expect_chosen("host=,x", "");
	expect_chosen("host=*x,label.version=2,label.none=", "d");
}

/* ---- times ------------------------------------------------------------------------------------- */

Test(fleet_selection, accepts_each_form_of_a_time)
{
	static const struct {
		const char *text, *chosen;
	} rows[] = {
		{ "time=2026-11-21", "abc" },		    { "time=2026-11-22", "de" },
		{ "time!=2026-11-21", "de" },		    { "time<2026-11-22", "abc" },
		{ "time<=2026-11-22", "abcde" },	    { "time>2026-11-21", "de" },
		{ "time>=2026-11-21", "abcde" },	    { "time=2026-11", "abcde" },
		{ "time=2026", "abcde" },		    { "time=2025", "" },
		{ "time=2026-12", "" },			    { "time<2026-12", "abcde" },
		{ "time=2026-11-21T12", "b" },		    { "time=2026-11-21T12:00", "b" },
		{ "time=2026-11-21T12:00Z", "b" },	    { "time=2026-11-21T12:00:00", "b" },
		{ "time=2026-11-21T12:00:00Z", "b" },	    { "time=2026-11-21T14:00:00+02:00", "b" },
		{ "time=2026-11-21T06:30-05:30", "b" },	    { "time=2026-11-22T12:00:00", "de" },
		{ "time=2026-11-22T12:00:00.0Z", "de" },    { "time=2026-11-22T12:00:00.000000000Z", "d" },
		{ "time=2026-11-22T12:00:00.00000000199Z", "e" },
		{ "time>2026-11-22T12:00:00.000000000", "e" },
		{ "time=1795262400", "b" },		    { "time>1795262400", "cde" },
		{ "time=1795348800.000000001", "e" },	    { "time=1795348800.0", "de" },
		{ "time>=1795262400,time<1795266000", "b" },
		{ "time>=-24h", "de" },			    { "time>-24h", "e" },
		{ "time<=-24h", "abcd" },		    { "time<-24h", "abc" },
		{ "time>=-47h", "cde" },		    { "time>-90000s", "de" },
		{ "time<0", "" },			    { "time>=1970", "abcde" },
		{ "time<2262-04-10", "abcde" },		    { "time>1677-10", "abcde" },
		{ "time=2026-11-21T11:59:60", "b" },	    { "time>=2024-02-29", "abcde" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect_chosen(rows[i].text, rows[i].chosen);
}

/* A day is one of UTC, and a point is a point, wherever this runs. */
Test(fleet_selection, reads_times_as_utc_in_any_time_zone)
{
	setenv("TZ", "America/New_York", 1);
	setlocale(LC_ALL, "C.UTF-8");
	expect_chosen("time=2026-11-21", "abc");
	expect_chosen("time=2026-11-21T12", "b");
}

/* ---- refused selections ------------------------------------------------------------------------ */

#define KEYS "there are host, comm, exe, build-id, cgroup, container, boot, kernel, version, trigger, end, path, " \
	     "pod, namespace, label.NAME, pid, size, count, time"
#define PATTERN "a comma of a pattern is written [,]"
#define NOTHING "nothing follows a comma; " PATTERN
#define TEXT(operator) "a text goes with " operator ", not with " operator "=; a = that a pattern begins with is " \
		       "written [=]"
#define TIME "a time is RFC 3339 (2026-11-21T03:15:00Z) or the beginning of it, seconds since 1970, or a " \
	     "duration ago (-24h), not "

static const struct {
	const char *text, *why;
} errors[] = {
	{ "hots=a", "unknown key 'hots'; " KEYS },
	{ "label=a", "unknown key 'label'; " KEYS },
	{ "label.=a", "unknown key 'label.'; " KEYS },
	{ "a", "unknown key 'a'; " KEYS },
	{ " host=a", "unknown key ' host'; " KEYS },
	{ "\033[m=", "unknown key '\\x1b[m'; " KEYS },
	{ "=a", "\"=a\" does not begin with a key; a selection is KEY=VALUE, with commas between" },
	{ ",host=a", "\"\" does not begin with a key; a selection is KEY=VALUE, with commas between" },
	{ "host", "'host' lacks an operator; it goes with = and !=" },
	{ "host!a", "'host' lacks an operator; it goes with = and !=" },
	{ "host,pid=1", "'host' lacks an operator; it goes with = and !=" },
	{ "pid", "'pid' lacks an operator; it goes with = != < <= > >=" },
	{ "host<a", "'host' is a text; it goes with = and !=, not with <" },
	{ "pid=1,label.x>=a", "'label.x' is a text; it goes with = and !=, not with >=" },
	{ "host!=web-1,com=redis", "unknown key 'com' after a comma; " KEYS "; " PATTERN },
	{ "pid=1,com>2,host=a", "unknown key 'com' after a comma; " KEYS "; " PATTERN },
	{ "host=a, comm=b", "unknown key ' comm' after a comma; " KEYS "; " PATTERN },
	{ "host=a,label.=b", "unknown key 'label.' after a comma; " KEYS "; " PATTERN },
	{ "pid=", "a pid is a whole number, not \"\"" },
	{ "pid=-1", "a pid is a whole number, not \"-1\"" },
	{ "host!=web-1,", NOTHING },
	{ "host!=web-1, ", NOTHING },
	{ "host!=web-1,,pid=12", NOTHING },
	{ "host!=web-1, ,pid=12", NOTHING },
	{ "pid=12,host!=,", NOTHING },
	{ "pid=1,", NOTHING },
	{ "host==web-1", TEXT("=") },
	{ "host!==web-1", TEXT("!=") },
	{ "pid=1,label.x==", TEXT("=") },
	{ "pid==1", "a pid is a whole number, not \"=1\"" },
	{ "pid=9223372036854775808",
	  "a pid is a whole number, not \"9223372036854775808\": that is out of range" },
	{ "count=3K", "a count is a whole number, not \"3K\"" },
	{ "size=4X", "a size is a whole number, as 4096, 64K or 10MiB, not \"4X\"" },
	{ "size=8388608T", "a size is a whole number, as 4096, 64K or 10MiB, not \"8388608T\": that is "
			   "out of range" },
	{ "time=", TIME "\"\"" },
	{ "time=yesterday", TIME "\"yesterday\"" },
	{ "time=-24", "time=-24 is an instant that no snapshot has; a time ago goes with < <= > >=" },
	{ "time!=-1h", "time!=-1h is an instant that no snapshot has; a time ago goes with < <= > >=" },
	{ "time>=-1x", TIME "\"-1x\"" },
	{ "time>=--1h", TIME "\"--1h\"" },
	{ "time=2026-13", TIME "\"2026-13\"" },
	{ "time=2026-00", TIME "\"2026-00\"" },
	{ "time=2026-02-29", TIME "\"2026-02-29\"" },
	{ "time=2026-11-21T24", TIME "\"2026-11-21T24\"" },
	{ "time=2026-11-21 03", TIME "\"2026-11-21 03\"" },
	{ "time=2026-11-21T03:60", TIME "\"2026-11-21T03:60\"" },
	{ "time=2026-11-21T", TIME "\"2026-11-21T\"" },
	{ "time=2026-11-21Z", TIME "\"2026-11-21Z\"" },
	{ "time=2026-11-21T03:15:00.", TIME "\"2026-11-21T03:15:00.\"" },
	{ "time=2026-11-21T03:15:00+2", TIME "\"2026-11-21T03:15:00+2\"" },
	{ "time=2026-11-21T03:15:00Zx", TIME "\"2026-11-21T03:15:00Zx\"" },
	{ "time=20261121x", TIME "\"20261121x\"" },
	{ "time=9999", TIME "\"9999\": that is out of range" },
	{ "time=1600-01-01", TIME "\"1600-01-01\": that is out of range" },
	{ "time=9223372036854775807", TIME "\"9223372036854775807\": that is out of range" },
	{ "time=99999999999999999999999", TIME "\"99999999999999999999999\": that is out of range" },
};

Test(fleet_selection, reports_valid_words_in_errors)
{
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct fleet_selection selection = { .term_nr = 99 };
		struct reason why = { "" };

		cr_expect_eq(fleet_selection_parse(errors[i].text, NOON, &selection, &why), -EINVAL, "%s",
			     errors[i].text);
		cr_expect_str_eq(why.text, errors[i].why, "%s: %s", errors[i].text, why.text);
		cr_expect_eq(selection.term_nr, 99, "%s: what was there stays", errors[i].text);
	}
	cr_expect_eq(fleet_selection_parse("x", NOON, &(struct fleet_selection){}, NULL), -EINVAL);
}

/* Pieces of selections in any order: each gives a selection or an error of one line. */
Test(fleet_selection, parses_or_refuses_hostile_texts)
{
	static const char *const pieces[] = {
		"host", "label.", "label.x", "pid", "size", "time", "count", "=", "!=", "<=", ">", "!", ",",
		"*", "[", "]", "[!", "2026", "-11", "-", "T12", ":", ".5", "Z", "+02:00", "9223372036854775807",
		"99999999999999999999", "-24h", "4M", "\xff", "\x01", "\xc3\xa9", "", "0",
	};
	uint64_t random = 88172645463325252ull;
	unsigned int parsed = 0;

	for (int i = 0; i < 200000; i++) {
		struct fleet_selection selection;
		struct reason why = { "" };
		char text[512] = "";
		int err;

		for (int nr = 1 + i % 12; nr; nr--) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			strcat(text, pieces[(random >> 33) % ARRAY_SIZE(pieces)]);
		}
		err = fleet_selection_parse(text, NOON, &selection, &why);
		cr_assert(err ? err == -EINVAL && *why.text : !*why.text, "%s: %d, %s", text, err, why.text);
		for (size_t k = 0; !err && k < facts.snapshot_nr; k++)
			fleet_selection_matches(&selection, &facts, &snapshots[k]);
		parsed += !err;
		if (!err)
			fleet_selection_release(&selection);
	}
	cr_expect_gt(parsed, 1000, "%u texts were selections", parsed);
}

Test(fleet_selection, accepts_a_long_text)
{
	size_t nr = 20000;
	char *text = calloc(nr, 8);
	struct fleet_selection selection;

	for (size_t i = 0; i < nr; i++)
		strcpy(text + 7 * i, i % 2 ? "pid<99," : "comm=*,");
	text[7 * nr - 1] = '\0';
	cr_assert_eq(fleet_selection_parse(text, NOON, &selection, NULL), 0);
	cr_expect_eq(selection.term_nr, nr);
	cr_expect(fleet_selection_matches(&selection, &facts, &snapshots[0]));
	fleet_selection_release(&selection);
	free(text);
}

/* ---- cohorts ----------------------------------------------------------------------------------- */

static void expect_cohort(const char *first, const char *second, enum cohort_times times,
			  const char *want, uint32_t process_nr, uint32_t host_nr)
{
	struct fleet_selection selection[2];
	const struct fleet_selection *const both[] = { &selection[0], &selection[1] };
	char letters[ARRAY_SIZE(snapshots) + 1] = "";
	struct cohort cohort;

	cr_assert_eq(fleet_selection_parse(first, NOON, &selection[0], NULL), 0);
	cr_assert_eq(fleet_selection_parse(second, NOON, &selection[1], NULL), 0);
	cr_assert_eq(cohort_choose(&facts, both, *second ? 2 : *first ? 1 : 0, times, &cohort), 0);
	for (size_t i = 0; i < cohort.snapshot_nr; i++)
		letters[i] = 'a' + (cohort.snapshot[i] - snapshots);
	cr_expect_str_eq(letters, want, "%s and %s: %s, not %s", first, second, letters, want);
	cr_expect_eq(cohort.process_nr, process_nr);
	cr_expect_eq(cohort.host_nr, host_nr);
	cohort_release(&cohort);
	fleet_selection_release(&selection[0]);
	fleet_selection_release(&selection[1]);
}

Test(fleet_selection, selects_cohorts)
{
	expect_cohort("", "", COHORT_ALL, "abcde", 4, 3);
	expect_cohort("", "", COHORT_LATEST, "bcde", 4, 3);
	expect_cohort("time<2026-11-21T12", "", COHORT_LATEST, "a", 1, 1); /* the last that matches */
	expect_cohort("host=web-*", "", COHORT_ALL, "abe", 2, 1);
	expect_cohort("host=web-*", "pid=10", COHORT_ALL, "ab", 1, 1);
	expect_cohort("host=web-*", "pid=10", COHORT_LATEST, "b", 1, 1);
	expect_cohort("host=none", "", COHORT_LATEST, "", 0, 0);
}

Test(fleet_selection, leaves_out_processes_that_had_ended)
{
	struct cohort cohort;

	snapshots[0].ending = snapshots[1].ending = NOT_SEEN_AGAIN;
	snapshots[1].behind_ns = 7;
	snapshots[3].size = 100;
	expect_cohort("", "", COHORT_LIVE, "ce", 2, 2);
	expect_cohort("time<2026-11-21T12", "", COHORT_LIVE, "a", 1, 1); /* it lived then */
	expect_cohort("time<=2026-11-21T12:00:00", "", COHORT_LIVE, "b", 1, 1);
	expect_cohort("time=2026-11-21", "pid=10", COHORT_LIVE, "b", 1, 1);
	expect_cohort("time>2026-11-21", "pid=10", COHORT_LIVE, "", 0, 0);
	expect_cohort("host=web-*", "", COHORT_LIVE, "e", 1, 1);
	expect_cohort("pid=10", "", COHORT_LIVE, "", 0, 0);
	expect_cohort("end=killed*", "", COHORT_LIVE, "d", 1, 1); /* asked for */
	expect_cohort("pid>=10", "end!=running", COHORT_LIVE, "bd", 2, 2);
	cr_assert_eq(cohort_choose(&facts, NULL, 0, COHORT_LIVE, &cohort), 0);
	cr_expect(cohort.ended.process_nr == 1 && cohort.ended.bytes == 100);
	cr_expect(cohort.unseen.process_nr == 1 && cohort.unseen.bytes == 8 << 20);
	cr_expect(cohort.unseen.least_behind_ns == 7 && cohort.unseen.most_behind_ns == 7);
	cohort_release(&cohort);
}
