// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Copied bodies of allocator functions, in code that is made here: what is understood, and what is refused. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/array.h"
#include "elf/elf_object.h"
#include "elf/python/python_private.h"
#include "python_snippets.h"

#define MALLOC 0x401f00
#define CALLOC 0x401f10
#define REALLOC 0x401f20
#define FREE 0x401f30

/* The caller releases *ret. */
static void search_snippet(const struct snippet *snippet, struct python_info *ret)
{
	struct python_search search = { .info = ret };
	int fd = snippet_file(snippet);

	*ret = (struct python_info){};
	for (int i = 0; i < PYTHON_DOMAIN_NR; i++)
		for (int k = 0; k < PYTHON_OPERATION_NR; k++)
			ret->function[i][k] = (i == PYTHON_RAW ? MALLOC + 0x80 : MALLOC) + 16 * k;
	search.elf = elf_object__open(fd, NULL);
	cr_assert(search.elf);
	cr_assert_eq(python_code__open(&search.code, search.elf, NULL), 0);
	cr_assert_eq(python_find_inlined(&search), 0);
	python_code__close(&search.code);
	elf_object__close(search.elf);
	close(fd);
}

/* ---- understood ---- */

#define IN(field) offsetof(struct user_regs_struct, field)
#define NO ARGUMENT_NO_REGISTER

SNIPPET(s_constant, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: mov $32, %esi; call *%rdx");
SNIPPET(s_register, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: mov %r14, %rsi; mov %r8, %rdi; call *%rdx");
SNIPPET(s_je, "cmp " TEXT(MALLOC) ", %rax; 9: je 1f; mov %rbx, %rsi; jmp *%rax; 1: ret");
SNIPPET(s_scaled, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: lea 24(%rbx,%rcx,8), %rsi; call *%rdx");
SNIPPET(s_shifted, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: mov %rcx, %rsi; shl $4, %rsi; add $16, %rsi; call *%rdx");
SNIPPET(s_half, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: mov %ecx, %esi; call *%rdx");
SNIPPET(s_signed, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: movslq %ecx, %rsi; call *%rdx");
SNIPPET(s_memory, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: mov 8(%rbx), %rsi; call *%rdx");
SNIPPET(s_saved, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: mov %rcx, 8(%rsp); xor %ecx, %ecx; mov 8(%rsp), %rsi; call *%rdx");
SNIPPET(s_pushed, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: push %rbx; xchg %rbx, %rcx; pop %rsi; call *%rdx");
SNIPPET(s_tail, "cmp " TEXT(MALLOC) ", %rax; 9: jne 1f; ret; 1: mov %rbp, %rsi; add $24, %rsp; pop %rbp; pop %rbx; jmp *%rax");
SNIPPET(s_cold, "cmp " TEXT(MALLOC) ", %rdx; mov 16(%rdi), %rdi; 9: jne 1f; ret; 1: jmp 2f; ud2; 2: mov %r12, %rsi; call *%rdx");
SNIPPET(s_lea, "lea 0xef9(%rip), %rcx; mov 8(%rdi), %rdx; cmp %rcx, %rdx; 9: jne 1f; ret; 1: mov %r12, %rsi; call *%rdx");
SNIPPET(s_in_memory, "cmpq " TEXT(MALLOC) ", 8(%rbx); 9: jne 1f; ret; 1: mov %r12, %rsi; call *8(%rbx)");

static const struct {
	struct snippet snippet;
	struct argument_source size;
} understood[] = {
#define ROW(name, kind, width, is_signed, value, base, index, scale) \
	{ { name##_start, name##_end, #name }, { value, kind, width, is_signed, scale, base, index } }
	ROW(s_constant, ARGUMENT_CONSTANT, 8, 0, 32, NO, NO, 1),
	ROW(s_register, ARGUMENT_REGISTER, 8, 0, 0, IN(r14), NO, 1),
	ROW(s_je, ARGUMENT_REGISTER, 8, 0, 0, IN(rbx), NO, 1),
	ROW(s_scaled, ARGUMENT_ADDRESS, 8, 0, 24, IN(rbx), IN(rcx), 8),
	ROW(s_shifted, ARGUMENT_ADDRESS, 8, 0, 16, NO, IN(rcx), 16),
	ROW(s_half, ARGUMENT_REGISTER, 4, 0, 0, IN(rcx), NO, 1),
	ROW(s_signed, ARGUMENT_REGISTER, 4, 1, 0, IN(rcx), NO, 1),
	ROW(s_memory, ARGUMENT_MEMORY, 8, 0, 8, IN(rbx), NO, 1),
	ROW(s_saved, ARGUMENT_REGISTER, 8, 0, 0, IN(rcx), NO, 1),
	ROW(s_pushed, ARGUMENT_REGISTER, 8, 0, 0, IN(rbx), NO, 1),
	ROW(s_tail, ARGUMENT_REGISTER, 8, 0, 0, IN(rbp), NO, 1),
	ROW(s_cold, ARGUMENT_REGISTER, 8, 0, 0, IN(r12), NO, 1),
	ROW(s_lea, ARGUMENT_REGISTER, 8, 0, 0, IN(r12), NO, 1),
	ROW(s_in_memory, ARGUMENT_REGISTER, 8, 0, 0, IN(r12), NO, 1),
#undef ROW
};

/* The only jcc of a snippet's first 20 bytes is the place. */
static bool is_at_jcc(const struct snippet *snippet, uint64_t vaddr)
{
	size_t at = vaddr - CODE;

	return at < (size_t)(snippet->end - snippet->start) && (snippet->start[at] == 0x74 || snippet->start[at] == 0x75);
}

Test(python_inlined, understood)
{
	for (size_t i = 0; i < ARRAY_SIZE(understood); i++) {
		const struct snippet *snippet = &understood[i].snippet;
		struct python_info info;

		search_snippet(snippet, &info);
		cr_expect_eq(info.unknown_nr, 0, "%s", snippet->what);
		cr_expect_eq(info.inlined_nr, 1, "%s", snippet->what);
		if (info.site_nr != 1)
			continue;
		cr_expect(is_at_jcc(snippet, info.site->vaddr), "%s: %lx", snippet->what, info.site->vaddr);
		cr_expect_eq(info.site->offset, info.site->vaddr - CODE + PAGE);
		cr_expect_eq(info.site->domain, PYTHON_OBJECT);
		cr_expect_eq(info.site->operation, PYTHON_MALLOC);
		cr_expect_eq(memcmp(&info.site->size, &understood[i].size, sizeof(understood[i].size)), 0,
			     "%s: kind %u, base %u, index %u * %u, value %lu", snippet->what, info.site->size.kind,
			     info.site->size.base / 8, info.site->size.index / 8, info.site->size.scale, info.site->size.value);
		python_info_release(&info);
	}
}

/* ---- the arguments of each operation ---- */

SNIPPET(o_calloc, "cmp " TEXT(CALLOC) ", %rax; jne 1f; ret; 1: mov %rbx, %rdx; mov $3, %esi; call *%rax");
SNIPPET(o_realloc, "cmp " TEXT(REALLOC) ", %rax; jne 1f; ret; 1: mov %rbx, %rdx; mov %rcx, %rsi; call *%rax");
SNIPPET(o_free, "cmp " TEXT(FREE) ", %rax; jne 1f; ret; 1: mov %rbp, %rsi; call *%rax");

static struct python_site only_site(const uint8_t *start, const uint8_t *end)
{
	const struct snippet snippet = { start, end, "" };
	struct python_info info;
	struct python_site site;

	search_snippet(&snippet, &info);
	cr_assert_eq(info.site_nr, 1);
	site = *info.site;
	python_info_release(&info);
	return site;
}

Test(python_inlined, operations)
{
	struct python_site site = only_site(o_calloc_start, o_calloc_end);

	cr_expect_eq(site.operation, PYTHON_CALLOC);
	cr_expect_eq(site.size.base, IN(rbx));
	cr_expect(site.count.kind == ARGUMENT_CONSTANT && site.count.value == 3);
	site = only_site(o_realloc_start, o_realloc_end);
	cr_expect_eq(site.operation, PYTHON_REALLOC);
	cr_expect_eq(site.size.base, IN(rbx));
	cr_expect_eq(site.pointer.base, IN(rcx));
	site = only_site(o_free_start, o_free_end);
	cr_expect_eq(site.operation, PYTHON_FREE);
	cr_expect_eq(site.pointer.base, IN(rbp));
}

/* ---- refused ---- */

SNIPPET(r_other, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov $32, %esi; call *%rcx");
SNIPPET(r_changed, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov $32, %esi; mov %rbx, %rdx; call *%rdx");
SNIPPET(r_reloaded, "cmp " TEXT(MALLOC) ", %rdx; mov 8(%rax), %rdx; jne 1f; ret; 1: mov $32, %esi; call *%rdx");
SNIPPET(r_flags, "cmp " TEXT(MALLOC) ", %rdx; add $1, %rax; jne 1f; ret; 1: mov $32, %esi; call *%rdx");
SNIPPET(r_above, "cmp " TEXT(MALLOC) ", %rdx; ja 1f; ret; 1: mov $32, %esi; call *%rdx");
SNIPPET(r_product, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: imul %rbx, %rsi; call *%rdx");
SNIPPET(r_and, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov %rbx, %rsi; and $-16, %rsi; call *%rdx");
SNIPPET(r_branch, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov %rbx, %rsi; test %rsi, %rsi; je 2f; call *%rdx; 2: ret");
SNIPPET(r_call, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov $8, %esi; call 2f; call *%rdx; 2: ret");
SNIPPET(r_written, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov %rax, 8(%rcx); mov 8(%rbx), %rsi; call *%rdx");
SNIPPET(r_into, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: mov $32, %esi; call *%rdx; jmp 9b");
SNIPPET(r_into_far, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: mov $32, %esi; call *%rdx; .byte 0xe9; .long 9b - . - 4");
SNIPPET(r_static, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: xor %esi, %esi; mov %fs:40, %rsi; call *%rdx");
SNIPPET(r_string, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov $32, %esi; rep movsb; call *%rdx");
SNIPPET(r_endless, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: jmp 1b; call *%rdx");

static const struct snippet refused[] = {
#define ROW(name) { name##_start, name##_end, #name }
	ROW(r_other), ROW(r_changed), ROW(r_reloaded), ROW(r_flags), ROW(r_above), ROW(r_product), ROW(r_and),
	ROW(r_branch), ROW(r_call), ROW(r_written), ROW(r_into), ROW(r_into_far), ROW(r_static), ROW(r_string), ROW(r_endless),
#undef ROW
};

Test(python_inlined, refused_and_counted)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct python_info info;

		search_snippet(&refused[i], &info);
		cr_expect_eq(info.site_nr, 0, "%s", refused[i].what);
		cr_expect_eq(info.unknown_nr, 1, "%s", refused[i].what);
		python_info_release(&info);
	}
}

/* ---- no comparison at all, or for another purpose ---- */

SNIPPET(n_name, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; mov $1, %eax; ret; 1: xor %eax, %eax; ret");
SNIPPET(n_inside, "movabs $0x00401f00fa814890, %rax; call *%rax");
SNIPPET(n_argument, "mov " TEXT(MALLOC) ", %edi; call *%rax");

Test(python_inlined, others_are_not_counted)
{
	static const struct snippet others[] = {
		{ n_name_start, n_name_end, "names of allocators" },
		{ n_inside_start, n_inside_end, "inside of an instruction" },
		{ n_argument_start, n_argument_end, "an argument" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct python_info info;

		search_snippet(&others[i], &info);
		cr_expect_eq(info.site_nr, 0, "%s", others[i].what);
		cr_expect_eq(info.unknown_nr, 0, "%s", others[i].what);
		python_info_release(&info);
	}
}

/* ---- any bytes ---- */

Test(python_inlined, hostile_code)
{
	static const uint8_t pieces[][8] = {
		{ 0x48, 0x81, 0xfa, 0x00, 0x1f, 0x40, 0x00 }, { 0x75, 0x03 }, { 0xff, 0xd2 }, { 0xe9 }, { 0xf3, 0xa4 },
		{ 0x48, 0x8d, 0x0d }, { 0x48, 0x87, 0xd1 }, { 0x5e }, { 0x56 }, { 0xeb, 0xfe },
	};
	unsigned int seed = 7;

	for (int round = 0; round < 300; round++) {
		uint8_t code[256];
		const struct snippet snippet = { code, code + sizeof(code), "hostile" };
		struct python_info info;

		for (size_t i = 0; i < sizeof(code); i++)
			code[i] = rand_r(&seed);
		for (size_t i = 0; i + 8 < sizeof(code); i += 1 + rand_r(&seed) % 12)
			memcpy(code + i, pieces[rand_r(&seed) % ARRAY_SIZE(pieces)], 7);
		search_snippet(&snippet, &info);
		for (uint32_t i = 0; i < info.site_nr; i++)
			cr_expect(info.site[i].vaddr >= CODE && info.site[i].vaddr < CODE + PAGE);
		python_info_release(&info);
	}
}
