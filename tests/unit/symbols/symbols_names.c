// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cpu_limit.h"
#include "symbols/direct.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "symbols/symbols.h"

struct row {
	const char *raw, *want;
};

static const struct row demangled[] = {
	{ "main", "main" },
	{ "", "" },
	{ "_", "_" },
	{ "__libc_malloc", "__libc_malloc" },
	{ "_Zebra", "_Zebra" },
	{ "_Z3barv", "bar()" },
	{ "_ZN3foo3barEi", "foo::bar(int)" },
	{ "_ZNK3foo3barIiEEvT_", "void foo::bar<int>(int) const" },
	{ "_ZN3fooC4Ev", "foo::foo()" },
	{ "_ZN12_GLOBAL__N_16hiddenEi", "(anonymous namespace)::hidden(int)" },
	{ "_ZN5alloc3vec12Vec$LT$T$GT$4push17h0123456789abcdefE", "alloc::vec::Vec<T>::push" },
	{ "_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar" },
	{ "_RINvNtCs1234_7mycrate3foo3barlE", "mycrate::foo::bar::<i32>" },
	{ "_D3std5stdio7writelnFZv", "std.stdio.writeln()" },
};

static const struct row function[] = {
	{ "memcpy@@GLIBC_2.14", "memcpy" },
	{ "memcpy@GLIBC_2.2.5", "memcpy" },
	{ "work.cold", "work" },
	{ "work.constprop.0", "work" },
	{ "work.part.0.isra.1.cold", "work" },
	{ "work.lto_priv.12.lto_priv.3", "work" },
	{ "work.llvm.1234567890", "work" },
	{ "_ZN3foo3barEi.constprop.0", "foo::bar(int)" },
	{ "main.main.func1.2", "main.main.func1.2" }, /* Go */
	{ "nested.0", "nested.0" },
	{ "work.cold.go", "work.cold.go" },
	{ ".cold", ".cold" },
	{ "@", "@" },
	{ ".", "." },
};

struct source_row {
	const char *directory, *raw, *want;
};

static const struct source_row source[] = {
	{ NULL, "/a/b.c", "/a/b.c" },
	{ NULL, "b.c", "b.c" },
	{ NULL, "./b.c", "b.c" },
	{ "/build", "b.c", "/build/b.c" },
	{ "/build/", "./x/./b.c", "/build/x/b.c" },
	{ "/build", "../x/b.c", "/build/../x/b.c" },
	{ "/build", "/usr/include/b.h", "/usr/include/b.h" },
	{ "/build", "/usr//include/./b.h", "/usr/include/b.h" },
	{ "./nptl", "../sysdeps/b.c", "nptl/../sysdeps/b.c" },
	{ "./nptl", "./nptl/b.c", "nptl/b.c" },
	{ ".", "b.c", "b.c" },
	{ "", "b.c", "b.c" },
	{ "/build", ".hidden/..b/c.c", "/build/.hidden/..b/c.c" },
	{ "/", "b.c", "/b.c" },
};

Test(symbols_names, are_demangled)
{
	for (size_t i = 0; i < ARRAY_SIZE(demangled); i++) {
		char *name = symbol_demangle(demangled[i].raw);

		cr_expect_str_eq(name, demangled[i].want, "%s is %s", demangled[i].raw, name);
		free(name);
	}
}

Test(symbols_names, of_compiler_copies_are_those_of_the_function)
{
	for (size_t i = 0; i < ARRAY_SIZE(function); i++) {
		char *name = function_name(function[i].raw);

		cr_expect_str_eq(name, function[i].want, "%s is %s", function[i].raw, name);
		free(name);
	}
}

Test(symbols_names, of_sources_are_absolute_if_the_directory_is_known)
{
	for (size_t i = 0; i < ARRAY_SIZE(source); i++) {
		char *name = source_name(source[i].directory, source[i].raw);

		cr_expect_str_eq(name, source[i].want, "%s is %s", source[i].raw, name);
		free(name);
	}
}

/* Types nested deeper than the demangler may follow, in the three manglings. */
Test(symbols_names, that_are_nested_too_deeply_are_not_demangled)
{
	static const char *const start[] = { "_Z1f", "_RMC0", "_D1f" };
	static const char nest[] = { 'P', 'R', 'P' };

	limit_cpu_seconds(20);
	for (size_t i = 0; i < ARRAY_SIZE(start); i++) {
		char *deep = malloc(1000000), *name;

		memset(deep, nest[i], 999999);
		memcpy(deep, start[i], strlen(start[i]));
		deep[999999] = '\0';
		name = symbol_demangle(deep);
		cr_expect_str_eq(name, deep, "%s", start[i]);
		free(name);
		free(deep);
	}
}

/* f(pair<A, A>, pair<the one before, the one before>…): each twice as long as the one before. */
Test(symbols_names, that_would_grow_too_large_are_not_demangled)
{
	static const char digit[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char mangled[1024] = "_Z1f4pairI1AS0_E", *name, *end = strchr(mangled, '\0');

	limit_cpu_seconds(20);
	for (int i = 1; i < 35; i++)
		end += sprintf(end, "S_IS%c_S%c_E", digit[i], digit[i]);
	name = symbol_demangle(mangled);
	cr_expect_str_eq(name, mangled);
	free(name);
}

Test(symbols_names, of_d_that_would_grow_too_large_are_not_demangled)
{
	char mangled[4096] = "_D1fFS1aZv", *name;

	limit_cpu_seconds(20);
	for (size_t i = strlen(mangled); i < sizeof(mangled) - 1; i++)
		mangled[i] = "QbQc"[i % 4];
	name = symbol_demangle(mangled);
	cr_expect_str_eq(name, mangled);
	free(name);
}
