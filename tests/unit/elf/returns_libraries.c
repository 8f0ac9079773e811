// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Return sites of this machine's allocators, compared with objdump. */
#include "elf/returns.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "binutils.h"
#include "elf/allocators.h"
#include "elf/elf_object.h"
#include "skip.h"

#define LIB "/usr/lib/x86_64-linux-gnu/"

static bool is_return(const struct listed_insn *insn)
{
	return insn && (!strncmp(insn->text, "ret", 3) || !strncmp(insn->text, "bnd ret", 7) ||
			!strncmp(insn->text, "rep", 3) || !strncmp(insn->text, "repz ret", 8));
}

static bool is_jump_to_memset(const struct listed_insn *insn)
{
	return insn && !strncmp(insn->text, "jmp", 3);
}

static bool has_place(const struct returns *returns, uint64_t vaddr)
{
	for (size_t i = 0; i < returns->place_nr; i++)
		if (returns->place[i].vaddr == vaddr)
			return true;
	return false;
}

/* Every site is a correct one, and no `ret` of the function itself is missing. */
static void judge(const struct listed_code *code, const struct elf_function *function,
		  const char *name, const struct returns *returns)
{
	uint64_t end = function->vaddr + function->size;
	const struct listed_insn *at = listed_code__at(code, function->vaddr);

	for (size_t i = 0; i < returns->place_nr; i++) {
		const struct return_place *place = &returns->place[i];
		const struct listed_insn *insn = listed_code__at(code, place->vaddr);

		cr_expect(place->is_in_argument ? is_jump_to_memset(insn) : is_return(insn),
			  "%s: %#lx: %s", name, place->vaddr, insn ? insn->text : "nothing");
	}
	for (; at && at < code->item + code->item_nr && at->vaddr < end; at++)
		if (is_return(at))
			cr_expect(has_place(returns, at->vaddr), "%s: %#lx is missing", name,
				  at->vaddr);
}

static struct elf_object *open_library(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_object *obj = fd >= 0 ? elf_object__open(fd, NULL) : NULL;

	if (fd >= 0)
		close(fd);
	if (!obj)
		skip_because("no %s", path);
	return obj;
}

static void judge_function(const struct code_source *source, const struct listed_code *code,
			   const struct elf_function *function, const char *path)
{
	const struct allocator_function *known = &allocator_functions[function->name];
	struct returns returns = {};
	struct reason why = {};
	int err;

	if (known->shape == SHAPE_FREE || function->is_local)
		return;
	err = returns_find(source, function->vaddr, &returns, &why);
	cr_expect_eq(err, 0, "%s: %s: %s", path, known->name, why.text);
	if (!err)
		judge(code, function, known->name, &returns);
	returns_release(&returns);
}

static void judge_library(const char *path)
{
	struct elf_object *obj = open_library(path);
	const char *name[allocator_function_nr];
	struct listed_code code = { 0 };
	struct elf_function *function;
	struct code_source source;
	struct elf_code elf_code;
	size_t nr;

	objdump_code(&code, path);
	if (!code.item_nr)
		skip_because("no objdump");
	for (size_t i = 0; i < allocator_function_nr; i++)
		name[i] = allocator_functions[i].name;
	cr_assert_eq(elf_code_open(&elf_code, obj, &source), 0);
	cr_assert_eq(elf_object__find_functions(obj, name, allocator_function_nr, &function, &nr),
		     0);
	cr_expect_gt(nr, 0);
	for (size_t i = 0; i < nr; i++)
		judge_function(&source, &code, &function[i], path);
	free(function);
	free(code.item);
	elf_object__close(obj);
}

Test(returns_libraries, of_libc_match_objdump)
{
	judge_library(LIB "libc.so.6");
}

Test(returns_libraries, of_jemalloc_match_objdump)
{
	judge_library(LIB "libjemalloc.so.2");
}

Test(returns_libraries, of_tcmalloc_match_objdump)
{
	judge_library(LIB "libtcmalloc_minimal.so.4");
}

Test(returns_libraries, of_mimalloc_match_objdump)
{
	judge_library(LIB "libmimalloc.so.2.0");
}

Test(returns_libraries, of_musl_match_objdump)
{
	judge_library("/usr/lib/x86_64-linux-musl/libc.so");
}

/* ---- .eh_frame_hdr against the sizes of symbols ---- */

Test(returns_libraries, extents_match_the_symbol_sizes)
{
	struct elf_object *obj = open_library(LIB "libc.so.6");
	struct listed_symbols symbols = { 0 };
	size_t same = 0, all = 0;

	readelf_functions(&symbols, LIB "libc.so.6");
	if (!symbols.item_nr)
		skip_because("no readelf");
	for (size_t i = 0; i < symbols.item_nr; i++) {
		uint64_t start, end;

		if (!symbols.item[i].size || elf_object__extent(obj, symbols.item[i].vaddr, &start,
								&end))
			continue;
		all++;
		same += start == symbols.item[i].vaddr && end == start + symbols.item[i].size;
	}
	cr_log_info("%zu of %zu functions of %zu", same, all, symbols.item_nr);
	cr_expect_gt(all, symbols.item_nr * 9 / 10);
	cr_expect_gt(same, all * 9 / 10);
	free(symbols.item);
	elf_object__close(obj);
}
