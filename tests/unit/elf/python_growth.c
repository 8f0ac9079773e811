// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Places where CPython's allocator opens and closes pools: in code that is made here, and in real CPythons. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/array.h"
#include "binutils.h"
#include "elf/elf_object.h"
#include "elf/python/python_private.h"
#include "python_snippets.h"
#include "skip.h"

#define IN(field) offsetof(struct user_regs_struct, field)
#define FAULT "it was not found where its allocator opens and closes pools"

#define FIRST_USE "movl $0xffff, 0x24(%rax); "
#define OPENS FIRST_USE "movl $1, (%rax); cmp %ecx, %ebp; je 1f; mov %ebp, 0x24(%rax); 1: ret; "
#define CLOSES "mov 0x20(%rsi), %ebx; imul $0x30, %rbx, %rbx; add 0x403f04, %rbx; mov 0x18(%rbx), %rax; mov %rax, 0x10(%rsi); " \
	       "mov %rsi, 0x18(%rbx); mov 0x10(%rbx), %esi; ret; "
#define ROOM "lea 0x40(%rsp,%rax,4), %rdi; lea 0x44(%rsp,%rax,4), %rdi; lea 0x44(%rsp,%rax,4), %rdi; " \
	     "movabs $0x1122334455667788, %rdi; movabs $0x1122334455667788, %rdi; movabs $0x1122334455667788, %rdi; " \
	     "movabs $0x1122334455667788, %rdi; movabs $0x1122334455667788, %rdi; " /* before the first store */

SNIPPET(g_plain, ROOM OPENS CLOSES);
/* The size class is stored on the other side of the jump; the arena's address is copied before its field is read. */
SNIPPET(g_other_side, ROOM FIRST_USE "movl $1, (%rax); cmp %ecx, %r8d; jne 2f; ret; 2: mov %r8d, 0x24(%rax); ret; "
		      "mov 0x20(%rax), %edx; imul $0x30, %rdx, %rdx; add 0x200(%rbx), %rdx; mov %rdx, %r13; mov 0x18(%rdx), %rdx; "
		      "mov 0x10(%r13), %edi; mov %rdx, 0x10(%rax); mov %rax, 0x18(%r13); ret");
/* Loads and stores in another order, and an arena in r12. */
SNIPPET(g_order, ROOM FIRST_USE "movl $1, (%rax); mov %ebp, 0x24(%rax); ret; mov 0x20(%r15), %ecx; mov 0x10(%r12), %r8d; "
		 "mov 0x18(%r12), %rax; mov %rax, 0x10(%r15); mov %r8, %rax; mov %r15, 0x18(%r12); ret");

static const struct {
	struct snippet snippet;
	unsigned short opened, class, closed; /* registers */
} found[] = {
#define ROW(name, opened, class, closed) { { name##_start, name##_end, #name }, opened, class, closed }
	ROW(g_plain, IN(rax), IN(rbp), IN(rsi)), ROW(g_other_side, IN(rax), IN(r8), IN(rax)),
	ROW(g_order, IN(rax), IN(rbp), IN(r15)),
#undef ROW
};

/* The caller releases *ret. */
static void search_growth(const struct snippet *snippet, struct python_info *ret)
{
	const struct python_asked asked = { .pools = 1 };
	struct python_search search = { .info = ret, .asked = &asked };
	int fd = snippet_file(snippet);

	*ret = (struct python_info){};
	search.elf = elf_object__open(fd, NULL);
	cr_assert(search.elf);
	cr_assert_eq(python_code__open(&search.code, search.elf, NULL), 0);
	cr_assert_eq(python_find_growth(&search), 0);
	python_code__close(&search.code);
	elf_object__close(search.elf);
	close(fd);
}

Test(python_growth, places_and_registers)
{
	for (size_t i = 0; i < ARRAY_SIZE(found); i++) {
		const char *what = found[i].snippet.what;
		struct python_info info;

		search_growth(&found[i].snippet, &info);
		cr_expect_str_empty(info.fault, "%s: %s", what, info.fault);
		cr_assert_eq(info.site_nr, 2, "%s: %u", what, info.site_nr);
		cr_expect_eq(info.inlined_nr, 0, "%s", what);
		cr_expect_eq(info.site[0].operation, PYTHON_POOL_OPEN, "%s", what);
		cr_expect_eq(info.site[0].pointer.base, found[i].opened, "%s", what);
		cr_expect_eq(info.site[0].size.base, found[i].class, "%s", what);
		cr_expect_eq(info.site[0].size.bytes, 4, "%s", what);
		cr_expect_eq(info.site[1].operation, PYTHON_POOL_CLOSE, "%s", what);
		cr_expect_eq(info.site[1].pointer.base, found[i].closed, "%s", what);
		python_info_release(&info);
	}
}

/* ---- refused ---- */

SNIPPET(r_no_opening, ROOM FIRST_USE "movl $1, (%rax); mov %ebp, 0x24(%rbx); ret; " CLOSES);
SNIPPET(r_other_class, ROOM FIRST_USE "movl $1, (%rax); mov %edi, %ebp; mov %ebp, 0x24(%rax); ret; " CLOSES);
SNIPPET(r_no_closing, ROOM OPENS "ret");
SNIPPET(r_other_pool, ROOM OPENS "mov 0x20(%rsi), %ebx; mov 0x18(%rbx), %rax; mov %rax, 0x10(%rsi); mov %rdi, 0x18(%rbx); ret");
SNIPPET(r_other_arena, ROOM OPENS "mov 0x20(%rsi), %ebx; mov 0x18(%rbx), %rax; mov %rax, 0x10(%rsi); mov %rsi, 0x18(%rdx); ret");
SNIPPET(r_changed, ROOM OPENS "mov 0x20(%rsi), %ebx; mov 0x18(%rbx), %rax; mov %rax, 0x10(%rsi); add $16, %rsi; mov %rsi, 0x18(%rbx); ret");
SNIPPET(r_branch, ROOM OPENS "mov 0x20(%rsi), %ebx; mov 0x18(%rbx), %rax; mov %rax, 0x10(%rsi); je 3f; 3: mov %rsi, 0x18(%rbx); ret");
SNIPPET(r_no_number, ROOM OPENS "mov 0x20(%rdi), %esi; mov 0x18(%rbx), %rax; mov %rax, 0x10(%rsi); mov %rsi, 0x18(%rbx); ret");

Test(python_growth, other_code_is_refused)
{
#define ROW(name) { name##_start, name##_end, #name }
	static const struct snippet snippets[] = {
		ROW(r_no_opening), ROW(r_other_class), ROW(r_no_closing), ROW(r_other_pool), ROW(r_other_arena),
		ROW(r_changed), ROW(r_branch), ROW(r_no_number),
	};
#undef ROW

	for (size_t i = 0; i < ARRAY_SIZE(snippets); i++) {
		struct python_info info;

		search_growth(&snippets[i], &info);
		cr_expect_str_eq(info.fault, FAULT, "%s: %u places", snippets[i].what, info.site_nr);
		python_info_release(&info);
	}
}

Test(python_growth, hostile_bytes)
{
	unsigned int seed = 7;

	for (int round = 0; round < 300; round++) {
		uint8_t code[256];
		const struct snippet snippet = { code, code + sizeof(code), "hostile" };
		size_t bytes = g_plain_end - g_plain_start;
		struct python_info info;

		for (size_t i = 0; i < sizeof(code); i++)
			code[i] = rand_r(&seed);
		memcpy(code, g_plain_start, bytes < sizeof(code) ? bytes : sizeof(code));
		for (int i = 0; i < 4; i++)
			code[rand_r(&seed) % sizeof(code)] = rand_r(&seed);
		search_growth(&snippet, &info);
		for (uint32_t i = 0; i < info.site_nr; i++)
			cr_expect(info.site[i].vaddr >= CODE && info.site[i].vaddr < CODE + PAGE);
		python_info_release(&info);
	}
}

/* ---- real ones ---- */

/* The list begins a page before the first place, so that binutils is in step with the code there. */
static struct listed_code code_around(const struct python_info *info, const char *path)
{
	struct listed_code code = {};
	uint64_t from = UINT64_MAX, to = 0;

	for (uint32_t i = 0; i < info->site_nr; i++) {
		const struct python_site *site = &info->site[i];

		if (site->operation != PYTHON_POOL_OPEN && site->operation != PYTHON_POOL_CLOSE)
			continue;
		from = site->vaddr < from ? site->vaddr : from;
		to = site->vaddr > to ? site->vaddr : to;
	}
	objdump_between(&code, path, from - PAGE, to + 16);
	return code;
}

/* Binutils shows such instructions at each place. */
static void check_growth_places(const struct python_info *info, const char *path)
{
	uint32_t nr[PYTHON_OPERATION_MAX] = {};
	struct listed_code code = code_around(info, path);

	for (uint32_t i = 0; i < info->site_nr; i++) {
		const struct python_site *site = &info->site[i];
		const struct listed_insn *insn = listed_code__at(&code, site->vaddr);

		nr[site->operation]++;
		cr_expect(site->operation >= PYTHON_OPERATION_NR || site->domain == PYTHON_RAW, "%lx", site->vaddr);
		if (site->operation == PYTHON_POOL_OPEN && code.item_nr)
			cr_expect(insn && !strncmp(insn->text, "movl   $0x1,(%r", 15), "%s: %lx", path, site->vaddr);
		if (site->operation == PYTHON_POOL_CLOSE && code.item_nr)
			cr_expect(insn && !strncmp(insn->text, "mov    %r", 9) && strstr(insn->text, ",0x18(%r"), "%s: %lx", path,
				  site->vaddr);
	}
	cr_expect_geq(nr[PYTHON_POOL_OPEN], 1, "%s", path);
	cr_expect_geq(nr[PYTHON_POOL_CLOSE], 1, "%s", path);
	cr_expect_eq(nr[PYTHON_CODE_END], 1, "%s", path);
	free(code.item);
}

static void check_growth_of(const char *path)
{
	const struct python_asked asked = { .pools = 1 };
	struct python_info info;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || python_info_read(fd, &asked, &info, NULL))
		skip_because("%s is not CPython, or is not here", path);
	cr_expect_str_empty(info.fault, "%s: %s", path, info.fault);
	check_growth_places(&info, path);
	close(fd);
	python_info_release(&info);
}

Test(python_growth, of_this_python)
{
	check_growth_of("/usr/bin/python3");
}

/* Not profile-guided: nothing is copied. */
Test(python_growth, of_the_library)
{
	check_growth_of("/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0");
}

Test(python_growth, of_other_pythons)
{
	char *list = getenv("ALLOCSNAP_TEST_PYTHONS"), *place;

	if (!list)
		skip_because("ALLOCSNAP_TEST_PYTHONS names no other interpreters");
	list = strdup(list);
	for (char *one = strtok_r(list, ":", &place); one; one = strtok_r(NULL, ":", &place)) {
		char path[200], command[512];

		snprintf(command, sizeof(command),
			 "%s -c 'import sysconfig as s, sys; print(s.get_config_var(\"LIBDIR\") + \"/\" + s.get_config_var(\"INSTSONAME\") "
			 "if s.get_config_var(\"Py_ENABLE_SHARED\") else sys.executable)'", one);
		first_line(path, sizeof(path), command);
		check_growth_of(path);
	}
	free(list);
}
