// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "snapshot_sample.h"

static struct snapshot *import(const char *text)
{
	struct reason why = { "" };
	struct snapshot *snapshot = snapshot__import_json(text, strlen(text), "x.json", &why);

	cr_assert(snapshot, "%s: %s", text, why.text);
	return snapshot;
}

/* The caller frees it. */
static char *export(const struct snapshot *snapshot)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	cr_assert(out);
	cr_expect_eq(snapshot__export_json(snapshot, out), 0);
	fclose(out);
	return text;
}

/* An imported snapshot is the same, byte by byte, after an export and another import. */
static void expect_round_trip(const struct snapshot *snapshot, const char *text)
{
	struct snapshot *again = import(text);
	void *a, *b;
	size_t a_len, b_len;

	cr_assert_eq(snapshot__serialize(snapshot, NULL, &a, &a_len), 0);
	cr_assert_eq(snapshot__serialize(again, NULL, &b, &b_len), 0);
	cr_assert_eq(a_len, b_len, "%s", text);
	cr_expect_arr_eq(a, b, a_len, "%s", text);
	snapshot__close(again);
	free(a);
	free(b);
}

#define ALL(limit, traces) "{\"traceback_limit\": " limit ", \"traces\": [" traces "]}\n"
#define ONE(trace) ALL("1", "\n" trace "\n")
#define NAME(name) ONE("[0, 1, [[\"" name "\", 1]]]")

/* NULL: the export is the import. */
static const struct {
	const char *in, *out;
} texts[] = {
	{ ALL("7", ""), NULL },
	{ ALL("0", ""), NULL },
	{ ALL("9223372036854775807", ""), NULL },
	{ ONE("[0, 1, [[\"a.py\", 1]]]"), NULL },
	{ ONE("[0, 1, [[\"a.py\", 1]], 1]"), NULL },
	{ ONE("[0, 1, [[\"a.py\", 1]], 4294967295]"), NULL },
	{ ONE("[0, 1, [[\"a.py\", 1], [\"b.py\", 2]], 1]"), NULL }, /* the recorder's word */
	{ ONE("[4294967295, 9223372036854775807, [[\"a.py\", 4294967295]]]"), NULL },
	{ ONE("[0, 0, [[\"\", 0]]]"), NULL },
	{ ONE("[0, 0, [[\"\", 0], [\"\", 0]], 3]"), NULL },
	{ ALL("2", "\n[0, 1, [[\"a\", 1]]],\n[3, 1, [[\"a\", 1]]],\n[0, 1, [[\"a\", 1]]]\n"), NULL },
	{ NAME("\xc3\xa9 \xf0\x9f\x90\x8d"), NULL },
	{ NAME("\\\\ \\\" \\u0001 \\u001f / \x7f"), NULL },
	{ NAME("\\\\xff"), NULL },
	{ NAME("<unknown>"), NULL },
	{ NAME("\\u00e9\\n\\/"), NAME("\xc3\xa9\\u000a/") },
	{ NAME("\\ud83d\\udc0d"), NAME("\xf0\x9f\x90\x8d") },
	{ ONE("[0, 1, [[\"a.py\", 1]], null]"), ONE("[0, 1, [[\"a.py\", 1]]]") },
	{ ONE("[0, 1, [[\"a.py\", 1]], 0]"), ONE("[0, 1, [[\"a.py\", 1]]]") },
	{ "{\"traces\": [[0,1,[[\"a\",1],[\"b\",2]]]]}",
	  ALL("2", "\n[0, 1, [[\"a\", 1], [\"b\", 2]]]\n") },
	{ "{\"traces\": [], \"traceback_limit\": null, \"more\": {\"x\": [1.5]}}", ALL("1", "") },
	{ "{\"\xf0\x9f\x90\x8d\":\"\xc3\xa9\","
	  "\"traces\":[[0,1,[[\"\xc3\xa9\",1]]],[0,1,[[\"\",0]]]],\"n\":1e1}",
	  ALL("1", "\n[0, 1, [[\"\xc3\xa9\", 1]]],\n[0, 1, [[\"\", 0]]]\n") },
	{ ONE("[0, 1, [[\"a.py\", 1]], 1, 1]"), NULL },
	{ ONE("[0, 1, [[\"a.py\", 1]], null, 524288.5]"), NULL },
	{ ALL("1", "\n[0, 9, [[\"a\", 1]], 1, 58254.72236111112],\n[0, 8, [[\"a\", 1]], 1, 1.1]\n"),
	  NULL },
	{ ALL("1", "[0, 9, [[\"a\", 1]]], [0, 9, [[\"a\", 1]], 1, 2e0], [1, 2, [[\"a\", 1]], 1, 2e0]"),
	  ALL("1", "\n[0, 9, [[\"a\", 1]], null, 1],\n[0, 9, [[\"a\", 1]], 1, 2],\n"
		   "[1, 2, [[\"a\", 1]], 1, 2]\n") },
	{ ALL("1", "[0,1,[[\"]\\\"\",1]],2],"
		   "[ 3 , 4 ,[[\"]\\\"\",1]],2],[0,1,[[\"]\\\"\",1]],3]"),
	  ALL("1", "\n[0, 1, [[\"]\\\"\", 1]], 2],\n[3, 4, [[\"]\\\"\", 1]], 2],\n"
		   "[0, 1, [[\"]\\\"\", 1]], 3]\n") },
};

Test(snapshot_json, is_exported_as_it_was_imported)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct snapshot *snapshot = import(texts[i].in);
		char *out = export(snapshot);

		cr_expect_str_eq(out, texts[i].out ?: texts[i].in);
		expect_round_trip(snapshot, out);
		snapshot__close(snapshot);
		free(out);
	}
}

Test(snapshot_json, imports_tracemalloc_snapshots)
{
	struct snapshot *snapshot = import(ALL("5",
		"[0, 10, [[\"new\", 2], [\"old\", 1]], 9], [0, 0, []], [0, 0, [[\"\", 0]]]"));
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	const struct snap_traceback *first = &t->traceback[t->trace_traceback[0]];
	const struct snap_frame *frame = &t->frame[t->traceback_frame[first->first]];

	cr_assert_eq(t->trace_nr, 3);
	cr_expect(first->nframe == 2 && first->total_nframe == 9 && first->flags == 0);
	cr_expect_str_eq(snapshot__string(snapshot, frame->filename), "new");
	cr_expect(frame->lineno == 2 && !frame->function && !frame->object && !frame->flags);
	cr_expect_eq(t->trace_traceback[1], 0);
	cr_expect_eq(t->traceback[t->trace_traceback[2]].nframe, 1);
	cr_expect(!t->trace_domain && !t->trace_birth_ns && !t->trace_address && !t->trace_thread);
	cr_expect_eq(snapshot__metadata_u64(snapshot, "traceback_limit", 0), 5);
	cr_expect_str_eq(snapshot__metadata(snapshot, "source"), "tracemalloc JSON");
	snapshot__close(snapshot);
}

/* Traces that end alike, and one more. */
#define TAIL "[[\"\xc3\xa9\", 1]], 1]"
#define ALIKE(trace) "{\"traces\": [[0, 1, " TAIL ",\n[0, 2, " TAIL ",\n" trace "]}"
#define TRACE(trace) "{\"traces\": [[0, 1, []], " trace "]}"
#define FRAME(frame) TRACE("[0, 1, [[\"a\", 1], " frame "]]")

static const struct {
	const char *text, *says;
	int err; /* 0: EBADMSG */
} refused[] = {
	{ "", "line 1, column 0: '[' or '{' expected near end of file", 0 },
	{ "{\"traces\": [", "line 1, column 12: ", 0 },
	{ "{\n\"traces\": [}", "line 2, column 12: ", 0 },
	{ "{\"traces\": []} x", "line 1, column 16: end of file expected near 'x'", 0 },
	{ "{\"traces\": [], \"traces\": []}", "duplicate object key", 0 },
	{ "{\"traces\": [\"\xff\"]}", "traces[0]: not [domain, size, frames, total_nframe]", 0 },
	{ "{\"name\": \"\xff\", \"traces\": []}", "unable to decode byte 0xff", 0 },
	{ "{\"\x1b[31m", "line 1, column ", 0 },
	{ "[]", "not an object with traces", 0 },
	{ "{}", "no list \"traces\"", 0 },
	{ "{\"traces\": {}}", "traces is not a list", 0 },
	{ "{\"traces\": [], \"traceback_limit\": \"1\"}", "traceback_limit is not a whole number", 0 },
	{ "{\"traces\": [], \"traceback_limit\": -1}", "traceback_limit is negative", ERANGE },
	{ TRACE("1"), "traces[1]: not [domain, size, frames, total_nframe]", 0 },
	{ TRACE("[0, 1]"), "traces[1]: not [domain, size, frames, total_nframe]", 0 },
	{ TRACE("[0, 1, [], 1, 1, 1]"), "traces[1]: not [domain, size, frames, total_nframe]", 0 },
	{ TRACE("[0, 1, [], 1, \"1\"]"), "traces[1]: weight is not a number", 0 },
	{ TRACE("[0, 1, [], 1, null]"), "traces[1]: weight is not a number", 0 },
	{ TRACE("[0, 1, [], 1, 0.9999]"), "traces[1]: weight is less than 1", ERANGE },
	{ TRACE("[0, 1, [], 1, -1]"), "traces[1]: weight is less than 1", ERANGE },
	{ TRACE("[0, 1, [], 1, 1e400]"), "real number overflow", ERANGE },
	{ TRACE("{\"a\": 1}"), "traces[1]: not [domain, size, frames, total_nframe]", 0 },
	{ TRACE("[0, 1.0, []]"), "traces[1]: size is not a whole number", 0 },
	{ TRACE("[0, \"1\", []]"), "traces[1]: size is not a whole number", 0 },
	{ TRACE("[0, null, []]"), "traces[1]: size is not a whole number", 0 },
	{ TRACE("[0, -1, []]"), "traces[1]: size is negative", ERANGE },
	{ TRACE("[0, 9223372036854775808, []]"), "line 1, column 47: too big integer", ERANGE },
	{ TRACE("[true, 1, []]"), "traces[1]: domain is not a whole number", 0 },
	{ TRACE("[-1, 1, []]"), "traces[1]: domain is negative", ERANGE },
	{ TRACE("[4294967296, 1, []]"), "traces[1]: domain is more than 4294967295", ERANGE },
	{ TRACE("[0, 1, [], \"1\"]"), "traces[1]: total_nframe is not a whole number", 0 },
	{ TRACE("[0, 1, [], -1]"), "traces[1]: total_nframe is negative", ERANGE },
	{ TRACE("[0, 1, [], 4294967296]"), "total_nframe is more than 4294967295", ERANGE },
	{ TRACE("[0, 1, null]"), "traces[1]: its traceback is not a list of frames", 0 },
	{ TRACE("[0, 1, \"a\"]"), "traces[1]: its traceback is not a list of frames", 0 },
	{ ALIKE("[0, -2, " TAIL), "traces[2]: size is negative", ERANGE },
	{ ALIKE("[0, 0x2, " TAIL), "line 3, column 6: ']' expected near 'x'", 0 },
	{ ALIKE("[[0, 2, " TAIL), "traces[2]: not [domain, size, frames, total_nframe]", 0 },
	{ ALIKE("0, 2, " TAIL), "traces[2]: not [domain, size, frames, total_nframe]", 0 },
	{ ALIKE("[\"\xc3\xa9\"] 1"), "line 3, column 7: end of file expected near '1'", 0 },
	{ ALIKE(""), "line 3, column 0: unexpected token near end of file", 0 },
	{ ALIKE("[0, 3, []]], \"traces\": ["),
	  "line 3, column 21: duplicate object key near '\"traces\"'", 0 },
	{ ALIKE("[0, 3, []]], \"a\\u0000\": ["), "line 3, column 22: NUL byte in object key", 0 },
	{ ALIKE("[0, 3, []]], \"n\": [+"), "line 3, column 20: invalid token near '+'", 0 },
	{ ALIKE("[0, 3, []]], \"n\": {\"a\": 1, \"a\": 2}, \"m\": ["),
	  "line 3, column 30: duplicate object key near '\"a\"'", 0 },
	{ ALIKE("[0, 3, []],"), "line 3, column 11: unexpected token near end of file", 0 },
	{ "{\"traces\": [[0, 1, []]}", "line 1, column 23: unexpected token near '}'", 0 },
	{ "{\"traceback_limit\": \"1\", \"traces\": [1]}", "traces[0]: not [domain", 0 },
	{ FRAME("1"), "traces[1]: frame 1: not [filename, lineno]", 0 },
	{ FRAME("[\"a\"]"), "traces[1]: frame 1: not [filename, lineno]", 0 },
	{ FRAME("[\"a\", 1, 2]"), "traces[1]: frame 1: not [filename, lineno]", 0 },
	{ FRAME("[1, 1]"), "traces[1]: frame 1: the filename is not a string", 0 },
	{ FRAME("[null, 1]"), "traces[1]: frame 1: the filename is not a string", 0 },
	{ FRAME("[\"a\\u0000b\", 1]"), "traces[1]: frame 1: the filename holds a NUL", 0 },
	{ FRAME("[\"a\", null]"), "traces[1]: frame 1: lineno is not a whole number", 0 },
	{ FRAME("[\"a\", -1]"), "traces[1]: frame 1: lineno is negative", ERANGE },
	{ FRAME("[\"a\", 4294967296]"), "frame 1: lineno is more than 4294967295", ERANGE },
};

static void expect_refused(const char *text, size_t len, int err, const char *says)
{
	struct reason why = { "" };
	struct snapshot *snapshot = snapshot__import_json(text, len, "x.json", &why);

	cr_expect(!snapshot, "%.60s: was imported", text);
	if (!snapshot)
		cr_expect_eq(errno, err, "%.60s: errno %d", text, errno);
	cr_expect(!strncmp(why.text, "x.json: ", 8) && strstr(why.text, says),
		  "%.60s: says '%s', not '%s'", text, why.text, says);
	cr_expect(!strpbrk(why.text, "\n\x1b"));
	cr_expect_null(snapshot__import_json(text, len, "x.json", NULL));
	snapshot__close(snapshot);
}

Test(snapshot_json, refuses_invalid_texts)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		expect_refused(refused[i].text, strlen(refused[i].text), refused[i].err ?: EBADMSG,
			       refused[i].says);
}

/* Copies as long as they say, so that ASan sees a step too far. */
Test(snapshot_json, refuses_truncated_texts)
{
	const char *text = FRAME("[\"b\\u00e9\", 2]");

	for (size_t len = 0; len < strlen(text); len++) {
		char *cut = memcpy(malloc(len ?: 1), text, len);

		cr_expect_null(snapshot__import_json(cut, len, "x.json", NULL), "length %zu", len);
		free(cut);
	}
}

/* JSON of one trace with that many frames. The caller frees it. */
static char *deep_text(uint32_t nframe)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	fputs("{\"traceback_limit\": 1, \"traces\": [\n[0, 1, [", out);
	for (uint32_t i = 0; i < nframe; i++)
		fprintf(out, "%s[\"f\", %u]", i ? ", " : "", i % 9);
	fputs("]]\n]}\n", out);
	fclose(out);
	return text;
}

Test(snapshot_json, accepts_the_deepest_traceback)
{
	char *deep = deep_text(SNAP_TRACEBACK_MAX), *deeper = deep_text(SNAP_TRACEBACK_MAX + 1);
	struct snapshot *snapshot = import(deep);
	char *out = export(snapshot);

	cr_expect_eq(strcmp(out, deep), 0);
	expect_refused(deeper, strlen(deeper), ERANGE,
		       "traces[0]: 65536 frames are more than 65535");
	snapshot__close(snapshot);
	free(out);
	free(deep);
	free(deeper);
}

Test(snapshot_json, refuses_endless_nesting)
{
	size_t len = 1 << 20;
	char *text = malloc(len);

	memset(text, '[', len);
	expect_refused(text, len, EBADMSG, "maximum parsing depth");
	free(text);
}

/* {"a": [[…]], "traces": []} */
static char *nested_text(size_t depth)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	fputs("{\"a\": ", out);
	for (size_t i = 0; i < depth; i++)
		fputc('[', out);
	for (size_t i = 0; i < depth; i++)
		fputc(']', out);
	fputs(", \"traces\": []}", out);
	fclose(out);
	return text;
}

Test(snapshot_json, accepts_members_up_to_the_parsing_depth)
{
	char *deep = nested_text(2047), *deeper = nested_text(2048);

	snapshot__close(import(deep));
	expect_refused(deeper, strlen(deeper), EBADMSG,
		       "line 1, column 2054: maximum parsing depth reached near '['");
	free(deep);
	free(deeper);
}

/* jansson overlooks a NUL byte after a number. */
Test(snapshot_json, refuses_a_nul_byte_anywhere)
{
	const char *text = "{\"traces\": [[0, 1, " TAIL ", [0, 2, " TAIL "], \"b\": true}";
	size_t len = strlen(text);
	char with[128];

	for (size_t at = 0; at <= len; at++) {
		memcpy(with, text, at);
		with[at] = 0;
		memcpy(with + at + 1, text + at, len - at);
		expect_refused(with, len + 1, EBADMSG, "line 1, column ");
	}
}

Test(snapshot_json, exports_a_recording)
{
	struct snapshot *snapshot = sample_finish(sample_builder(SNAP_WITH_ALL));
	char *out = export(snapshot);

	cr_expect_str_eq(out, ALL("3", "\n"
		"[0, 100, [[\"libc.so\", 0], [\"list.c\", 3], [\"main.c\", 7]], 3],\n"
		"[1, 200, [[\"libc.so\", 0], [\"main.c\", 7]], 9],\n"
		"[0, 300, [[\"libc.so\", 0], [\"list.c\", 3], [\"main.c\", 7]], 3],\n"
		"[0, 0, [[\"<unknown>\", 0]]]\n"));
	snapshot__close(snapshot);
	free(out);
}

static const struct {
	const char *name, *text;
} names[] = {
	{ "a\xff" "b", "a\\\\xffb" },
	{ "\xc3", "\\\\xc3" },
	{ "\xc3\"", "\\\\xc3\\\"" },
	{ "\xed\xa0\x80", "\\\\xed\\\\xa0\\\\x80" },
	{ "\xc0\x80", "\\\\xc0\\\\x80" },
	{ "\xf4\x90\x80\x80", "\\\\xf4\\\\x90\\\\x80\\\\x80" },
	{ "\t\x7f\xc2\x80", "\\u0009\x7f\xc2\x80" },
	{ "", "" },
};

Test(snapshot_json, exports_any_name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct snapshot_builder *builder = snapshot_builder__new(0);
		struct snap_frame frame = { .offset = 1 };
		struct snapshot *snapshot;
		struct snap_trace trace = { .size = UINT64_MAX };
		char want[256];
		uint32_t id;
		char *out;

		cr_assert_eq(snapshot_builder__string(builder, names[i].name, &frame.filename), 0);
		cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
		cr_assert_eq(snapshot_builder__traceback(builder, &id, 1, 0, 0, &trace.traceback), 0);
		cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
		snapshot = sample_finish(builder);
		out = export(snapshot);
		snprintf(want, sizeof(want), ONE("[0, 18446744073709551615, [[\"%s\", 0]]]"),
			 names[i].text);
		cr_expect_str_eq(out, want);
		snapshot__close(snapshot);
		free(out);
	}
}

Test(snapshot_json, reports_a_full_device)
{
	struct snapshot *snapshot = import(NAME("a"));
	FILE *out = fopen("/dev/full", "w");

	cr_assert(out);
	cr_expect_eq(snapshot__export_json(snapshot, out), -ENOSPC);
	fclose(out);
	snapshot__close(snapshot);
}
