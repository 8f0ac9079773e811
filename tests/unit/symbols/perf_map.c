// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "symbols/perf_map.h"

static int map_of(const char *text, size_t bytes)
{
	int fd = memfd_create("map", MFD_CLOEXEC);

	cr_assert(fd >= 0 && write(fd, text, bytes) == (ssize_t)bytes);
	return fd;
}

/* The names of addresses 0x1000, 0x1010 …; "-": none. */
static void expect_part(const char *text, size_t bytes, struct perf_map_part part, const char *const want[4])
{
	static const uint64_t address[] = { 0x1000, 0x1010, 0x1020, UINT64_MAX };
	struct perf_map_names names;
	int fd = map_of(text, bytes);

	cr_assert_eq(perf_map_read(fd, &part, address, ARRAY_SIZE(address), &names, NULL), 0);
	cr_assert_eq(names.nr, ARRAY_SIZE(address));
	for (size_t i = 0; i < ARRAY_SIZE(address); i++) {
		const char *name = names.name[i] ? names.text + names.name[i] - 1 : "-";

		cr_expect_str_eq(name, want[i], "%lx: %s, not %s in \"%.60s\"", address[i], name, want[i], text);
	}
	free(names.name);
	free(names.text);
	close(fd);
}

static void expect_names(const char *text, size_t bytes, const char *const want[4])
{
	expect_part(text, bytes, (struct perf_map_part){ .settled = UINT64_MAX }, want);
}

static const struct {
	const char *text, *want[4];
} rows[] = {
	{ "1000 10 a\n1010 10 b c\n", { "a", "b c", "-", "-" } },
	{ "1000 11 a\n", { "a", "a", "-", "-" } },
	{ "fff 1 a\n1001 f b\n", { "-", "-", "-", "-" } },
	{ "1000 20 a\n1010 8 b\n", { "a", "b", "-", "-" } }, /* the later one counts */
	{ "1010 8 b\n1000 20 a\n", { "a", "a", "-", "-" } },
	{ "0 ffffffffffffffff all\n", { "all", "all", "all", "-" } },
	{ "FFFFFFFFFFFFFFFF 1 last\n", { "-", "-", "-", "last" } },
	{ "1000 10 written", { "-", "-", "-", "-" } }, /* it has no end yet */
	{ "1000 10\n1000 10 \n1000  10 a\n 1000 10 a\n1000 -1 a\nx000 10 a\n", { "-", "-", "-", "-" } },
	{ "10000000000001000 10 a\n1000 00000000000000010 a\n", { "-", "-", "-", "-" } }, /* 17 digits */
	{ "1000 0 a\n", { "-", "-", "-", "-" } },
	{ "\n\n1000 10 a\n", { "a", "-", "-", "-" } },
	{ "", { "-", "-", "-", "-" } },
};

Test(symbols_perf_map, names_addresses)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		expect_names(rows[i].text, strlen(rows[i].text), rows[i].want);
}

#define SEVERAL PERF_MAP_SEVERAL

/* Lines from `settled` on may be of code that came after the code that is asked for. */
Test(symbols_perf_map, later_name_that_is_not_settled_is_one_of_several)
{
	static const char text[] = "1000 10 a\n1010 10 a\n1000 10 b\n1010 10 a\n1020 10 c\n";
	static const char *const want[][4] = { { SEVERAL, "a", "c", "-" }, { "b", "a", "c", "-" } };

	for (uint64_t settled = 0; settled < sizeof(text); settled++)
		expect_part(text, sizeof(text) - 1, (struct perf_map_part){ .settled = settled }, want[settled > 20]);
}

/* A map is read on from where it ended, unless it is another one by then. */
Test(symbols_perf_map, map_that_has_grown_is_read_from_its_old_end)
{
	static const char text[] = "1000 10 a\n1010 10 b\n1020", more[] = " 10 c\n1000 10 d\n";
	int fd = map_of(text, sizeof(text) - 1);
	struct perf_map_part part = {};
	const uint64_t address = 0x1000;
	struct perf_map_names names;

	cr_assert_eq(perf_map_read(fd, &part, &address, 1, &names, NULL), 0);
	cr_expect_eq(names.end, 20);
	part = (struct perf_map_part){ .from = names.end, .hash = names.hash };
	free(names.name);
	free(names.text);
	close(fd);
	expect_part("1000 10 a\n1010 10 b\n1020 10 c\n1000 10 d\n", sizeof(text) + sizeof(more) - 2, part,
		    (const char *const[]){ "d", "-", "c", "-" });
	expect_part("1000 10 x\n1010 10 b\n1020 10 c\n", 30, part, (const char *const[]){ "x", "b", "c", "-" });
	expect_part("1000 10 x\n", 10, part, (const char *const[]){ "x", "-", "-", "-" });
}

/* Lines of all lengths cross the ends of what is read at once. */
Test(symbols_perf_map, line_may_lie_anywhere)
{
	static const char *const want[] = { "-", "b", "-", "-" };
	static const char line[] = "1010 10 b\n";

	for (size_t before = (1 << 16) - 20; before < (1 << 16) + 20; before++) {
		char *text = malloc(before + sizeof(line));

		memset(text, 'x', before);
		for (size_t at = 999; at < before; at += 1000)
			text[at] = '\n';
		text[before - 1] = '\n';
		memcpy(text + before, line, sizeof(line));
		expect_names(text, before + sizeof(line) - 1, want);
		free(text);
	}
}

Test(symbols_perf_map, longer_line_does_not_count)
{
	static const char *const long_name[] = { "-", "b", "-", "-" };
	size_t bytes = 200000;
	char *text = malloc(bytes);

	memset(text, 'a', bytes);
	memcpy(text, "1000 10 ", 8);
	memcpy(text + bytes - 11, "\n1010 10 b\n", 11);
	expect_names(text, bytes, long_name);
	free(text);
}

Test(symbols_perf_map, long_name_is_cut)
{
	char text[2000], cut[PERF_MAP_NAME_MAX];

	memset(text, 'a', sizeof(text));
	memset(cut, 'a', sizeof(cut));
	cut[sizeof(cut) - 1] = '\0';
	memcpy(text, "1000 10 ", 8);
	text[sizeof(text) - 1] = '\n';
	expect_names(text, sizeof(text), (const char *const[]){ cut, "-", "-", "-" });
}

/* ---- jitdumps ---- */

struct dumped {
	uint32_t id, bytes;
	uint64_t time_ns;
	uint32_t pid, tid;
	uint64_t vma, number[3];
	char name[8];
};

static const struct {
	uint32_t magic, version, bytes, machine, pad, pid;
	uint64_t time_ns, flags;
} dump_head = { 0x4a695444, 1, 40, 62 };

static void expect_dumped_part(const struct dumped *record, size_t nr, size_t cut, struct perf_map_part part,
			       const char *const want[4])
{
	size_t bytes = sizeof(dump_head) + nr * sizeof(*record);
	char *dump = malloc(bytes);

	memcpy(dump, &dump_head, sizeof(dump_head));
	memcpy(dump + sizeof(dump_head), record, nr * sizeof(*record));
	expect_part(dump, bytes - cut, part, want);
	free(dump);
}

static void expect_dumped(const struct dumped *record, size_t nr, size_t cut, const char *const want[4])
{
	expect_dumped_part(record, nr, cut, (struct perf_map_part){ .settled = UINT64_MAX }, want);
}

#define LOAD(address, size, name) { 0, sizeof(struct dumped), .number = { address, size }, name }

static const struct dumped dumped[] = {
	LOAD(0x1000, 0x10, "a"),
	LOAD(0x1010, 0x18, "b"),
	{ 2, sizeof(struct dumped), .number = { 0x1000, 0x10 }, "line" },
	LOAD(0x1020, 0x10, "c"),
};

Test(symbols_perf_map, jitdump_names_addresses)
{
	struct dumped moved = { 1, sizeof(moved), .number = { 0x5000, 0x1008, 0x10 } }, broken[ARRAY_SIZE(dumped)];

	expect_dumped(dumped, ARRAY_SIZE(dumped), 0, (const char *const[]){ "a", "b", "c", "-" });
	expect_dumped(dumped, ARRAY_SIZE(dumped), 1, (const char *const[]){ "a", "b", "b", "-" });
	memcpy(broken, dumped, sizeof(dumped));
	broken[3] = moved;
	expect_dumped(broken, ARRAY_SIZE(dumped), 0, (const char *const[]){ "a", "-", "b", "-" });
	expect_dumped_part(broken, ARRAY_SIZE(dumped), 0, (struct perf_map_part){}, (const char *const[]){ "a", SEVERAL, "b", "-" });
	broken[1].bytes = 15;
	expect_dumped(broken, ARRAY_SIZE(dumped), 0, (const char *const[]){ "a", "-", "-", "-" });
	memset(broken[0].name, 'x', sizeof(broken[0].name)); /* without its end */
	expect_dumped(broken, 1, 0, (const char *const[]){ "xxxxxxxx", "-", "-", "-" });
}

Test(symbols_perf_map, too_large_map_is_refused)
{
	const uint64_t address = 0x1000;
	struct perf_map_names names;
	struct reason why;
	int fd = map_of("1000 10 a\n", 10);

	cr_assert(!ftruncate(fd, PERF_MAP_BYTES_MAX + (1 << 20)));
	cr_expect_eq(perf_map_read(fd, &(struct perf_map_part){}, &address, 1, &names, &why), -E2BIG);
	cr_expect_str_eq(why.text, "it has more than 256 MiB");
	close(fd);
}
