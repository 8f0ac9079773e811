// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Short names of functions, and rows that fit a terminal. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "engine.h"
#include "render/clean.h"
#include "render/readable_name.h"

#define STRING "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"

static const struct {
	const char *name, *shown;
} names[] = {
	{ "main", "main" },
	{ "malloc", "malloc" },
	{ STRING "::_M_mutate(unsigned long, unsigned long, char const*, unsigned long)", "std::string::_M_mutate" },
	{ "std::vector<shop::Item, std::allocator<shop::Item> >::push_back(shop::Item&&)",
	  "std::vector<shop::Item>::push_back" },
	{ "void std::vector<" STRING ", std::allocator<" STRING " > >::_M_realloc_insert<" STRING " >(int)",
	  "std::vector<std::string>::_M_realloc_insert<std::string>" },
	{ "std::map<" STRING ", int, std::less<" STRING " >, std::allocator<std::pair<" STRING " const, int> > >::at()",
	  "std::map<std::string, int>::at" },
	{ "std::map<int, int, std::greater<int>, std::allocator<std::pair<int const, int> > >::at()",
	  "std::map<int, int, std::greater<int>>::at" },
	{ "std::unordered_map<int, char, std::hash<int>, std::equal_to<int>, std::allocator<std::pair<int const, char> > >"
	  "::clear()", "std::unordered_map<int, char>::clear" },
	{ "std::unique_ptr<Foo, std::default_delete<Foo> >::reset(Foo*)", "std::unique_ptr<Foo>::reset" },
	{ "std::unique_ptr<Foo, Deleter>::reset(Foo*)", "std::unique_ptr<Foo, Deleter>::reset" },
	{ "std::less<int>::operator()(int, int) const", "std::less<int>::operator()" },
	{ "std::allocator<int>::allocate(unsigned long)", "std::allocator<int>::allocate" },
	{ "std::basic_ostream<char, std::char_traits<char> >& std::operator<< <std::char_traits<char> >"
	  "(std::basic_ostream<char, std::char_traits<char> >&, char const*)",
	  "std::operator<< <std::char_traits<char> >" },
	{ "std::basic_ostream<wchar_t, std::char_traits<wchar_t> >::flush()", "std::wostream::flush" },
	{ "f<std::basic_string_view<char16_t, std::char_traits<char16_t> > >()", "f<std::u16string_view>" },
	{ "std::__1::vector<int, std::__1::allocator<int> >::resize(int)", "std::vector<int>::resize" },
	{ "std::function<void (" STRING " const&)>::operator()(int) const",
	  "std::function<void (std::string const&)>::operator()" },
	{ "shop::(anonymous namespace)::Cache<int>::put(int)", "shop::(anonymous namespace)::Cache<int>::put" },
	{ "f(int)::{lambda(" STRING ")#1}::operator()(" STRING ") const", "f::{lambda(std::string)#1}::operator()" },
	{ "Foo::operator<(Foo const&) const", "Foo::operator<" },
	{ "Foo::operator->() const", "Foo::operator->" },
	{ "std::basic_string<char8_t, std::char_traits<char8_t>, std::allocator<char8_t> >::c_str() const",
	  "std::u8string::c_str" },
	{ "alloc::vec::Vec<T,A>::push", "alloc::vec::Vec<T,A>::push" },
	{ "<shop::Cart as core::clone::Clone>::clone", "shop::Cart::clone" },
	{ "my::basic_string<char, std::char_traits<char> >::f()", "my::basic_string<char>::f" },
};

static void expect_names(const char *const *functions, const char *const *shown, size_t nr)
{
	struct readable_names known = {};

	for (size_t i = 0; i < nr; i++) {
		const struct frame_view frame = { .filename = "a.cc", .function = functions[i] };
		const struct statistic statistic = { .frame = &frame, .nframe = 1 };

		cr_assert_eq(readable_names_add(&known, &statistic, 1, KEY_TRACEBACK), 0);
		cr_assert_eq(readable_names_add(&known, &statistic, 1, KEY_TRACEBACK), 0);
	}
	for (size_t i = 0; i < nr; i++) {
		char *text = readable_name(&known, functions[i]);

		cr_expect_str_eq(text, shown[i], "%s: %s", functions[i], text);
		free(text);
	}
	readable_names_release(&known);
}

Test(render_readable_name, is_short)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		expect_names(&names[i].name, &names[i].shown, 1);
}

Test(render_readable_name, is_in_full_without_a_table)
{
	char *text = readable_name(NULL, "f(int)");

	cr_expect_str_eq(text, "f(int)");
	free(text);
}

Test(render_readable_name, has_what_tells_overloads_apart)
{
	static const char *const functions[] = {
		"f(int)", "f(" STRING ")", "g(int)", "h<int>(int)", "h<char>(int)", "f",
		"k<A, std::less<A> >()", "k<A>()", "void t<1>(int)", "int t<1>(int)",
	};
	static const char *const shown[] = {
		"f(int)", "f(std::string)", "g", "h<int>", "h<char>", "f",
		"k<A, std::less<A> >()", "k<A>()", "void t<1>(int)", "int t<1>(int)",
	};

	expect_names(functions, shown, ARRAY_SIZE(functions));
}

/* Any text stays within its memory, and becomes no longer. */
Test(render_readable_name, survives_any_text)
{
	static const char *const units[] = {
		"<", ">", "a<", "a<b,", "std::__cxx11::", "operator<", "(", "a<b, std::less<", "x, ",
	};
	static char name[1 << 14];

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		size_t len = strlen(units[i]);

		for (size_t k = 0; k + len < sizeof(name); k += len)
			memcpy(name + k, units[i], len + 1);
		len = strlen(name);
		shorten_template_arguments(name);
		cr_expect_leq(strlen(name), len);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		for (size_t len = 0; len < strlen(names[i].name); len++) {
			char *cut = strndup(names[i].name, len);

			shorten_template_arguments(cut);
			cr_expect_leq(strlen(cut), len);
			free(cut);
		}
	}
}

/* The text ends where the memory that may be read ends. */
Test(render_readable_name, reads_nothing_behind_the_text)
{
	static const char *const texts[][2] = {
		{ "f<a, >", "f<a,>" },
		{ "f<a, , std::allocator<a> >", "f<a>" },
		{ "f<a,>", "f<a,>" },
	};
	size_t page = sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(pages, MAP_FAILED);
	cr_assert_eq(mprotect(pages + page, page, PROT_NONE), 0);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		char *text = pages + page - strlen(texts[i][0]) - 1;

		memcpy(text, texts[i][0], strlen(texts[i][0]) + 1);
		shorten_template_arguments(text);
		cr_expect_str_eq(text, texts[i][1], "%s: %s", texts[i][0], text);
	}
	munmap(pages, 2 * page);
}

Test(render_readable_name, rows_fit_the_terminal)
{
	static const struct {
		const char *text;
		size_t tail_at;
		unsigned int width;
		enum row_kind kind;
		const char *row;
	} rows[] = {
		{ "/usr/src/shop/cart.cpp:31: size=66 B", 25, 0, ROW_PATH, "  /usr/src/shop/cart.cpp:31: size=66 B\n" },
		{ "/usr/src/shop/cart.cpp:31: size=66 B", 25, 38, ROW_PATH, "  /usr/src/shop/cart.cpp:31: size=66 B\n" },
		{ "/usr/src/shop/cart.cpp:31: size=66 B", 25, 37, ROW_PATH, "  …sr/src/shop/cart.cpp:31: size=66 B\n" },
		{ "shop::Cache<std::string, shop::Item>::put at /usr/src/cart.cpp:31", 41, 60, ROW_FUNCTION,
		  "  shop::Cache<std::string, shop::Item>::put at …/cart.cpp:31\n" },
		{ "shop::Cache<std::string, shop::Item>::put at /usr/src/cart.cpp:31", 41, 50, ROW_FUNCTION,
		  "  shop::Cache<std::string, shop:… at …/cart.cpp:31\n" },
		{ "put at /usr/local/share/src/shop/cart.cpp:31", 3, 30, ROW_FUNCTION, "  put at …src/shop/cart.cpp:31\n" },
		{ "größe::größe::größe at a.c:1", 25, 21, ROW_FUNCTION, "  größe::gr… at a.c:1\n" },
		{ "abcdefghij", 10, 11, ROW_FUNCTION, "  abcdefgh…\n" },
		{ "abcdefghij", 0, 11, ROW_PATH, "  abcdefgh…\n" },
		{ "ab", 2, 3, ROW_FUNCTION, "  …\n" },
		{ "ab at c", 2, 3, ROW_FUNCTION, "  …\n" },
		{ "\033[2Jevil at a.c:1", 8, 100, ROW_FUNCTION, "  \\x1b[2Jevil at a.c:1\n" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *written = NULL;
		size_t len;
		FILE *out = open_memstream(&written, &len);

		cr_assert_eq(put_row(out, rows[i].width, "  ", strdup(rows[i].text), rows[i].tail_at, rows[i].kind), 0);
		fclose(out);
		cr_expect_str_eq(written, rows[i].row, "%zu: %s", i, written);
		free(written);
	}
}
