// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "binutils.h"
#include "elf/elf_object.h"
#include "elf/python/python_info.h"
#include "elf/python/python_lines.h"
#include "full.h"
#include "skip.h"

/*
 * Facts about real CPythons. The judge is CPython itself: python_truth.py reads its own memory at the given places.
 * ALLOCSNAP_TEST_PYTHONS: further interpreters, with colons between them.
 */

#define PYTHON "/usr/bin/python3"

/* The file with CPython: the program, or the library that it says it uses. */
static int open_python(const char *program, char *path, size_t room)
{
	char command[512];
	struct elf_object *elf;
	int fd;

	snprintf(command, sizeof(command),
		 "%s -c 'import ctypes as c; print([l.split()[-1] for l in open(\"/proc/self/maps\") if int(l.split(\"-\")[0], 16) <= "
		 "c.addressof(c.c_char.in_dll(c.pythonapi, \"_PyRuntime\")) and l.split()[-1][0] == \"/\"][-1])'", program);
	first_line(path, room, command);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	elf = elf_object__open(fd, NULL);
	cr_assert(elf, "%s: %s", program, path);
	elf_object__close(elf);
	return fd;
}

static uint64_t file_bytes_of(int fd)
{
	struct stat st;

	cr_assert_eq(fstat(fd, &st), 0);
	return st.st_size;
}

static struct python_info read_info(int fd)
{
	struct reason why = {};
	struct python_info info;
	int err = python_info_read(fd, NULL, &info, &why);

	cr_assert_eq(err, 0, "%s", why.text);
	cr_assert_str_empty(info.fault);
	cr_expect(python_info_is_sound(&info, file_bytes_of(fd)));
	return info;
}

/* ---- numbers ---- */

static void tell_offsets(FILE *to, const struct python_offsets *offsets)
{
#define TELL(field) fprintf(to, #field " %llu\n", (unsigned long long)offsets->field)
	TELL(code_mask), TELL(tstate_frame), TELL(cframe_frame), TELL(tstate_interp), TELL(frame_code), TELL(frame_back);
	TELL(frame_instruction), TELL(frame_owner), TELL(instruction_kind), TELL(owner_generator), TELL(owner_shim);
	TELL(code_first_line), TELL(code_filename), TELL(code_name), TELL(code_lines), TELL(code_instructions);
	TELL(code_first_traceable), TELL(string_length), TELL(string_state), TELL(string_ascii), TELL(string_compact);
	TELL(bytes_length), TELL(bytes_data);
#undef TELL
}

static void tell(FILE *to, const struct python_info *info)
{
	const struct python_pools *pools = &info->pools;

	fprintf(to, "major %u\nminor %u\nmicro %u\n", info->version.major, info->version.minor, info->version.micro);
	for (int i = 0; i < PYTHON_DOMAIN_NR; i++) {
		fprintf(to, "table%d %lu\n", i, info->table[i]);
		for (int k = 0; k < PYTHON_OPERATION_NR; k++)
			fprintf(to, "function%d.%d %lu\n", i, k, info->function[i][k]);
	}
	fprintf(to, "runtime %lu\ntss_key %lu\nmain_interpreter %lu\ntype_type %lu\n", info->runtime, info->tss_key,
		info->main_interpreter, info->type_type);
	fprintf(to, "states_first %u\nstate_thread %u\n", info->states.first, info->states.thread);
	fprintf(to, "pools_known %u\nin_interpreter %u\npools_state %u\npool_bytes %u\narena_bytes %u\n", pools->is_known,
		pools->in_interpreter, pools->state, pools->pool_bytes, pools->arena_bytes);
	fprintf(to, "used_pools %lu\nusable_arenas %lu\narenas %lu\nmax_arenas %lu\n", pools->used_pools,
		pools->usable_arenas, pools->arenas, pools->max_arenas);
	tell_offsets(to, &info->offsets);
}

static bool judge(const char *program, const struct python_info *info)
{
	char command[256];
	FILE *pipe;

	snprintf(command, sizeof(command), "%s tests/unit/elf/python_truth.py", program);
	pipe = popen(command, "w");
	cr_assert(pipe);
	tell(pipe, info);
	return pclose(pipe) == 0;
}

static void check_python(const char *program)
{
	char path[200];
	int fd = open_python(program, path, sizeof(path));
	struct python_info info;

	if (fd < 0)
		skip_because("%s is not CPython, or is not here", program);
	info = read_info(fd);
	cr_expect(judge(program, &info), "%s (%s)", program, path);
	close(fd);
	python_info_release(&info);
}

Test(python_info, is_true_of_this_python)
{
	check_python(PYTHON);
}

Test(python_info, is_true_of_other_pythons)
{
	char *list = getenv("ALLOCSNAP_TEST_PYTHONS"), *place;

	if (!list)
		skip_because("ALLOCSNAP_TEST_PYTHONS names no other interpreters");
	list = strdup(list);
	for (char *one = strtok_r(list, ":", &place); one; one = strtok_r(NULL, ":", &place))
		check_python(one);
	free(list);
}

/* The judge notices a wrong number. */
Test(python_info, judge_notices)
{
	char path[200];
	int fd = open_python(PYTHON, path, sizeof(path));
	struct python_info info, wrong;

	if (fd < 0)
		skip_because(PYTHON " is not CPython, or is not here");
	info = wrong = read_info(fd);
	wrong.offsets.code_first_line += 4;
	cr_expect_not(judge(PYTHON " 2>/dev/null", &wrong));
	wrong = info;
	wrong.pools.arenas += 8;
	cr_expect_not(judge(PYTHON " 2>/dev/null", &wrong));
	wrong = info;
	wrong.function[PYTHON_OBJECT][PYTHON_FREE]++;
	cr_expect_not(judge(PYTHON " 2>/dev/null", &wrong));
	wrong = info;
	wrong.tss_key += 4;
	cr_expect_not(judge(PYTHON " 2>/dev/null", &wrong));
	wrong = info;
	wrong.states.first += 8;
	cr_expect_not(judge(PYTHON " 2>/dev/null", &wrong));
	wrong = info;
	wrong.states.thread += 8;
	cr_expect_not(judge(PYTHON " 2>/dev/null", &wrong));
	close(fd);
	python_info_release(&info);
}

/* ---- places ---- */

static bool is_jump_text(const char *text)
{
	return !strncmp(text, "je ", 3) || !strncmp(text, "jne ", 4);
}

/* Each place is an instruction, a copied body at a conditional jump behind a comparison; each entry is in a function. */
Test(python_info, places_are_instructions)
{
	struct listed_code code = {};
	struct python_info info;
	char path[200];
	int fd = open_python(PYTHON, path, sizeof(path));

	if (fd < 0)
		skip_because(PYTHON " is not CPython, or is not here");
	objdump_code(&code, path);
	if (!code.item_nr)
		skip_because("objdump lists nothing of %s", path);
	info = read_info(fd);
	for (uint32_t i = 0; i < info.site_nr; i++) {
		const struct python_site *site = &info.site[i];
		const struct listed_insn *insn = listed_code__at(&code, site->vaddr);

		cr_assert(insn, "%lx is no instruction", site->vaddr);
		if (!site->is_entry)
			cr_expect(is_jump_text(insn->text) && site->asks_zf, "%lx: %s", site->vaddr, insn->text);
	}
	cr_expect_geq(info.site_nr - info.inlined_nr, 8, "two allocators' four functions");
	free(code.item);
	close(fd);
	python_info_release(&info);
}

/* Debian's own build is profile-guided: without its copied bodies a tenth of the allocations would be seen. */
Test(python_info, debian_has_copied_bodies)
{
	uint32_t of_operation[PYTHON_OPERATION_MAX] = {};
	struct python_info info;
	char path[200];
	int fd = open_python(PYTHON, path, sizeof(path));

	if (fd < 0)
		skip_because(PYTHON " is not CPython, or is not here");
	info = read_info(fd);
	if (!info.inlined_nr)
		skip_because(PYTHON " is not a profile-guided build");
	for (uint32_t i = 0; i < info.site_nr; i++)
		of_operation[info.site[i].operation]++;
	cr_expect_gt(of_operation[PYTHON_MALLOC], 100);
	cr_expect_gt(of_operation[PYTHON_REALLOC], 10);
	cr_expect_gt(of_operation[PYTHON_FREE], 50);
	cr_expect_lt(info.unknown_nr * 50, info.inlined_nr);
	close(fd);
	python_info_release(&info);
}

/* The functions that a process uses instead get entries; the copied bodies stay. */
Test(python_info, other_functions_in_force)
{
	struct python_asked asked = {};
	struct python_info info, other;
	char path[200];
	int fd = open_python(PYTHON, path, sizeof(path));
	bool found = false;

	if (fd < 0)
		skip_because(PYTHON " is not CPython, or is not here");
	info = read_info(fd);
	asked.function[PYTHON_OBJECT][PYTHON_MALLOC] = info.function[PYTHON_RAW][PYTHON_MALLOC];
	cr_assert_eq(python_info_read(fd, &asked, &other, NULL), 0);
	cr_expect_eq(other.inlined_nr, info.inlined_nr);
	for (uint32_t i = 0; i < other.site_nr; i++)
		found |= other.site[i].is_entry && other.site[i].domain == PYTHON_OBJECT &&
			 other.site[i].operation == PYTHON_MALLOC &&
			 other.site[i].vaddr - asked.function[PYTHON_OBJECT][PYTHON_MALLOC] < 64;
	cr_expect(found);
	close(fd);
	python_info_release(&info);
	python_info_release(&other);
}

/* ---- no CPython, or one that is refused ---- */

Test(python_info, other_files_are_none)
{
	struct reason why = {};
	struct python_info info;
	int fd = open("/bin/ls", O_RDONLY | O_CLOEXEC);

	cr_assert_eq(python_info_read(fd, NULL, &info, &why), -ENOENT);
	cr_expect_str_eq(why.text, "not CPython");
	close(fd);
}

Test(python_info, debug_builds_are_refused)
{
	struct python_info info;
	int fd = open("/usr/bin/python3.11d", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		skip_because("there is no debug build of CPython");
	cr_assert_eq(python_info_read(fd, NULL, &info, NULL), 0);
	cr_expect_str_eq(info.fault, "a debug build of CPython (--with-pydebug): not supported");
	cr_expect_eq(info.site_nr, 0);
	cr_expect(python_info_is_sound(&info, file_bytes_of(fd)));
	close(fd);
}

/* A copy of this Python that says it is of another version. */
static void expect_refused(const char *path, uint64_t offset, uint32_t version, const char *fault)
{
	struct python_info info;
	int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("python", MFD_CLOEXEC);
	uint64_t bytes = file_bytes_of(from);
	char *copy = malloc(bytes);

	cr_assert(copy && pread(from, copy, bytes, 0) == (ssize_t)bytes);
	memcpy(copy + offset, &version, sizeof(version));
	cr_assert_eq(write(to, copy, bytes), (ssize_t)bytes);
	cr_assert_eq(python_info_read(to, NULL, &info, NULL), 0);
	cr_expect_str_eq(info.fault, fault);
	python_info_release(&info);
	free(copy);
	close(from);
	close(to);
}

Test(python_info, unknown_versions_are_refused)
{
	char path[200], command[512], offset[32];
	int fd = open_python(PYTHON, path, sizeof(path));

	if (fd < 0)
		skip_because(PYTHON " is not CPython, or is not here");
	close(fd);
	snprintf(command, sizeof(command), "readelf --dyn-syms -W %s | awk '$8 == \"Py_Version\" { print $2 }'", path);
	first_line(offset, sizeof(offset), command);
	if (!*offset || strstr(path, ".so"))
		skip_because("%s has no Py_Version at a fixed address", path);
	/* a program's constants lie where its addresses say, 0x400000 lower */
	expect_refused(path, strtoull(offset, NULL, 16) - 0x400000, 0x030f00f0,
		       "CPython 3.15, which was never tested: 3.9 to 3.14 are known");
	expect_refused(path, strtoull(offset, NULL, 16) - 0x400000, 0x030d00f0,
		       "its _PyRuntime does not describe itself as CPython's");
	expect_refused(path, strtoull(offset, NULL, 16) - 0x400000, 0x030b02c1,
		       "CPython 3.11.2 before its release, which was never tested");
}

/*
 * Line tables against CPython's own answers for its standard library, and strings. python_lines_truth.py prints for each
 * code object "code KIND FIRST-LINE TABLE-IN-HEX", then "START END LINE" for each of its ranges of instructions.
 */

/* ---- the standard library ---- */

struct line_table {
	enum python_lines kind;
	int32_t first_line;
	uint8_t *byte;
	size_t size;
};

static void read_table(const char *line, struct line_table *table)
{
	unsigned int kind;
	int hex;

	cr_assert_eq(sscanf(line, "code %u %d %n", &kind, &table->first_line, &hex), 2);
	table->kind = kind;
	table->size = strcspn(line + hex, "\n") / 2;
	free(table->byte);
	table->byte = malloc(table->size); /* exactly: a sanitizer sees a read behind it */
	for (size_t i = 0; i < table->size; i++)
		cr_assert_eq(sscanf(line + hex + 2 * i, "%2hhx", &table->byte[i]), 1);
}

/* Returns the number of code objects. */
static size_t compare_with(const char *python)
{
	struct line_table table = {};
	size_t code_nr = 0, room = 0;
	char command[256], *line = NULL;
	FILE *pipe;

	snprintf(command, sizeof(command), "%s tests/unit/elf/python_lines_truth.py %d", python, full_or(1, 5));
	pipe = popen(command, "r");
	cr_assert(pipe);
	while (getline(&line, &room, pipe) > 0) {
		long start, end;
		int wanted;

		if (*line == 'c') {
			read_table(line, &table);
			code_nr++;
			continue;
		}
		cr_assert_eq(sscanf(line, "%ld %ld %d", &start, &end, &wanted), 3);
		for (long i = start; i < end; i++) {
			int32_t got = python_line(table.kind, table.byte, table.size, table.first_line, i);

			cr_assert_eq(got, wanted, "%s, code object %zu, instruction %ld: line %d, not %d", python, code_nr, i, got,
				     wanted);
		}
	}
	cr_assert_eq(pclose(pipe), 0);
	free(table.byte);
	free(line);
	return code_nr;
}

Test(python_lines, standard_library)
{
	cr_assert_gt(compare_with("/usr/bin/python3"), 1000);
}

Test(python_lines, standard_library_of_other_pythons)
{
	char *list = getenv("ALLOCSNAP_TEST_PYTHONS"), *place;

	if (!list)
		skip_because("ALLOCSNAP_TEST_PYTHONS names no other interpreters");
	list = strdup(list);
	for (char *one = strtok_r(list, ":", &place); one; one = strtok_r(NULL, ":", &place))
		cr_assert_gt(compare_with(one), 1000);
	free(list);
}

/* ---- what each format says, by hand ---- */

static const struct {
	enum python_lines kind;
	const char *what, *table;
	size_t bytes;
	int64_t instruction;
	int32_t line; /* the first is 100 */
} hand_made[] = {
	{ PYTHON_LNOTAB, "no entry", "", 0, 7, 100 },
	{ PYTHON_LNOTAB, "before the second", "\x00\x01\x08\x02", 4, 7, 101 },
	{ PYTHON_LNOTAB, "at the second", "\x00\x01\x08\x02", 4, 8, 103 },
	{ PYTHON_LNOTAB, "back", "\x02\xfe", 2, 2, 98 },
	{ PYTHON_LNOTAB, "half an entry", "\x00\x01\x00", 3, 0, 101 },
	{ PYTHON_LINETABLE, "first", "\x04\x01\x04\x01", 4, 1, 101 },
	{ PYTHON_LINETABLE, "second", "\x04\x01\x04\x01", 4, 2, 102 },
	{ PYTHON_LINETABLE, "no line", "\x04\x80\x04\x01", 4, 1, PYTHON_NO_LINE },
	{ PYTHON_LINETABLE, "behind no line", "\x04\x80\x04\x01", 4, 2, 101 },
	{ PYTHON_LINETABLE, "behind its end", "\x04\x01", 2, 2, PYTHON_NO_LINE },
	{ PYTHON_LOCATIONS, "short", "\x80\x00", 2, 0, 100 },
	{ PYTHON_LOCATIONS, "one line", "\xd9\x00\x00", 3, 1, 101 },
	{ PYTHON_LOCATIONS, "no columns, back", "\xe8\x03", 2, 0, 99 },
	{ PYTHON_LOCATIONS, "long", "\xf0\x42\x01\x00\x00\x00", 6, 0, 133 },
	{ PYTHON_LOCATIONS, "none", "\xf8", 1, 0, PYTHON_NO_LINE },
	{ PYTHON_LOCATIONS, "behind none", "\xf8\xe8\x04", 3, 1, 102 },
	{ PYTHON_LOCATIONS, "cut off in a number", "\xe8\x7f", 2, 0, 69 },
	{ PYTHON_LOCATIONS, "not begun", "\xe8\x04", 2, -1, 100 },
};

Test(python_lines, hand_made)
{
	for (size_t i = 0; i < ARRAY_SIZE(hand_made); i++) {
		int32_t line = python_line(hand_made[i].kind, hand_made[i].table, hand_made[i].bytes, 100,
					   hand_made[i].instruction);

		cr_expect_eq(line, hand_made[i].line, "%s: %d", hand_made[i].what, line);
	}
}

/* Any bytes give a line, or none. */
Test(python_lines, hostile)
{
	unsigned int seed = 1;

	for (int round = 0; round < 20000; round++) {
		size_t size = rand_r(&seed) % 64;
		uint8_t *table = malloc(size);

		for (size_t i = 0; i < size; i++)
			table[i] = rand_r(&seed);
		for (unsigned int kind = 0; kind < PYTHON_LINES_NR; kind++) {
			int32_t line = python_line(kind, table, size, rand_r(&seed), rand_r(&seed) % 100);

			cr_assert(line >= PYTHON_NO_LINE);
		}
		free(table);
	}
	cr_expect_eq(python_line(PYTHON_LOCATIONS, "", 0, 1, INT64_MAX), PYTHON_NO_LINE);
}

/* ---- strings ---- */

#define ASCII (1u << 2 | 1u << 6)
#define LATIN (1u << 2)
#define TWO (2u << 2)
#define FOUR (4u << 2)

static void expect_text(uint32_t state, const char *bytes, size_t nr, size_t room, const char *wanted, size_t used)
{
	char text[64];
	size_t got, len = python_text(state, bytes, nr, text, room, &got);

	cr_expect_str_eq(text, wanted);
	cr_expect_eq(len, strlen(wanted));
	cr_expect_eq(got, used, "'%s': %zu", wanted, got);
}

Test(python_lines, strings)
{
	expect_text(ASCII, "a.py", 4, 64, "a.py", 4);
	expect_text(LATIN, "\xe4.py", 4, 64, "ä.py", 4);
	expect_text(TWO, "\x3b\x04\x61\x00", 4, 64, "лa", 4);
	expect_text(TWO, "\xe9\xdc\x61\x00", 4, 64, "\\xe9a", 4); /* os.fsdecode(b"\xe9") */
	expect_text(TWO, "\xe8\xdc\x61\x00", 4, 64, "\\xe8a", 4);
	expect_text(FOUR, "\x80\xdc\0\0\xff\xdc\0\0", 8, 64, "\\x80\\xff", 8);
	expect_text(TWO, "\x00\xd8\x61\x00", 4, 64, "\\xed\\xa0\\x80a", 4);
	expect_text(TWO, "\x7f\xdc", 2, 64, "\\xed\\xb1\\xbf", 2);
	expect_text(FOUR, "\x0d\xf4\x01\x00", 4, 64, "🐍", 4);
	expect_text(FOUR, "\xff\xff\xff\xff", 4, 64, "\xef\xbf\xbd", 4);
	expect_text(ASCII, "a\0b", 3, 64, "a\\x00b", 3);
	expect_text(TWO, "\xe9\xdc", 2, 4, "", 0);
	expect_text(TWO, "\x61\x00\x62", 3, 64, "a", 2);
	expect_text(ASCII, "abcdef", 6, 4, "abc", 3);
	expect_text(TWO, "\x3b\x04\x3b\x04", 4, 4, "л", 2);
	expect_text(0, "abc", 3, 64, "", 0);
	expect_text(3u << 2, "abc", 3, 64, "", 0);
}

/* A name with a backslash stays another one than a name with a byte that is spelled so. */
Test(python_lines, strings_that_look_spelled)
{
	expect_text(ASCII, "a\\xe9", 5, 64, "a\\x5cxe9", 5);
	expect_text(ASCII, "\\x5cxe9", 7, 64, "\\x5cx5cxe9", 7);
	expect_text(ASCII, "\\x00", 4, 64, "\\x5cx00", 4);
	expect_text(TWO, "\\\0x\0f\0f\0", 8, 64, "\\x5cxff", 8);
	expect_text(ASCII, "\\x41\\xE9\\xe\\y\\", 14, 64, "\\x41\\xE9\\xe\\y\\", 14);
}
