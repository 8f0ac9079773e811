// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Facts about real CPythons. The judge is CPython itself: python_truth.py reads its own memory where it is told.
 * ALLOCSNAP_TEST_PYTHONS: further interpreters, with colons between them.
 */
#include "elf/python/python_info.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "binutils.h"
#include "elf/elf_object.h"
#include "skip.h"

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
