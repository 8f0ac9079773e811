// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Names as c++filt and rustfilt print them, taken apart by hand. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "cpu_limit.h"
#include "engine/function_name.h"

static const struct {
	const char *name, *qualified, *base; /* base NULL: as qualified */
} names[] = {
	/* C, and what compilers and linkers append */
	{ "main", "main", NULL },
	{ "zmalloc_usable.part.0", "zmalloc_usable", NULL },
	{ "f.isra.0.cold", "f", NULL },
	{ "f.constprop.1", "f", NULL },
	{ "f.llvm.1234567", "f", NULL },
	{ "static_local.42", "static_local", NULL },
	{ "malloc@@GLIBC_2.2.5", "malloc", NULL },
	{ "@plt", "@plt", NULL },
	{ "", "", NULL },
	{ "[…]", "[…]", NULL },
	{ "_Znwm", "_Znwm", NULL },

	/* plain C++ */
	{ "worker(shop::SessionStore*, unsigned int, int)", "worker", NULL },
	{ "shop::Session::~Session()", "shop::Session::~Session", NULL },
	{ "shop::Session::id() const", "shop::Session::id", NULL },
	{ "shop::Session::move() &&", "shop::Session::move", NULL },
	{ "f(int) [clone .isra.0]", "f", NULL },
	{ "f(int) [clone .isra.0] [clone .cold]", "f", NULL },
	{ "f(int) (.cold)", "f", NULL },
	{ "(anonymous namespace)::pool::allocate(unsigned long)", "(anonymous namespace)::pool::allocate", NULL },
	{ "shop::(anonymous namespace)::f(void (*)(int))", "shop::(anonymous namespace)::f", NULL },
	{ "Foo::bar[abi:cxx11](int)", "Foo::bar", NULL },
	{ "non-virtual thunk to shop::Cart::add(int)", "shop::Cart::add", NULL },
	{ "virtual thunk to shop::Cart::~Cart()", "shop::Cart::~Cart", NULL },
	{ "guard variable for shop::instance()::cart", "shop::instance::cart", NULL },

	/* templates: these have return types */
	{ "void std::vector<shop::Item, std::allocator<shop::Item> >::_M_realloc_insert<shop::Item>"
	  "(__gnu_cxx::__normal_iterator<shop::Item*, std::vector<shop::Item, std::allocator<shop::Item> > >, "
	  "shop::Item&&)",
	  "std::vector<shop::Item, std::allocator<shop::Item> >::_M_realloc_insert<shop::Item>",
	  "std::vector::_M_realloc_insert" },
	{ "std::__new_allocator<std::_List_node<std::string> >::allocate(unsigned long, void const*)",
	  "std::__new_allocator<std::_List_node<std::string> >::allocate", "std::__new_allocator::allocate" },
	{ "std::pair<std::__detail::_Node_iterator<int, true, false>, bool> std::_Hashtable<int>::_M_emplace<int>"
	  "(std::integral_constant<bool, true>, int&&)",
	  "std::_Hashtable<int>::_M_emplace<int>", "std::_Hashtable::_M_emplace" },
	{ "unsigned long shop::sum<int>(int const*)", "shop::sum<int>", "shop::sum" },
	{ "void* make<1>()", "make<1>", "make" },
	{ "T const& pick<T>()", "pick<T>", "pick" },
	{ "Codec<7>::decode()", "Codec<7>::decode", "Codec::decode" },
	{ "std::enable_if<((2)>(1)), int>::type f<int>(int)", "f<int>", "f" },
	{ "int f<&(Foo::operator<(Foo const&))>()", "f<&(Foo::operator<(Foo const&))>", "f" },
	{ "void run<void (*)(int)>(void (*)(int))", "run<void (*)(int)>", "run" },
	{ "decltype(auto) shop::get<0>(std::tuple<int>&)", "shop::get<0>", "shop::get" },
	{ "decltype (((declval<T>)()).f((1)>(2))) shop::call<T>(T)", "shop::call<T>", "shop::call" },
	{ "auto shop::apply<int>(int)::{lambda(auto:1)#1}::operator()<int>(int) const",
	  "shop::apply<int>::{lambda(auto:1)#1}::operator()<int>",
	  "shop::apply::{lambda(auto:1)#1}::operator()" },
	{ "int (*shop::callback<int>(char))(long)", "shop::callback<int>", "shop::callback" },
	{ "char (&shop::rows<2>())[3]", "shop::rows<2>", "shop::rows" },

	/* lambdas and local types leave out the parameters of their function, too */
	{ "main::{lambda()#1}::operator()() const", "main::{lambda()#1}::operator()", NULL },
	{ "start(int)::{lambda(int)#1}::operator()(int) const", "start::{lambda(int)#1}::operator()", NULL },
	{ "Foo::bar() const::{lambda(std::string)#2}::operator()(std::string) const",
	  "Foo::bar::{lambda(std::string)#2}::operator()", NULL },
	{ "foo(int)::'lambda'(int)::operator()(int) const", "foo::'lambda'::operator()", NULL },
	{ "foo(int)::$_0::operator()() const", "foo::$_0::operator()", NULL },
	{ "f(int)::Local::add()", "f::Local::add", NULL },
	{ "std::_Function_handler<void (int), main::{lambda(int)#1}>::_M_invoke(std::_Any_data const&, int&&)",
	  "std::_Function_handler<void (int), main::{lambda(int)#1}>::_M_invoke",
	  "std::_Function_handler::_M_invoke" },
	{ "void f<main::{lambda(int)#1}>(main::{lambda(int)#1}&&)", "f<main::{lambda(int)#1}>", "f" },

	/* operators */
	{ "operator new(unsigned long)", "operator new", NULL },
	{ "operator new[](unsigned long, std::nothrow_t const&)", "operator new[]", NULL },
	{ "operator new", "operator new", NULL },
	{ "operator newer", "operator newer", NULL },
	{ "Chunk::operator new[](unsigned long)", "Chunk::operator new[]", NULL },
	{ "Foo::operator<(Foo const&) const", "Foo::operator<", NULL },
	{ "bool operator< <int>(A<int> const&, A<int> const&)", "operator< <int>", "operator<" },
	{ "std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char const*)",
	  "std::operator<< <std::char_traits<char> >", "std::operator<<" },
	{ "Foo::operator->() const", "Foo::operator->", NULL },
	{ "Foo::operator()(int)", "Foo::operator()", NULL },
	{ "std::function<void ()>::operator()() const", "std::function<void ()>::operator()",
	  "std::function::operator()" },
	{ "Foo::operator[](unsigned long)", "Foo::operator[]", NULL },
	{ "Foo::operator unsigned long() const", "Foo::operator unsigned long", NULL },
	{ "Foo::operator std::vector<int>() const", "Foo::operator std::vector<int>", "Foo::operator std::vector" },
	{ "Foo::operator void (*)(int)() const", "Foo::operator void (*)(int)", NULL },
	{ "operator\"\" _kb(unsigned long long)", "operator\"\" _kb", NULL },
	{ "auto operator<=><int>(A, B)", "operator<=><int>", "operator<=>" },
	{ "operators(int)", "operators", NULL },

	/* Rust, legacy and v0 */
	{ "alloc::vec::Vec<T>::push", "alloc::vec::Vec<T>::push", "alloc::vec::Vec::push" },
	{ "<alloc::vec::Vec<T> as core::clone::Clone>::clone", "core::clone::Clone::clone", NULL },
	{ "<shop::Cart as core::clone::Clone>::clone", "shop::Cart::clone", NULL },
	{ "<shop::Cart<T> as core::clone::Clone>::clone", "shop::Cart<T>::clone", "shop::Cart::clone" },
	{ "<&mut shop::Cart as core::fmt::Write>::write_str", "shop::Cart::write_str", NULL },
	{ "<alloc::string::String as shop::Encode>::encode", "shop::Encode::encode", NULL },
	{ "<T as core::convert::Into<U>>::into", "core::convert::Into<U>::into", "core::convert::Into::into" },
	{ "<str as alloc::string::ToString>::to_string", "alloc::string::ToString::to_string", NULL },
	{ "<[T] as alloc::slice::hack::ConvertVec>::to_vec", "alloc::slice::hack::ConvertVec::to_vec", NULL },
	{ "<shop::Cart>::add::<u8>", "shop::Cart::add::<u8>", "shop::Cart::add" },
	{ "<[u8]>::to_vec", "<[u8]>::to_vec", NULL },
	{ "<str>::repeat", "<str>::repeat", NULL },
	{ "alloc::slice::<impl [T]>::to_vec", "alloc::slice::<impl [T]>::to_vec", "alloc::slice::to_vec" },
	{ "shop::main::{{closure}}", "shop::main::{{closure}}", NULL },
	{ "core::ops::function::FnOnce::call_once{{vtable.shim}}",
	  "core::ops::function::FnOnce::call_once{{vtable.shim}}", NULL },
	{ "<<shop::A as shop::B>::C as core::iter::Iterator>::next", "core::iter::Iterator::next", NULL },
	{ "<unknown>", "<unknown>", NULL },

	/* other languages */
	{ "runtime.(*mheap).alloc", "runtime.(*mheap).alloc", NULL },
	{ "main.main.func1", "main.main.func1", NULL },
	{ "-[NSString initWithFormat:]", "-[NSString initWithFormat:]", NULL },
	{ "os::malloc(unsigned long, MEMFLAGS, NativeCallStack const&)", "os::malloc", NULL },
	{ "CHeapObj<(MEMFLAGS)5>::operator new(unsigned long)", "CHeapObj<(MEMFLAGS)5>::operator new",
	  "CHeapObj::operator new" },
};

Test(engine_function_name, is_taken_apart)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *name = names[i].name;
		char *out = malloc(strlen(name) + 1); /* a longer text would be an error that ASan sees */
		size_t len = function_name_copy(out, name, NAME_QUALIFIED);

		cr_expect_str_eq(out, names[i].qualified, "%s: %s", name, out);
		cr_expect_eq(len, strlen(out));
		function_name_copy(out, name, NAME_BASE);
		cr_expect_str_eq(out, names[i].base ?: names[i].qualified, "%s: base %s", name, out);
		free(out);
	}
}

/* Text that is no name, and each name cut short at every byte. */
Test(engine_function_name, survives_any_text)
{
	static const char *const odd[] = {
		"(", ")", "<", ">", "<<", "operator", "operator ", "operator(", "a<", "a(", "a::", "<a as ", "<a as b>",
		"decltype", "decltype(", "(*", "int (*", "[abi:", "f[abi:", "{", "f() const::", "\"\"", "-[", "a.",
		"<<<<<<<<<<<<<<<<<<<<a as b>::c as d>::e", "\xff\xfe(\x80)", "operator\"\"", "a<b->c>", " ", "  ",
	};
	char out[1024], cut[1024];

	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		cr_expect_leq(function_name_copy(out, odd[i], i % 2), strlen(odd[i]), "%s", odd[i]);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		for (size_t len = 0; len < strlen(names[i].name); len++) {
			snprintf(cut, sizeof(cut), "%.*s", (int)len, names[i].name);
			cr_expect_leq(function_name_copy(out, cut, NAME_BASE), len, "%s", cut);
			cr_expect_leq(function_name_copy(out, cut, NAME_QUALIFIED), len, "%s", cut);
		}
	}
}

/* 64 KiB of brackets take no visible time. */
Test(engine_function_name, takes_linear_time)
{
	static const char *const units[] = { "<", "(", "a<", "operator<", "<a as ", "f()::", "decltype(", "a ", "[abi:" };
	static char name[1 << 16], out[1 << 16];

	limit_cpu_seconds(10);
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		size_t len = strlen(units[i]);

		for (size_t k = 0; k + len < sizeof(name); k += len)
			memcpy(name + k, units[i], len + 1);
		cr_expect_lt(function_name_copy(out, name, NAME_BASE), sizeof(out));
	}
}

/* A row of suffixes that other text ends is read once, not once for each of them. */
Test(engine_function_name, reads_a_row_of_suffixes_once)
{
	static char name[1 << 20], out[1 << 20];
	size_t len = 1;

	limit_cpu_seconds(10);
	name[0] = 'a';
	for (; len + 3 < sizeof(name); len += 2)
		memcpy(name + len, ".1", 2);
	name[len] = 'x';
	cr_expect_eq(function_name_copy(out, name, NAME_BASE), len + 1);
	cr_expect(!strcmp(out, name));
	name[len] = '\0';
	cr_expect_eq(function_name_copy(out, name, NAME_BASE), 1);
}

Test(engine_function_name, matches_patterns_by_what_they_mention)
{
	static const struct {
		const char *pattern, *name;
		bool matches;
	} rows[] = {
		{ "std::*", "void std::vector<int>::_M_realloc_insert<int>(int*)", true },
		{ "*std::*", "void shop::add<std::string>(std::string const&)", false },
		{ "*std::*", "int f(std::string)", false },
		{ "shop::Cache::put", "void shop::Cache<int, std::less<int> >::put<int>(int)", true },
		{ "shop::Cache<int*", "void shop::Cache<int, std::less<int> >::put<int>(int)", true },
		{ "shop::Cache<char*", "void shop::Cache<int, std::less<int> >::put<int>(int)", false },
		{ "f(int)", "f(int)", true },
		{ "f(int)", "f(char)", false },
		{ "f(*", "int f<int>(char)", false },
		{ "f", "f(char)", true },
		{ "*::operator()", "main::{lambda()#1}::operator()() const", true },
		{ "void *", "void shop::add<int>()", false },
		{ "main", "main", true },
		{ "m?in", "main", true },
	};
	char scratch[256];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		cr_expect_eq(function_name_matches(rows[i].pattern, rows[i].name, scratch), rows[i].matches, "%s, %s",
			     rows[i].pattern, rows[i].name);
	cr_expect(function_names_share_base("Codec<7>::decode()", "Codec<8>::decode()"));
	cr_expect(function_names_share_base("f(int)", "f(char)"));
	cr_expect_not(function_names_share_base("f(int)", "g(int)"));
}
