// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Facts about CPython that the worker process finds. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "elf/python/python_info.h"
#include "elf/python/python_lines.h"
#include "sandbox_fixture.h"
#include "skip.h"

#define PYTHON_FILE "/usr/bin/python3"

static bool same_sites(const struct python_info *a, const struct python_info *b)
{
	return a->site_nr == b->site_nr && !memcmp(a->site, b->site, a->site_nr * sizeof(*a->site));
}

Test(sandbox_python, equals_what_is_found_without_a_worker)
{
	struct sandbox *sandbox = parser_with(NULL, 0);
	struct python_asked asked = {};
	struct python_info ours, theirs;
	int fd = open(PYTHON_FILE, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || python_info_read(fd, NULL, &ours, NULL))
		skip_because(PYTHON_FILE " is no CPython in one file");
	cr_assert_eq(sandbox__python(sandbox, fd, NULL, &theirs, NULL), 0);
	cr_expect(same_sites(&ours, &theirs));
	cr_expect_eq(ours.tss_key, theirs.tss_key);
	cr_expect_eq(memcmp(&ours.offsets, &theirs.offsets, sizeof(ours.offsets)), 0);
	python_info_release(&theirs);

	asked.function[PYTHON_OBJECT][PYTHON_FREE] = ours.function[PYTHON_RAW][PYTHON_FREE];
	python_info_release(&ours);
	cr_assert_eq(python_info_read(fd, &asked, &ours, NULL), 0);
	cr_assert_eq(sandbox__python(sandbox, fd, &asked, &theirs, NULL), 0);
	cr_expect(same_sites(&ours, &theirs));
	python_info_release(&ours);
	python_info_release(&theirs);
	close(fd);
	sandbox__close(sandbox);
}

Test(sandbox_python, other_files)
{
	struct sandbox *sandbox = parser_with(NULL, 0);
	struct python_info info;
	struct reason why = {};
	int fd = open("/bin/ls", O_RDONLY | O_CLOEXEC);

	cr_expect_eq(sandbox__python(sandbox, fd, NULL, &info, &why), -ENOENT);
	cr_expect_str_eq(why.text, "not CPython");
	close(fd);
	sandbox__close(sandbox);
}

/* ---- lines ---- */

Test(sandbox_python, lines)
{
	const struct python_line_table table = { PYTHON_LINETABLE, 100, "\x04\x01\x04\x80", 4 };
	const int64_t instruction[] = { 0, 2, -1 };
	struct sandbox *sandbox = parser_with(NULL, 0);
	int32_t line[3] = {};

	cr_assert_eq(sandbox__python_lines(sandbox, &table, instruction, 3, line, NULL), 0);
	cr_expect_eq(line[0], 101);
	cr_expect_eq(line[1], PYTHON_NO_LINE);
	cr_expect_eq(line[2], 100);
	cr_expect_eq(sandbox__python_lines(sandbox, &table, NULL, 0, NULL, NULL), 0);
	cr_expect_eq(sandbox__python_lines(sandbox, &(struct python_line_table){ .bytes = PYTHON_LINES_BYTES_MAX + 1 },
					  instruction, 1, line, NULL), -E2BIG);
	sandbox__close(sandbox);
}

static void tell_of_lines(int fd)
{
	struct lines_answer lines = { .nr = 1 };
	int32_t line = -2;

	parser_say(fd, &(struct parser_said){
		.kind = LINES, .piece = { { &lines, sizeof(lines) }, { &line, sizeof(line) } }, .piece_nr = 2,
	});
}

Test(sandbox_python, impossible_lines_are_refused)
{
	const struct python_line_table table = { PYTHON_LOCATIONS, 1, "\x80\x00", 2 };
	struct sandbox *sandbox = parser_with(tell_of_lines, 0);
	int64_t instruction = 0;
	int32_t line;

	cr_expect_eq(sandbox__python_lines(sandbox, &table, &instruction, 1, &line, NULL), -EIO);
	sandbox__close(sandbox);
}

/* ---- answers that only a compromised reader gives ---- */

static struct python_info lie;
static struct python_site lie_site;

static void tell_of_python(int fd)
{
	parser_say(fd, &(struct parser_said){
		.kind = PYTHON, .piece = { { &lie, sizeof(lie) }, { &lie_site, sizeof(lie_site) } }, .piece_nr = 2,
	});
}

static int ask_liar(void)
{
	struct sandbox *sandbox = parser_with(tell_of_python, 0);
	struct python_info info = {};
	int fd = open("/bin/ls", O_RDONLY | O_CLOEXEC), err;

	err = sandbox__python(sandbox, fd, NULL, &info, NULL);
	python_info_release(&info);
	close(fd);
	sandbox__close(sandbox);
	return err;
}

static void sound_answer(void)
{
	static const struct argument_source none = {
		.bytes = 8, .scale = 1, .base = ARGUMENT_NO_REGISTER, .index = ARGUMENT_NO_REGISTER,
	};

	lie = (struct python_info){ .version = { 3, 11, 2, 0xf0 }, .text_start = 0x1000, .text_end = 0x2000, .site_nr = 1 };
	cr_assert(python_offsets_of(lie.version, &lie.offsets));
	lie_site = (struct python_site){ .vaddr = 0x1100, .offset = 0x100, .size = none, .count = none, .pointer = none };
}

#define EXPECT_REFUSED(change) \
	({ \
		sound_answer(); \
		change; \
		cr_expect_eq(ask_liar(), -EIO, #change); \
	})

Test(sandbox_python, lies_are_refused)
{
	sound_answer();
	cr_assert_eq(ask_liar(), 0);
	EXPECT_REFUSED(lie.site_nr = 2);
	EXPECT_REFUSED(lie.site_nr = UINT32_MAX);
	EXPECT_REFUSED(lie.inlined_nr = 2);
	EXPECT_REFUSED(lie.offsets.frame_bytes = 4096);
	EXPECT_REFUSED(lie.version.minor = 15);
	EXPECT_REFUSED(memset(lie.fault, 'x', sizeof(lie.fault)));
	EXPECT_REFUSED(lie.pools.in_interpreter = 3);
	EXPECT_REFUSED(lie_site.vaddr = 0x2000);
	EXPECT_REFUSED(lie_site.offset = 1ull << 40);
	EXPECT_REFUSED(lie_site.operation = PYTHON_OPERATION_MAX);
	EXPECT_REFUSED(lie_site.domain = PYTHON_DOMAIN_NR);
	EXPECT_REFUSED(lie_site.size.base = 4096);
	EXPECT_REFUSED(lie_site.pointer.bytes = 3);
	EXPECT_REFUSED(lie_site.count.kind = ARGUMENT_KIND_NR);
}
