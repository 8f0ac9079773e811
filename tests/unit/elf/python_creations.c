// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Places where CPython's objects begin, in code that is made here, and in this machine's Python. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/array.h"
#include "elf/elf_object.h"
#include "elf/python/python_private.h"
#include "python_snippets.h"
#include "skip.h"

#define DATA_PAGE 0x403000u
#define OTHER_FLAG "0x403f08"
#define IN(field) offsetof(struct user_regs_struct, field)

/* A snippet begins with _Py_NewReference(), whose place is the first one of each; the function that it calls is at told. */
#define CASE(name, code) \
	SNIPPET(name, "mov 0x403f04, %eax; test %eax, %eax; jne 1f; movq $1, (%rdi); ret; 1: sub $24, %rsp; mov %rdi, 8(%rsp); " \
		      "call " #name "_start+0xf40; mov 8(%rsp), %rdi; movq $1, (%rdi); add $24, %rsp; ret;" \
		      "2: " code)

#define TOLD(name) "call " #name "_start+0xf40"

CASE(c_register, "mov 0x403f04, %edx; test %edx, %edx; 9: jne 3f; ret; 3: mov %r12, %rdi; " TOLD(c_register) "; ret");
CASE(c_memory, "cmpl $0, 0x403f04; 9: je 3f; mov 8(%rsp), %rdi; " TOLD(c_memory) "; 3: ret");
CASE(c_tail, "mov 0x403f04, %eax; mov $1, %ecx; test %eax, %eax; 9: jne 3f; ret; 3: mov %rbx, %rdi; jmp c_tail_start+0xf40");
CASE(c_cold, "mov 0x403f04, %eax; test %eax, %eax; lea 16(%rbx), %r13; 9: jne 3f; ret; 3: jmp 4f; ud2; 4: mov %r13, %rdi; " TOLD(c_cold));

CASE(c_array, "mov 0x403f04, %esi; mov %eax, 16(%rdx); cltq; mov 32(%rdx,%rax,8), %rbx; test %esi, %esi; 9: jne 3f; ret; "
	      "3: mov %rbx, %rdi; " TOLD(c_array));
CASE(c_array_compared, "cmpl $0, 0x403f04; mov %eax, 16(%rdx); cltq; mov 32(%rdx,%rax,8), %rbx; 9: je 3f; mov %rbx, %rdi; "
		       TOLD(c_array_compared) "; 3: ret");

/* The flag of a library: the address of its variable is at CODE + 0x200. */
SNIPPET(c_slot, "mov 0x401200, %rax; push %rbx; mov 0xf04(%rax), %eax; test %eax, %eax; jne 1f; pop %rbx; ret; 1: call c_slot_start+0xf40;"
		"mov 0x401200, %rcx; mov %rdi, %rbx; mov 0xf04(%rcx), %eax; test %eax, %eax; je 2f; mov %rbx, %rdi; "
		"call c_slot_start+0xf40; 2: ret; .org c_slot_start + 0x200; .quad 0x403000");

/* From 3.13 on the flag is the pointer at 0x403f08, and the tracer's third argument is behind it. */
#define TRACER(name, code) \
	SNIPPET(name, "endbr64; mov 0x403f08, %rax; movq $1, (%rdi); test %rax, %rax; jne 1f; ret; " \
		      "1: mov 0x403f10, %rdx; xor %esi, %esi; jmp *%rax; 2: " code)
#define ASKED "mov 0x403f08, %rax; movq $1, (%rbx); test %rax, %rax; jne 3f; ret; 3: "

TRACER(t_register, ASKED "mov 0x403f10, %rdx; xor %esi, %esi; mov %r12, %rdi; call *%rax; ret");
TRACER(t_copy, ASKED "cmp $0x401f40, %rax; jne 4f; call t_copy_start+0xf40; ret; 4: mov %r13, %rdi; mov 0x403f10, %rdx; mov $0, %esi; call *%rax");
TRACER(t_copy_behind, ASKED "cmp $0x401f40, %rax; mov %rcx, -8(%rbp); je 5f; mov 0x403f10, %rdx; mov %rbx, %rdi; "
			    "mov %r8, -16(%rbp); xor %esi, %esi; call *%rax; 5: ret");
TRACER(t_memory, "cmpq $0, 0x403f08; je 3f; mov 0x403f10, %rdx; mov 8(%rsp), %rdi; xor %esi, %esi; call *0x403f08; 3: ret");
TRACER(t_frame, ASKED "movaps %xmm0, -0x70(%rbp); mov -0x60(%rbp), %rdi; mov 0x403f10, %rdx; xor %esi, %esi; call *%rax; ret");
SNIPPET(t_slot, "mov 0x401200, %rdx; movq $1, (%rdi); mov 0xf08(%rdx), %rax; test %rax, %rax; je 1f; mov 0xf10(%rdx), %rdx; "
		"xor %esi, %esi; jmp *%rax; 1: ret; mov 0x401200, %rcx; mov 0xf08(%rcx), %rax; test %rax, %rax; je 1b; "
		"mov 0xf10(%rcx), %rdx; mov %r12, %rdi; xor %esi, %esi; call *%rax; ret; .org t_slot_start + 0x200; .quad 0x403000");

static const struct {
	struct snippet snippet;
	struct argument_source object;
	unsigned char minor; /* of the version */
} understood[] = {
#define ROW_OF(name, minor, kind, value, base) \
	{ { name##_start, name##_end, #name }, { value, kind, 8, 0, 1, base, ARGUMENT_NO_REGISTER }, minor }
#define ROW(name, kind, value, base) ROW_OF(name, 12, kind, value, base)
	ROW(c_register, ARGUMENT_REGISTER, 0, IN(r12)),
	ROW(c_memory, ARGUMENT_MEMORY, 8, IN(rsp)),
	ROW(c_tail, ARGUMENT_REGISTER, 0, IN(rbx)),
	ROW(c_cold, ARGUMENT_REGISTER, 0, IN(r13)),
	ROW(c_array, ARGUMENT_REGISTER, 0, IN(rbx)),
	ROW(c_array_compared, ARGUMENT_REGISTER, 0, IN(rbx)),
	ROW(c_slot, ARGUMENT_REGISTER, 0, IN(rbx)),
#undef ROW
#define ROW(name, kind, value, base) ROW_OF(name, 13, kind, value, base)
	ROW(t_register, ARGUMENT_REGISTER, 0, IN(r12)),
	ROW(t_copy, ARGUMENT_REGISTER, 0, IN(r13)),
	ROW(t_copy_behind, ARGUMENT_REGISTER, 0, IN(rbx)),
	ROW(t_memory, ARGUMENT_MEMORY, 8, IN(rsp)),
	ROW(t_frame, ARGUMENT_MEMORY, -0x60ull, IN(rbp)),
	ROW(t_slot, ARGUMENT_REGISTER, 0, IN(r12)),
#undef ROW
#undef ROW_OF
};

/* The caller releases *ret. */
static void search_creations(const struct snippet *snippet, unsigned char minor, struct python_info *ret)
{
	struct python_search search = { .info = ret, .symbol = { [SYMBOL_NEW_REFERENCE] = CODE } };
	int fd = snippet_file(snippet);

	*ret = (struct python_info){ .version = { 3, minor }, .data_start = DATA_PAGE, .data_end = DATA_PAGE + PAGE };
	search.elf = elf_object__open(fd, NULL);
	cr_assert(search.elf);
	cr_assert_eq(python_code__open(&search.code, search.elf, NULL), 0);
	cr_assert_eq(python_find_creations(&search), 0);
	python_code__close(&search.code);
	elf_object__close(search.elf);
	close(fd);
}

static bool is_jcc_of(const struct snippet *snippet, uint64_t vaddr)
{
	size_t at = vaddr - CODE;

	return at < (size_t)(snippet->end - snippet->start) && (snippet->start[at] == 0x74 || snippet->start[at] == 0x75);
}

Test(python_creations, understood)
{
	for (size_t i = 0; i < ARRAY_SIZE(understood); i++) {
		const struct snippet *snippet = &understood[i].snippet;
		struct python_info info;

		search_creations(snippet, understood[i].minor, &info);
		cr_expect_eq(info.creation_unknown_nr, 0, "%s", snippet->what);
		cr_expect_eq(info.creation_nr, 2, "%s: %u", snippet->what, info.creation_nr);
		cr_expect_eq(info.inlined_nr, 0, "%s", snippet->what);
		for (uint32_t k = 0; k < info.site_nr; k++) {
			cr_expect(is_jcc_of(snippet, info.site[k].vaddr), "%s: %lx", snippet->what, info.site[k].vaddr);
			cr_expect_eq(info.site[k].operation, PYTHON_CREATION);
			cr_expect_eq(info.site[k].asks_zf, 0);
		}
		if (info.site_nr == 2) {
			cr_expect_eq(info.site[0].pointer.base, IN(rdi), "%s", snippet->what);
			cr_expect_eq(memcmp(&info.site[1].pointer, &understood[i].object, sizeof(understood[i].object)), 0,
				     "%s: kind %u, base %u, value %lu, scale %u", snippet->what, info.site[1].pointer.kind,
				     info.site[1].pointer.base / 8, info.site[1].pointer.value, info.site[1].pointer.scale);
		}
		python_info_release(&info);
	}
}

/* ---- not understood: counted ---- */

CASE(u_overwritten, "mov 0x403f04, %eax; mov $1, %eax; test %eax, %eax; jne 3f; ret; 3: mov %r12, %rdi; " TOLD(u_overwritten));
CASE(u_flags, "mov 0x403f04, %eax; test %eax, %eax; add $1, %rbx; jne 3f; ret; 3: mov %r12, %rdi; " TOLD(u_flags));
CASE(u_branch, "mov 0x403f04, %eax; test %eax, %eax; jne 3f; ret; 3: cmp %r12, %rbx; je 4f; mov %r12, %rdi; " TOLD(u_branch) "; 4: ret");
CASE(u_into, "mov 0x403f04, %eax; test %eax, %eax; 9: jne 3f; ret; 3: mov %r12, %rdi; " TOLD(u_into) "; jmp 9b");
CASE(u_object, "mov 0x403f04, %eax; test %eax, %eax; jne 3f; ret; 3: and $-16, %rdi; " TOLD(u_object));
CASE(u_other_flag, "mov " OTHER_FLAG ", %eax; test %eax, %eax; jne 3f; ret; 3: mov %r12, %rdi; " TOLD(u_other_flag));
TRACER(v_event, ASKED "mov 0x403f10, %rdx; mov %ebx, %esi; mov %r12, %rdi; call *%rax; ret");
TRACER(v_other_event, ASKED "mov 0x403f10, %rdx; mov $2, %esi; mov %r12, %rdi; call *%rax; ret");
TRACER(v_data, ASKED "mov 0x403f18, %rdx; xor %esi, %esi; mov %r12, %rdi; call *%rax; ret");
TRACER(v_branch, ASKED "cmp %r12, %rbx; je 4f; mov 0x403f10, %rdx; xor %esi, %esi; mov %r12, %rdi; call *%rax; 4: ret");
TRACER(v_object, ASKED "mov 0x403f10, %rdx; xor %esi, %esi; and $-16, %rdi; call *%rax; ret");
TRACER(v_stored, ASKED "mov %rcx, -0x70(%rbp); mov %rcx, (%rbx); mov -0x60(%rbp), %rdi; mov 0x403f10, %rdx; xor %esi, %esi; call *%rax; ret");
TRACER(v_untested, "mov 0x403f08, %rax; mov 0x403f10, %rdx; xor %esi, %esi; call *%rax; ret");

Test(python_creations, refused_and_counted)
{
#define ROW(name) { name##_start, name##_end, #name }
	static const struct snippet snippets[] = {
		ROW(u_overwritten), ROW(u_flags), ROW(u_branch), ROW(u_into), ROW(u_object), ROW(u_other_flag),
		ROW(v_event), ROW(v_other_event), ROW(v_data), ROW(v_branch), ROW(v_object), ROW(v_stored), ROW(v_untested),
	};
#undef ROW

	for (size_t i = 0; i < ARRAY_SIZE(snippets); i++) {
		struct python_info info;

		search_creations(&snippets[i], *snippets[i].what == 'v' ? 13 : 12, &info);
		cr_expect_eq(info.creation_nr, 1, "%s: %u", snippets[i].what, info.creation_nr);
		cr_expect_eq(info.creation_unknown_nr, 1, "%s: %u", snippets[i].what, info.creation_unknown_nr);
		python_info_release(&info);
	}
}

/* Tests of the flag for another purpose are neither. */
CASE(n_other_call, "mov 0x403f04, %eax; test %eax, %eax; jne 3f; ret; 3: mov %r12, %rdi; call n_other_call_start+0xf80");
CASE(n_store, "movl $1, 0x403f04; ret");
TRACER(v_store, "mov %rdi, 0x403f08; ret");
TRACER(v_destruction, ASKED "mov 0x403f10, %rdx; mov $1, %esi; mov %r12, %rdi; call *%rax; ret");
TRACER(v_copied_destruction, ASKED "cmp $0x401f40, %rax; je 4f; mov 0x403f10, %rdx; mov $1, %esi; mov %r12, %rdi; call *%rax; 4: ret");

Test(python_creations, others_are_not_counted)
{
	static const struct snippet snippets[] = {
		{ n_other_call_start, n_other_call_end, "another call" }, { n_store_start, n_store_end, "a store" },
		{ v_store_start, v_store_end, "v: a store" }, { v_destruction_start, v_destruction_end, "v: a destruction" },
		{ v_copied_destruction_start, v_copied_destruction_end, "v: a destruction, with a copy" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(snippets); i++) {
		struct python_info info;

		search_creations(&snippets[i], *snippets[i].what == 'v' ? 13 : 12, &info);
		cr_expect_eq(info.creation_nr, 1, "%s", snippets[i].what);
		cr_expect_eq(info.creation_unknown_nr, 0, "%s", snippets[i].what);
		python_info_release(&info);
	}
}

/* Any bytes behind it. */
Test(python_creations, hostile_code)
{
	static const uint8_t pieces[][8] = {
		{ 0x8b, 0x04, 0x25, 0x04, 0x3f, 0x40, 0x00 }, { 0x85, 0xc0, 0x75, 0x03 }, { 0xe8 }, { 0xeb, 0xfe }, { 0xe9 },
		{ 0x83, 0x3c, 0x25, 0x04, 0x3f, 0x40, 0x00, 0x00 }, { 0x74, 0x02 },
		{ 0x48, 0x8b, 0x04, 0x25, 0x08, 0x3f, 0x40, 0x00 }, { 0x48, 0x85, 0xc0, 0x75, 0x05 }, { 0xff, 0xd0, 0x31, 0xf6 },
		{ 0x48, 0x8b, 0x14, 0x25, 0x10, 0x3f, 0x40, 0x00 }, { 0x48, 0x3d, 0x00, 0x11, 0x40, 0x00, 0x75, 0x09 },
	};
	unsigned int seed = 5;

	for (int round = 0; round < 300; round++) {
		uint8_t code[256];
		const struct snippet snippet = { code, code + sizeof(code), "hostile" };
		struct python_info info;

		for (size_t i = 0; i < sizeof(code); i++)
			code[i] = rand_r(&seed);
		for (size_t i = 0; i + 8 < sizeof(code); i += 1 + rand_r(&seed) % 12)
			memcpy(code + i, pieces[rand_r(&seed) % ARRAY_SIZE(pieces)], 8);
		memcpy(code, round % 2 ? v_store_start : n_store_start, 40);
		search_creations(&snippet, round % 2 ? 13 : 12, &info);
		for (uint32_t i = 0; i < info.site_nr; i++)
			cr_expect(info.site[i].vaddr >= CODE && info.site[i].vaddr < CODE + PAGE);
		python_info_release(&info);
	}
}

/* ---- a real one ---- */

Test(python_creations, of_this_python)
{
	const struct python_asked asked = { .creations = 1 };
	struct python_info info;
	int fd = open("/usr/bin/python3", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || python_info_read(fd, &asked, &info, NULL) || *info.fault)
		skip_because("/usr/bin/python3 is no CPython that can be recorded");
	cr_expect_gt(info.creation_nr, 0);
	cr_expect_eq(info.creation_unknown_nr, 0, "%u, besides %u", info.creation_unknown_nr, info.creation_nr);
	close(fd);
	python_info_release(&info);
}
