// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The allocators that --probe describes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "elf/user_allocators.h"

/* Another one is in sandbox_probe_info.c, which looks for it. */
static __attribute__((noinline, used)) int static_twice(void)
{
	return 1;
}

static struct user_allocators read_specs(const char *const *spec)
{
	struct user_allocators user_allocators = {};
	struct reason why = {};

	for (; *spec; spec++)
		cr_assert_eq(user_allocators_add(&user_allocators, *spec, &why), 0, "%s: %s", *spec, why.text);
	return user_allocators;
}

#define SPECS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void expect_function(const struct user_function *function, const char *symbol,
			    enum call_shape shape, struct user_arguments call)
{
	cr_expect_str_eq(function->symbol, symbol);
	cr_expect_eq(function->shape, shape, "%s", symbol);
	cr_expect_eq(function->call.size, call.size, "%s", symbol);
	cr_expect_eq(function->call.count, call.count, "%s", symbol);
	cr_expect_eq(function->call.pointer, call.pointer, "%s", symbol);
	cr_expect_eq(function->call.bytes, call.bytes, "%s", symbol);
	cr_expect_eq(function->call.narrow, call.narrow, "%s", symbol);
}

Test(user_allocators, parse_each_kind_of_function)
{
	struct user_allocators user_allocators = read_specs(SPECS(
		"name=p,object=/usr/lib/x.so,alloc=a(size=2),alloc=b(count=1,size=3),"
		"alloc=c(bytes=192),alloc=d(count=6,bytes=8),alloc=e(out=1,size=2),"
		"realloc=f(ptr=2,size=4),realloc=g(ptr=1,size=2,count=3),free=h(ptr=2),wraps"));
	const struct user_function *function = user_allocators.function;

	cr_assert_eq(user_allocators.allocator_nr, 1);
	cr_assert_eq(user_allocators.function_nr, 8);
	cr_expect_str_eq(user_allocators.allocator[0].name, "p");
	cr_expect_str_eq(user_allocators.allocator[0].object, "/usr/lib/x.so");
	cr_expect(user_allocators.allocator[0].wraps && !user_allocators.allocator[0].throws);
	expect_function(&function[0], "a", SHAPE_USER_ALLOC, (struct user_arguments){ .size = 2 });
	expect_function(&function[1], "b", SHAPE_USER_ALLOC,
			(struct user_arguments){ .count = 1, .size = 3 });
	expect_function(&function[2], "c", SHAPE_USER_ALLOC, (struct user_arguments){ .bytes = 192 });
	expect_function(&function[3], "d", SHAPE_USER_ALLOC,
			(struct user_arguments){ .count = 6, .bytes = 8 });
	expect_function(&function[4], "e", SHAPE_USER_OUT,
			(struct user_arguments){ .pointer = 1, .size = 2 });
	expect_function(&function[5], "f", SHAPE_USER_REALLOC,
			(struct user_arguments){ .pointer = 2, .size = 4 });
	expect_function(&function[6], "g", SHAPE_USER_REALLOC,
			(struct user_arguments){ .pointer = 1, .size = 2, .count = 3 });
	expect_function(&function[7], "h", SHAPE_USER_FREE, (struct user_arguments){ .pointer = 2 });
	user_allocators_release(&user_allocators);
}

Test(user_allocators, parse_argument_widths)
{
	struct user_allocators user_allocators = read_specs(SPECS(
		"name=p,object=x,alloc=a(size=2:32),alloc=b(count=1:32,size=6),"
		"realloc=c(ptr=1,count=2:32,size=3:32),free=d(ptr=1)"));

	expect_function(&user_allocators.function[0], "a", SHAPE_USER_ALLOC,
			(struct user_arguments){ .size = 2, .narrow = NARROW_SIZE });
	expect_function(&user_allocators.function[1], "b", SHAPE_USER_ALLOC,
			(struct user_arguments){ .count = 1, .size = 6, .narrow = NARROW_COUNT });
	expect_function(&user_allocators.function[2], "c", SHAPE_USER_REALLOC,
			(struct user_arguments){ .pointer = 1, .count = 2, .size = 3,
					      .narrow = NARROW_SIZE | NARROW_COUNT });
	user_allocators_release(&user_allocators);
}

Test(user_allocators, parse_usdt_probes)
{
	struct user_allocators user_allocators = read_specs(SPECS(
		"name=p,object=x,alloc=usdt:p:a(ptr=1,count=12,size=3),free=usdt:p:f(ptr=2),alloc=a(size=2),free=f(ptr=1)",
		"name=q,object=y,alloc=usdt:p:a(ptr=1,bytes=64),free=usdt:p:f(ptr=2)"));
	const struct functions_wanted *wanted = &user_allocators.wanted;

	expect_function(&user_allocators.function[0], "p:a", SHAPE_REPORTED,
			(struct user_arguments){ .pointer = 1, .count = 12, .size = 3 });
	expect_function(&user_allocators.function[1], "p:f", SHAPE_REPORTED_FREE, (struct user_arguments){ .pointer = 2 });
	cr_assert_eq(wanted->nr, 5, "one probe is looked for with two sets of arguments, the other with one");
	cr_expect(wanted->function[0].is_usdt && !wanted->function[2].is_usdt);
	cr_expect_eq(wanted->function[0].position[0], 1);
	cr_expect_eq(wanted->function[0].position[1], 3);
	cr_expect_eq(wanted->function[0].position[2], 12);
	cr_expect_eq(wanted->function[1].position[0], 2);
	cr_expect_eq(wanted->function[4].constant[1], 64);
	cr_expect_eq(wanted->function[4].constant[2], 1);
	user_allocators_release(&user_allocators);
}

/* Functions of one name are looked for once, with all the arguments that either needs. */
Test(user_allocators, may_be_several_in_one_recording)
{
	struct user_allocators user_allocators = read_specs(SPECS(
		"name=p,object=a.so,alloc=get(size=1),free=put(ptr=1)",
		"free=put(ptr=4),alloc=get(size=3),object=exe,name=q.2",
		"name=lua,object=*lua*,realloc=l_alloc(ptr=2,size=4)"));

	cr_assert_eq(user_allocators.allocator_nr, 3);
	cr_assert_eq(user_allocators.function_nr, 5);
	cr_expect(!user_allocators.allocator[1].wraps);
	cr_expect_eq(user_allocators.function[2].allocator, 1);
	cr_expect_eq(user_allocators.function[4].allocator, 2);
	cr_assert_eq(user_allocators.wanted.nr, 3);
	cr_expect_str_eq(user_allocators.wanted.function[user_allocators.function[2].wanted].name, "put");
	cr_expect_eq(user_allocators.function[1].wanted, user_allocators.function[2].wanted);
	cr_expect_eq(user_allocators.wanted.function[user_allocators.function[0].wanted].argument_nr, 3);
	cr_expect_eq(user_allocators.wanted.function[user_allocators.function[1].wanted].argument_nr, 4);
	cr_expect_eq(user_allocators.wanted.function[user_allocators.function[4].wanted].argument_nr, 4);
	user_allocators_release(&user_allocators);
}

Test(user_allocators, know_which_functions_throw_exceptions)
{
	struct user_allocators user_allocators = read_specs(SPECS(
		"name=p,object=x,alloc=_ZN4Pool3getEm(size=2),alloc=get(size=1),free=_ZN4Pool3putEPv(ptr=2)",
		"name=q,object=x,throws,alloc=get(size=1),free=put(ptr=1)"));
	const bool throws[] = { true, false, false, true, false };

	for (size_t i = 0; i < ARRAY_SIZE(throws); i++)
		cr_expect_eq(user_function_throws(&user_allocators, i), throws[i], "%zu", i);
	user_allocators_release(&user_allocators);
}

#define REST ",alloc=a(size=1),free=f(ptr=1)"
#define SPEC(functions) "name=p,object=x," functions

static const struct {
	const char *spec, *why;
} refusals[] = {
	{ "", "'' is none of name=, object=, alloc=, realloc=, free=, throws and wraps" },
	{ "object=x" REST, "name= is missing" },
	{ "name=p" REST, "object= is missing" },
	{ "name=p,object=x,free=f(ptr=1)", "alloc= (or realloc=) is missing" },
	{ "name=p,object=x,alloc=a(size=1)", "free= (or realloc=) is missing" },
	{ "name=p,object=x", "alloc= (or realloc=) is missing" },
	{ "name=,object=x" REST, "name= is empty" },
	{ "name=p,object=" REST, "object= is empty" },
	{ "name=p,name=q,object=x" REST, "name=q: it is there twice" },
	{ "name=p,object=x,object=y" REST, "object=y: it is there twice" },
	{ "name=a/b,object=x" REST,
	  "name=a/b: a name is up to 32 letters, digits, '.', '_' and '-', and no number" },
	{ "name=16,object=x" REST,
	  "name=16: a name is up to 32 letters, digits, '.', '_' and '-', and no number" },
	{ "name=malloc,object=x" REST, "name=malloc: that is another allocator's name" },
	{ "name=jemalloc,object=x" REST, "name=jemalloc: that is another allocator's name" },
	{ "name=taken,object=x" REST, "name=taken: that is another allocator's name" },
	{ "name=p,object=x,wrap" REST,
	  "'wrap' is none of name=, object=, alloc=, realloc=, free=, throws and wraps" },
	{ "name=p,object=x," REST,
	  "'' is none of name=, object=, alloc=, realloc=, free=, throws and wraps" },
	{ SPEC("free=pool_free"), "free=pool_free: ptr= is missing" },
	{ SPEC("free=f()"), "free=f: ptr= is missing" },
	{ SPEC("free=f(ptr=1,size=2)"), "free=f: 'size=2' is none of ptr=" },
	{ SPEC("alloc=a"), "alloc=a: size= (or bytes=) is missing" },
	{ SPEC("alloc=a(count=1)"), "alloc=a: size= (or bytes=) is missing" },
	{ SPEC("alloc=a(size=1,bytes=8)"), "alloc=a: size= and bytes= exclude each other" },
	{ SPEC("alloc=a(ptr=1)"), "alloc=a: 'ptr=1' is none of size=, count=, bytes= and out=" },
	{ SPEC("alloc=a(size)"), "alloc=a: 'size' is none of size=, count=, bytes= and out=" },
	{ SPEC("alloc=a(size=1,)"), "alloc=a: '' is none of size=, count=, bytes= and out=" },
	{ SPEC("alloc=a(size=0)"), "alloc=a: size=0: an argument's position is 1 to 6" },
	{ SPEC("alloc=a(size=7)"), "alloc=a: size=7: an argument's position is 1 to 6" },
	{ SPEC("alloc=a(size=-1)"), "alloc=a: size=-1: an argument's position is 1 to 6" },
	{ SPEC("alloc=a(size=)"), "alloc=a: size=: an argument's position is 1 to 6" },
	{ SPEC("alloc=a(size=1:16)"),
	  "alloc=a: size=1:16: ':32' may follow the position of a size or a count, and nothing else" },
	{ SPEC("alloc=a(size=1:32:32)"),
	  "alloc=a: size=1:32:32: ':32' may follow the position of a size or a count, and nothing else" },
	{ SPEC("alloc=a(size=:32)"), "alloc=a: size=: an argument's position is 1 to 6" },
	{ SPEC("alloc=a(size=1:32,count=1)"), "alloc=a: argument 1 has two meanings" },
	{ SPEC("free=f(ptr=1:32)"),
	  "free=f: ptr=1:32: ':32' may follow the position of a size or a count, and nothing else" },
	{ SPEC("alloc=a(size=1,size=2)"), "alloc=a: size= is there twice" },
	{ SPEC("alloc=a(size=1,count=1)"), "alloc=a: argument 1 has two meanings" },
	{ SPEC("alloc=a(out=2,size=2)"), "alloc=a: argument 2 has two meanings" },
	{ SPEC("alloc=a(bytes=0)"), "alloc=a: bytes=0 is no number of bytes" },
	{ SPEC("alloc=a(bytes=4K)"), "alloc=a: bytes=4K is no number of bytes" },
	{ SPEC("realloc=r(size=1)"), "realloc=r: ptr= is missing" },
	{ SPEC("realloc=r(ptr=1)"), "realloc=r: size= is missing" },
	{ SPEC("alloc=(size=1)"), "alloc=: the function's name is missing" },
	{ SPEC("alloc=a(size=1"), "alloc=a(size=1: ')' is missing" },
	{ SPEC("alloc=a(size=1)x"), "alloc=a(size=1)x: nothing belongs behind ')'" },
	{ SPEC("alloc=a)"), "alloc=a): nothing belongs behind ')'" },
	{ SPEC("alloc=a(size=1),free=a(ptr=1)"), "free=a: the function is there twice" },
	{ SPEC("alloc=usdt:p:a(size=1)"), "alloc=usdt:p:a: ptr= is missing" },
	{ SPEC("alloc=usdt:p:a(ptr=1)"), "alloc=usdt:p:a: size= (or bytes=) is missing" },
	{ SPEC("alloc=usdt:p:a(ptr=1,size=13)"), "alloc=usdt:p:a: size=13: an argument's position is 1 to 12" },
	{ SPEC("alloc=usdt:p:a(ptr=1,out=2)"), "alloc=usdt:p:a: 'out=2' is none of ptr=, size=, count= and bytes=" },
	{ SPEC("alloc=usdt:p:a(ptr=1,size=2:32)"),
	  "alloc=usdt:p:a: size=2:32: the program itself says how wide arguments of a USDT probe are" },
	{ SPEC("alloc=usdt:a(ptr=1,size=2)"), "alloc=usdt:a: a USDT probe is called PROVIDER:NAME" },
	{ SPEC("free=usdt:p:(ptr=1)"), "free=usdt:p:: a USDT probe is called PROVIDER:NAME" },
	{ SPEC("free=usdt:p:q:r(ptr=1)"), "free=usdt:p:q:r: a USDT probe is called PROVIDER:NAME" },
	{ SPEC("realloc=usdt:p:r(ptr=1,size=2)"),
	  "realloc=usdt:p:r: USDT probes report what is allocated and what is freed: alloc=usdt:… and free=usdt:…" },
	{ SPEC("alloc=usdt:p:a(ptr=1,size=2),free=usdt:p:f(ptr=1),wraps"),
	  "wraps: a USDT probe shows no call whose malloc could be left out" },
};

Test(user_allocators, refuse_invalid_specifications)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct user_allocators user_allocators =
			read_specs(SPECS("name=taken,object=y,realloc=z(ptr=1,size=2)"));
		struct reason why = { "" };
		int err = user_allocators_add(&user_allocators, refusals[i].spec, &why);

		cr_expect_eq(err, -EINVAL, "%s", refusals[i].spec);
		cr_expect_str_eq(why.text, refusals[i].why, "%s: %s", refusals[i].spec, why.text);
		cr_expect_eq(user_allocators.allocator_nr, 1);
		cr_expect_eq(user_allocators.function_nr, 1);
		cr_expect_eq(user_allocators.wanted.nr, 1);
		user_allocators_release(&user_allocators);
	}
}

Test(user_allocators, are_limited_in_number)
{
	struct user_allocators user_allocators = {};
	struct reason why = {};
	char spec[128];
	int err = 0, nr = 0;

	for (; !err && nr <= USER_ALLOCATORS_MAX; nr++) {
		snprintf(spec, sizeof(spec), "name=p%d,object=x,realloc=r(ptr=1,size=2)", nr);
		err = user_allocators_add(&user_allocators, spec, &why);
	}
	cr_expect_eq(err, -EINVAL);
	cr_expect_eq(user_allocators.allocator_nr, USER_ALLOCATORS_MAX);
	cr_expect_str_eq(why.text, "more than 64 allocators");
	user_allocators_release(&user_allocators);
}

Test(user_allocators, refuse_more_than_128_functions)
{
	struct user_allocators user_allocators = {};
	struct reason why = {};
	char spec[4096] = "name=p,object=x,free=f(ptr=1)";
	size_t len = strlen(spec);

	for (int i = 0; i < USER_CALLS_MAX; i++)
		len += sprintf(spec + len, ",alloc=a%d(size=1)", i);
	cr_expect_eq(user_allocators_add(&user_allocators, spec, &why), -EINVAL);
	cr_expect_str_eq(why.text, "more than 128 functions");
	*strrchr(spec, ',') = '\0';
	cr_expect_eq(user_allocators_add(&user_allocators, spec, &why), 0, "%s", why.text);
	user_allocators_release(&user_allocators);
}

Test(user_allocators, match_the_files_that_they_name)
{
	static const struct {
		const char *object, *path;
		bool is_exe, is_in;
	} rows[] = {
		{ "/usr/lib/libp.so.1", "/usr/lib/libp.so.1", false, true },
		{ "/usr/lib/libp.so.1", "/opt/usr/lib/libp.so.1", false, false },
		{ "libp.so.1", "/usr/lib/libp.so.1", false, true },
		{ "libp.so*", "/usr/lib/libp.so.1", false, true },
		{ "*/lib/libp*", "/usr/lib/libp.so.1", false, true },
		{ "libp", "/usr/lib/libp.so.1", false, false },
		{ "lib", "/usr/lib/libp.so.1", false, false },
		{ "a[b]", "/a[b]", false, true },
		{ "exe", "/usr/bin/p", true, true },
		{ "exe", "/usr/bin/p", false, false },
		{ "exe", "/usr/bin/exe", false, false },
		{ "p", "/usr/bin/p", true, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct user_allocator allocator = { .object = (char *)rows[i].object };

		cr_expect_eq(user_allocator_is_in(&allocator, rows[i].path, rows[i].is_exe),
			     rows[i].is_in, "%s in %s", rows[i].object, rows[i].path);
	}
}
