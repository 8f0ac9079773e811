// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <elf.h>
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
#include "skip.h"

/* Code that is made here, in a file that looks like a program. */

/* The file: headers, a page of code, a page with .eh_frame_hdr, which says that the code is one function. */
#define CODE 0x401000u
#define FRAMES 0x402000u
#define PAGE 0x1000u

#define TEXT_(number) #number
#define TEXT(number) "$" TEXT_(number)

struct snippet {
	const uint8_t *start, *end;
	const char *what;
};

/* Code that is copied to the begin of the page; its jumps lead within it. */
#define SNIPPET(name, code) \
	asm(".pushsection .rodata\n" #name "_start: " code "\n" #name "_end:\n.popsection\n"); \
	extern const uint8_t name##_start[], name##_end[]

/* A descriptor of the file, which the caller closes. */
static int snippet_file(const struct snippet *snippet)
{
	static uint8_t bytes[3 * PAGE];
	const Elf64_Ehdr header = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT }, .e_type = ET_EXEC,
		.e_machine = EM_X86_64, .e_version = 1, .e_phoff = sizeof(header), .e_ehsize = sizeof(header),
		.e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 3,
	};
	const Elf64_Phdr segments[] = {
		{ PT_LOAD, PF_R | PF_X, PAGE, CODE, CODE, PAGE, PAGE, PAGE },
		{ PT_LOAD, PF_R, 2 * PAGE, FRAMES, FRAMES, PAGE, PAGE, PAGE },
		{ PT_GNU_EH_FRAME, PF_R, 2 * PAGE, FRAMES, FRAMES, 64, 64, 4 },
	};
	const struct {
		uint8_t encoding[4];
		int32_t eh_frame;
		uint32_t row_nr;
		int32_t start, description;
		uint32_t bytes, cie;
		int32_t function;
		uint32_t size;
	} frames = { { 1, 0x1b, 3, 0x3b }, 0, 1, CODE - FRAMES, 20, 16, 0, CODE - (FRAMES + 28), PAGE };
	int fd = memfd_create("made", MFD_CLOEXEC);

	memset(bytes, 0x90, sizeof(bytes));
	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + sizeof(header), segments, sizeof(segments));
	memcpy(bytes + PAGE, snippet->start, snippet->end - snippet->start);
	memcpy(bytes + 2 * PAGE, &frames, sizeof(frames));
	cr_assert_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	return fd;
}

static void search_file(const struct snippet *snippet, struct python_search *search, int (*find)(struct python_search *))
{
	int fd = snippet_file(snippet);

	search->elf = elf_object__open(fd, NULL);
	cr_assert(search->elf);
	cr_assert_eq(python_code__open(&search->code, search->elf, NULL), 0);
	cr_assert_eq(find(search), 0);
	python_code__close(&search->code);
	elf_object__close(search->elf);
	close(fd);
}

static bool is_jcc_of(const struct snippet *snippet, uint64_t vaddr)
{
	size_t at = vaddr - CODE;

	return at < (size_t)(snippet->end - snippet->start) && (snippet->start[at] == 0x74 || snippet->start[at] == 0x75);
}

/* Places where CPython's objects begin, in code that is made here, and in this machine's Python. */

#define DATA_PAGE 0x403000u
#define OTHER_FLAG "0x403f08"
#define IN(field) offsetof(struct user_regs_struct, field)

/* A snippet begins with _Py_NewReference(), whose place is the first one of each; it calls the function at `told`. */
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

	*ret = (struct python_info){ .version = { 3, minor }, .data_start = DATA_PAGE, .data_end = DATA_PAGE + PAGE };
	search_file(snippet, &search, python_find_creations);
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
		cr_expect_eq(info.tracer, understood[i].minor < 13 ? 0 : 0x403f08, "%s: %lx", snippet->what, info.tracer);
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

/* Places where CPython's allocator opens and closes pools: in code that is made here, and in real CPythons. */

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

	*ret = (struct python_info){};
	search_file(snippet, &search, python_find_growth);
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

/* Calls by which libraries report, and the ends of code objects: each has one place. */
static void check_tracked_of(int fd, const char *path)
{
	const struct python_asked asked = { .pools = PYTHON_TRACKED_ONLY };
	struct python_info info;
	uint32_t found = 0;

	cr_assert_eq(python_info_read(fd, &asked, &info, NULL), 0);
	for (uint32_t i = 0; i < info.site_nr; i++)
		found |= 1u << info.site[i].operation;
	cr_expect_eq(found, 1u << PYTHON_TRACK | 1u << PYTHON_UNTRACK | 1u << PYTHON_CODE_END, "%s: %x", path, found);
	cr_expect_eq(info.site_nr, 3, "%s: %u", path, info.site_nr);
	python_info_release(&info);
}

static void check_growth_of(const char *path)
{
	const struct python_asked asked = { .pools = PYTHON_POOLS_AND_LARGE };
	struct python_info info;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || python_info_read(fd, &asked, &info, NULL))
		skip_because("%s is not CPython, or is not here", path);
	cr_expect_str_empty(info.fault, "%s: %s", path, info.fault);
	check_growth_places(&info, path);
	check_tracked_of(fd, path);
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

/* Copied bodies of allocator functions, in code that is made here: what is understood, and what is refused. */

#define MALLOC 0x401f00
#define CALLOC 0x401f10
#define REALLOC 0x401f20
#define FREE 0x401f30

/* The caller releases *ret. */
static void search_snippet(const struct snippet *snippet, struct python_info *ret)
{
	struct python_search search = { .info = ret };

	*ret = (struct python_info){};
	for (int i = 0; i < PYTHON_DOMAIN_NR; i++)
		for (int k = 0; k < PYTHON_OPERATION_NR; k++)
			ret->function[i][k] = (i == PYTHON_RAW ? MALLOC + 0x80 : MALLOC) + 16 * k;
	search_file(snippet, &search, python_find_inlined);
}

/* ---- understood ---- */

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
} inlined_rows[] = {
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

Test(python_inlined, understood)
{
	for (size_t i = 0; i < ARRAY_SIZE(inlined_rows); i++) {
		const struct snippet *snippet = &inlined_rows[i].snippet;
		struct python_info info;

		search_snippet(snippet, &info);
		cr_expect_eq(info.unknown_nr, 0, "%s", snippet->what);
		cr_expect_eq(info.inlined_nr, 1, "%s", snippet->what);
		if (info.site_nr != 1)
			continue;
		cr_expect(is_jcc_of(snippet, info.site->vaddr), "%s: %lx", snippet->what, info.site->vaddr);
		cr_expect_eq(info.site->offset, info.site->vaddr - CODE + PAGE);
		cr_expect_eq(info.site->domain, PYTHON_OBJECT);
		cr_expect_eq(info.site->operation, PYTHON_MALLOC);
		cr_expect_eq(memcmp(&info.site->size, &inlined_rows[i].size, sizeof(inlined_rows[i].size)), 0,
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
SNIPPET(s_changed, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov $32, %esi; mov %rbx, %rdx; call *%rdx");
SNIPPET(r_reloaded, "cmp " TEXT(MALLOC) ", %rdx; mov 8(%rax), %rdx; jne 1f; ret; 1: mov $32, %esi; call *%rdx");
SNIPPET(r_flags, "cmp " TEXT(MALLOC) ", %rdx; add $1, %rax; jne 1f; ret; 1: mov $32, %esi; call *%rdx");
SNIPPET(r_above, "cmp " TEXT(MALLOC) ", %rdx; ja 1f; ret; 1: mov $32, %esi; call *%rdx");
SNIPPET(r_product, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: imul %rbx, %rsi; call *%rdx");
SNIPPET(r_and, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov %rbx, %rsi; and $-16, %rsi; call *%rdx");
SNIPPET(s_branch, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov %rbx, %rsi; test %rsi, %rsi; je 2f; call *%rdx; 2: ret");
SNIPPET(r_call, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov $8, %esi; call 2f; call *%rdx; 2: ret");
SNIPPET(r_written, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov %rax, 8(%rcx); mov 8(%rbx), %rsi; call *%rdx");
SNIPPET(r_into, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: mov $32, %esi; call *%rdx; jmp 9b");
SNIPPET(r_into_far, "cmp " TEXT(MALLOC) ", %rdx; 9: jne 1f; ret; 1: mov $32, %esi; call *%rdx; .byte 0xe9; .long 9b - . - 4");
SNIPPET(r_static, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: xor %esi, %esi; mov %fs:40, %rsi; call *%rdx");
SNIPPET(r_string, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: mov $32, %esi; rep movsb; call *%rdx");
SNIPPET(r_endless, "cmp " TEXT(MALLOC) ", %rdx; jne 1f; ret; 1: jmp 1b; call *%rdx");

static const struct snippet refused[] = {
#define ROW(name) { name##_start, name##_end, #name }
	ROW(r_other), ROW(s_changed), ROW(r_reloaded), ROW(r_flags), ROW(r_above), ROW(r_product), ROW(r_and),
	ROW(s_branch), ROW(r_call), ROW(r_written), ROW(r_into), ROW(r_into_far), ROW(r_static), ROW(r_string), ROW(r_endless),
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
