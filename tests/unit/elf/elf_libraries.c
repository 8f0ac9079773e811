// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Real ELF files of this machine, compared with readelf. */
#include "elf/elf_object.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "binutils.h"
#include "skip.h"

#define LIB "/usr/lib/x86_64-linux-gnu/"

static struct elf_object *open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct elf_object *obj;

	if (fd < 0)
		return NULL;
	obj = elf_object__open(fd, NULL);
	close(fd);
	cr_assert_not_null(obj, "%s", path);
	return obj;
}

static bool is_listed(const struct listed_symbols *symbols, const char *name,
		      const struct elf_function *function)
{
	for (size_t i = 0; i < symbols->item_nr; i++) {
		const struct listed_symbol *listed = &symbols->item[i];

		if (listed->vaddr == function->vaddr && listed->size == function->size &&
		    listed->is_ifunc == function->is_ifunc &&
		    listed->is_local == function->is_local && !strcmp(listed->name, name))
			return true;
	}
	return false;
}

static bool is_found(const struct elf_function *function, size_t function_nr,
		     const char *const *name, const struct listed_symbol *listed)
{
	for (size_t i = 0; i < function_nr; i++)
		if (function[i].vaddr == listed->vaddr &&
		    !strcmp(name[function[i].name], listed->name))
			return true;
	return false;
}

static void compare_with_readelf(const char *path)
{
	struct elf_object *obj = open_file(path);
	struct listed_symbols symbols = { 0 };
	struct elf_function *function;
	char command[512], line[256];
	size_t function_nr;
	const char **name;

	if (!obj)
		skip_because("no %s", path);
	readelf_functions(&symbols, path);
	if (!symbols.item_nr)
		skip_because("no readelf");
	name = calloc(symbols.item_nr, sizeof(*name));
	for (size_t i = 0; i < symbols.item_nr; i++)
		name[i] = symbols.item[i].name;
	cr_assert_eq(elf_object__find_functions(obj, name, symbols.item_nr, &function,
						&function_nr), 0);
	for (size_t i = 0; i < symbols.item_nr; i++)
		cr_expect(is_found(function, function_nr, name, &symbols.item[i]), "%s", name[i]);
	for (size_t i = 0; i < function_nr; i++)
		cr_expect(is_listed(&symbols, name[function[i].name], &function[i]), "%s",
			  name[function[i].name]);
	snprintf(command, sizeof(command), "readelf -n %s | sed -n 's/.*Build ID: //p'", path);
	first_line(line, sizeof(line), command);
	cr_expect_str_eq(elf_object__build_id(obj), line);
	cr_log_info("%s: %zu functions of %zu symbols, build-id %s", path, function_nr,
		    symbols.item_nr, line);
	free(function);
	free(name);
	free(symbols.item);
	elf_object__close(obj);
}

Test(elf_libraries, libc_functions_match_readelf)
{
	compare_with_readelf(LIB "libc.so.6");
}

Test(elf_libraries, jemalloc_functions_match_readelf)
{
	compare_with_readelf(LIB "libjemalloc.so.2");
}

static int static_function_of_this_test(void)
{
	return getpid();
}

/* .symtab, without versions or exports; the code there is what runs. */
Test(elf_libraries, own_functions_are_found_in_symtab)
{
	static const char *const name[] = { "static_function_of_this_test", "elf_object__open" };
	struct elf_object *obj = open_file("/proc/self/exe");
	struct elf_function *got;
	uint8_t code[16];
	size_t got_nr;

	cr_assert_not_null(obj);
	cr_assert_eq(elf_object__find_functions(obj, name, ARRAY_SIZE(name), &got, &got_nr), 0);
	cr_assert_eq(got_nr, 2);
	cr_expect(got[0].is_local);
	cr_expect_not(got[1].is_local);
	for (size_t i = 0; i < got_nr; i++) {
		cr_assert_eq(elf_object__read(obj, got[i].offset, code, sizeof(code)), 0);
		cr_expect_eq(memcmp(code, i ? (void *)elf_object__open :
					      (void *)static_function_of_this_test,
				    sizeof(code)), 0);
	}
	free(got);
	elf_object__close(obj);
}
