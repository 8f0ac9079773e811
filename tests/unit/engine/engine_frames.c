// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "cpu_limit.h"
#include "engine/frame.h"
#include "engine/function_name.h"
#include "engine/pattern.h"
#include "engine_data.h"

/* Which frames and tracebacks are one group, and how groups are ordered. */

static const struct engine_options by_line = { .key_type = KEY_LINENO };
static const struct engine_options by_file = { .key_type = KEY_FILENAME };
static const struct engine_options by_traceback = { .key_type = KEY_TRACEBACK };
static const struct engine_options as_tracemalloc = { .key_type = KEY_TRACEBACK, .tracemalloc = true };

static struct statistics *statistics_of(const struct data_snapshot *data,
					const struct engine_options *options)
{
	struct statistics *statistics;

	cr_assert_eq(snapshot_statistics(data->snapshot, options, &statistics, NULL), 0);
	return statistics;
}

static void expect_frame(const struct frame_view *got, const struct frame_view *want)
{
	cr_expect_str_eq(got->filename, want->filename);
	cr_expect_eq(got->lineno, want->lineno);
	cr_expect_str_eq(got->function ?: "(null)", want->function ?: "(null)");
	cr_expect_str_eq(got->object ?: "(null)", want->object ?: "(null)");
	cr_expect_eq(got->offset, want->offset, "offset %#lx", got->offset);
}

Test(engine_frames, are_ordered_by_their_fields)
{
	/* ascending */
	static const struct frame_view frames[] = {
		{ .filename = "" },
		{ .filename = "A" },
		{ .filename = "a" },
		{ .filename = "a", .offset = 1 },
		{ .filename = "a", .object = "/lib/a" },
		{ .filename = "a", .object = "/lib/a", .offset = 9 },
		{ .filename = "a", .object = "/lib/b", .offset = 8 },
		{ .filename = "a", .function = "f", .offset = 7 },
		{ .filename = "a", .function = "g", .offset = 6 },
		{ .filename = "a", .function = "g", .offset = UINT64_MAX },
		{ .filename = "a", .lineno = 1 },
		{ .filename = "a", .lineno = UINT32_MAX },
		{ .filename = "a.c" },
		{ .filename = "b", .lineno = 9 },
		{ .filename = "b", .lineno = 10 },
		{ .filename = "\xff" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(frames); j++) {
			int order = frame_compare(&frames[i], &frames[j]);

			cr_expect_eq((order > 0) - (order < 0), (i > j) - (i < j), "%zu, %zu", i,
				     j);
			if (i != j)
				cr_expect_neq(frame_hash(&frames[i], false), frame_hash(&frames[j], false));
		}
	}
}

Test(engine_frames, with_a_line_are_equal_whatever_their_function)
{
	static const struct data_trace traces[] = {
		{ .size = 1, .frame = { { "a.h", 7, "f", "/lib/a", 0x10 } } },
		{ .size = 2, .frame = { { "a.h", 7, "g", "/lib/a", 0x20 } } },
		{ .size = 4, .frame = { { "b.c", 7, "g", "/lib/a", 0x30 } } },
		{ .size = 4, .frame = { { "b.c", 7, "g", "/lib/a", 0x40 } } },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct statistics *statistics = statistics_of(&data, &by_line);

	DATA_EXPECT("lineno", NULL, data.snapshot, &by_line, { "b.c:7", 8, 2 }, { "a.h:7", 3, 2 });
	DATA_EXPECT("traceback", NULL, data.snapshot, &by_traceback, { "b.c:7", 8, 2 },
		    { "a.h:7", 2, 1 }, { "a.h:7", 1, 1 });
	DATA_EXPECT("tracemalloc", NULL, data.snapshot, &as_tracemalloc, { "b.c:7", 8, 2 },
		    { "a.h:7", 3, 2 });
	expect_frame(&statistics->statistic[0].frame[0],
		     &(struct frame_view){ .filename = "b.c", .lineno = 7, .function = "g", .object = "/lib/a" });
	expect_frame(&statistics->statistic[1].frame[0],
		     &(struct frame_view){ .filename = "a.h", .lineno = 7, .object = "/lib/a" });
	statistics_free(statistics);
	data_release(&data);
}

Test(engine_frames, without_a_line_differ_by_function_object_and_offset)
{
	static const struct data_trace traces[] = {
		{ .size = 64, .frame = { { "/lib/x", 0, NULL, "/lib/x", 0x10 } } },
		{ .size = 32, .frame = { { "/lib/x", 0, NULL, "/lib/x", 0x20 } } },
		{ .size = 16, .frame = { { "/lib/x", 0, "f", "/lib/x", 0x20 } } },
		{ .size = 8, .frame = { { "/lib/x", 0, "f", "/lib/y", 0x20 } } },
		{ .size = 4, .frame = { { "/lib/x", 0, "f", NULL, 0x20 } } },
		{ .size = 3, .frame = { { "/lib/x", 0, "f", "/lib/y", 0x20 } }, .total_nframe = 9 },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct statistics *statistics = statistics_of(&data, &by_line);

	DATA_EXPECT("lineno", NULL, data.snapshot, &by_line, { "/lib/x:0", 64, 1 },
		    { "/lib/x:0", 32, 1 }, { "/lib/x:0", 16, 1 }, { "/lib/x:0", 11, 2 },
		    { "/lib/x:0", 4, 1 });
	DATA_EXPECT("filename", NULL, data.snapshot, &by_file, { "/lib/x:0", 127, 6 });
	expect_frame(&statistics->statistic[3].frame[0],
		     &(struct frame_view){ .filename = "/lib/x", .function = "f", .object = "/lib/y", .offset = 0x20 });
	statistics_free(statistics);
	statistics = statistics_of(&data, &by_file);
	expect_frame(&statistics->statistic[0].frame[0], &(struct frame_view){ "/lib/x" });
	statistics_free(statistics);
	data_release(&data);
}

Test(engine_frames, keep_the_names_of_their_own_traceback)
{
	static const struct data_trace traces[] = {
		{ .size = 2, .frame = { { "vec.h", 9, "push<int>" }, { "a.c", 1, "one" } } },
		{ .size = 1, .frame = { { "vec.h", 9, "push<char>" }, { "a.c", 2, "two" } } },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct statistics *statistics = statistics_of(&data, &by_traceback);

	cr_assert_eq(statistics->statistic_nr, 2);
	cr_expect_str_eq(statistics->statistic[0].frame[1].function, "push<int>");
	cr_expect_str_eq(statistics->statistic[1].frame[1].function, "push<char>");
	statistics_free(statistics);
	data_release(&data);
}

Test(engine_frames, are_unknown_for_a_trace_without_traceback)
{
	static const struct data_trace traces[] = {
		{ .size = 1 },
		{ .size = 2, .frame = { { "<unknown>", 0 } }, .total_nframe = 1 },
		{ .size = 4, .frame = { { "<unknown>", 0, "f", NULL, 0x10 } } },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct engine_options cumulative = { .cumulative = true };
	struct statistics *statistics = statistics_of(&data, &by_line);

	DATA_EXPECT("lineno", NULL, data.snapshot, &by_line, { "<unknown>:0", 4, 1 },
		    { "<unknown>:0", 3, 2 });
	DATA_EXPECT("filename", NULL, data.snapshot, &by_file, { "<unknown>:0", 7, 3 });
	DATA_EXPECT("traceback", NULL, data.snapshot, &by_traceback, { "<unknown>:0", 4, 1 },
		    { "<unknown>:0", 3, 2 });
	DATA_EXPECT("cumulative", NULL, data.snapshot, &cumulative, { "<unknown>:0", 4, 1 },
		    { "<unknown>:0", 3, 2 });
	expect_frame(&statistics->statistic[1].frame[0], &(struct frame_view){ "<unknown>" });
	statistics_free(statistics);
	data_release(&data);
}

Test(engine_frames, count_once_per_occurrence_in_recursion)
{
	static const struct data_trace traces[] = {
		{ .size = 10, .frame = { { "r.c", 3 }, { "r.c", 5 }, { "r.c", 5 }, { "m.c", 1 } } },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct engine_options options = { .cumulative = true };

	DATA_EXPECT("lineno", NULL, data.snapshot, &options, { "r.c:5", 20, 2 },
		    { "r.c:3", 10, 1 }, { "m.c:1", 10, 1 });
	options.key_type = KEY_FILENAME;
	DATA_EXPECT("filename", NULL, data.snapshot, &options, { "r.c:0", 30, 3 },
		    { "m.c:0", 10, 1 });
	data_release(&data);
}

Test(engine_frames, form_one_group_whatever_their_ids)
{
	static const struct data_trace old_traces[] = {
		{ .size = 9, .frame = { { "z.c", 9, "z", "/old", 1 } } },
		{ .size = 8, .frame = { { "/lib/x", 0, NULL, "/lib/x", 0x10 } } },
		{ .size = 5, .frame = { { "a.c", 1, "f", "/bin/a", 0x10 }, { "m.c", 2 } } },
	};
	static const struct data_trace new_traces[] = {
		{ .size = 7, .frame = { { "a.c", 1, "f", "/bin/a", 0x18 }, { "m.c", 2 } } },
		{ .size = 4, .frame = { { "n.c", 4 } } },
		{ .size = 6, .frame = { { "/lib/x", 0, NULL, "/lib/x", 0x10 } } },
		{ .size = 6, .frame = { { "/lib/x", 0, NULL, "/lib/x", 0x11 } } },
	};
	struct data_snapshot old = DATA_SNAPSHOT(old_traces), new = DATA_SNAPSHOT(new_traces);
	struct statistics *statistics;

	DATA_EXPECT("lineno", old.snapshot, new.snapshot, &by_line, { "z.c:9", 0, 0, -9, -1 },
		    { "/lib/x:0", 6, 1, 6, 1 }, { "n.c:4", 4, 1, 4, 1 }, { "a.c:1", 7, 1, 2, 0 },
		    { "/lib/x:0", 6, 1, -2, 0 });
	DATA_EXPECT("traceback", old.snapshot, new.snapshot, &by_traceback,
		    { "z.c:9", 0, 0, -9, -1 }, { "/lib/x:0", 6, 1, 6, 1 }, { "n.c:4", 4, 1, 4, 1 },
		    { "m.c:2 a.c:1", 7, 1, 2, 0 }, { "/lib/x:0", 6, 1, -2, 0 });
	cr_assert_eq(snapshot_compare(old.snapshot, new.snapshot, &by_line, &statistics, NULL), 0);
	expect_frame(&statistics->statistic[0].frame[0],
		     &(struct frame_view){ .filename = "z.c", .lineno = 9, .function = "z", .object = "/old", .offset = 1 });
	expect_frame(&statistics->statistic[3].frame[0],
		     &(struct frame_view){ .filename = "a.c", .lineno = 1, .function = "f", .object = "/bin/a" });
	statistics_free(statistics);
	data_release(&old);
	data_release(&new);
}

Test(engine_frames, of_equal_size_are_ordered_by_traceback)
{
	static const struct data_trace traces[] = {
		{ .size = 1, .frame = { { "x.c", 1 }, { "a.c", 2 } } },
		{ .size = 1, .frame = { { "a.c", 10 } } },
		{ .size = 1, .frame = { { "a.c", 2 } } },
		{ .size = 1, .frame = { { "a.c", 1 }, { "b.c", 1 } } },
		{ .size = 0, .frame = { { "a.c", 3 } }, .times = 2 },
		{ .size = 0, .frame = { { "z.c", 3 } } },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces), empty = data_snapshot(NULL, 0, 0);

	DATA_EXPECT("statistics", NULL, data.snapshot, &by_traceback, { "b.c:1 a.c:1", 1, 1 },
		    { "a.c:10", 1, 1 }, { "a.c:2 x.c:1", 1, 1 }, { "a.c:2", 1, 1 },
		    { "a.c:3", 0, 2 }, { "z.c:3", 0, 1 });
	DATA_EXPECT("gone", data.snapshot, empty.snapshot, &by_traceback,
		    { "b.c:1 a.c:1", 0, 0, -1, -1 }, { "a.c:10", 0, 0, -1, -1 },
		    { "a.c:2 x.c:1", 0, 0, -1, -1 }, { "a.c:2", 0, 0, -1, -1 },
		    { "a.c:3", 0, 0, 0, -2 }, { "z.c:3", 0, 0, 0, -1 });
	DATA_EXPECT("same", data.snapshot, data.snapshot, &by_file, { "a.c:0", 3, 5 },
		    { "x.c:0", 1, 1 }, { "z.c:0", 0, 1 });
	data_release(&data);
	data_release(&empty);
}

Test(engine_frames, form_no_groups_in_an_empty_snapshot)
{
	struct data_snapshot empty = data_snapshot(NULL, 0, 0);

	for (enum key_type i = 0; i < KEY_TYPE_NR; i++) {
		struct engine_options options = { .key_type = i, .select.min_age_ns = 1 };

		data_expect("statistics", NULL, empty.snapshot, &options, NULL, 0);
		data_expect("diff", empty.snapshot, empty.snapshot, &options, NULL, 0);
	}
	data_release(&empty);
}

/* Names as c++filt and rustfilt print them, taken apart by hand. */

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

/* Patterns; every answer is CPython 3.11's fnmatch.fnmatchcase() of the same two strings. */

static const struct {
	const char *pattern, *name;
	bool matches;
} cases[] = {
	/* literals, ? and * */
	{ "", "", true }, { "", "a", false }, { "a", "", false }, { "a", "a", true },
	{ "a", "A", false }, { "a.c", "a.c", true }, { "a.c", "axc", false },
	{ "a\\b", "a\\b", true }, { "\\*", "\\x", true }, { "\\*", "*", false },
	{ "?", "", false }, { "?", "a", true }, { "?", "/", true }, { "?", "\n", true },
	{ "?", "é", true }, { "??", "é", false }, { "?", "€", true }, { "?", "😀", true },
	{ "*", "", true }, { "*", "a/b\nc", true }, { "**", "a", true },
	{ "a*", "a", true }, { "*a", "ba/a", true }, { "a*b*c", "abxbc", true },
	{ "a*b*c", "abxb", false }, { "*.c", "/x/.c", true }, { "*ab", "aab", true },
	{ "*a?c*", "xabacd", false }, { "*a*a*a*", "aa", false },
	{ "src/*.c", "src/x/y.c", true }, { "*é", "cafÃé", true },

	/* bytes that are not UTF-8 */
	{ "?", "\xff", true }, { "??", "\xff\xfe", true }, { "?", "\xc3", true },
	{ "??", "\xe2\x82", true }, { "?", "\xe2\x82", false },
	{ "???", "\xed\xa0\x80", true }, { "??", "\xc0\x80", true },
	{ "????", "\xf4\x90\x80\x80", true }, { "\xff", "\xff", true },
	{ "[\x80-\xff]", "\xc3", true }, { "[\x80-\xff]", "é", false },
	{ "[\x80-\xff]", "€", false }, { "[\xff-\x80]", "\x90", false },
	{ "[!\x80]", "\x81", true },

	/* sets */
	{ "[abc]", "b", true }, { "[abc]", "d", false }, { "[abc]", "", false },
	{ "[abc]", "ab", false }, { "[!abc]", "d", true }, { "[!abc]", "a", false },
	{ "[!abc]", "", false }, { "[!a]", "\n", true }, { "[!a]", "/", true },
	{ "[^a]", "^", true }, { "[^a]", "a", true }, { "[^a]", "b", false },
	{ "[!^a]", "^", false }, { "[!^a]", "b", true }, { "[a^]", "^", true },
	{ "[*]", "*", true }, { "[*]", "a", false }, { "[?]", "?", true },
	{ "[[]", "[", true }, { "[\\]", "\\", true }, { "[\\]]", "\\]", true },
	{ "[\\]]", "]", false }, { "[é€]", "€", true }, { "[é€]", "ä", false },
	{ "[a!]", "!", true }, { "[&&a]", "&", true }, { "[a||b]", "|", true },
	{ "[a~~b]", "~", true }, { "[a--b]", "a", false }, { "x[/]y", "x/y", true },

	/* ] in front */
	{ "[]]", "]", true }, { "[]a]", "a", true }, { "[]a]", "]", true },
	{ "[]a]", "b", false }, { "[!]]", "a", true }, { "[!]]", "]", false },
	{ "[!]a]", "a", false }, { "[!]a]", "b", true }, { "[]", "[]", true },
	{ "[!]", "[!]", true }, { "[!", "[!", true }, { "[]-a]", "^", true },
	{ "[]-a]", "-", false }, { "[!]-a]", "_", false }, { "[]-]", "-", true },

	/* no end */
	{ "[", "[", true }, { "[a", "[a", true }, { "[a", "a", false },
	{ "a[", "a[", true }, { "[[a]", "[", true }, { "*[a", "x[a", true },
	{ "[!]a", "[!]a", true }, { "[a[", "[a[", true }, { "[]a", "[]a", true },

	/* ranges */
	{ "[a-c]", "b", true }, { "[a-c]", "d", false }, { "[a-c]", "-", false },
	{ "[!a-c]", "b", false }, { "[!a-c]", "-", true }, { "[a-a]", "a", true },
	{ "[a-]", "-", true }, { "[a-]", "a", true }, { "[-a]", "-", true },
	{ "[-]", "-", true }, { "[--]", "-", true }, { "[---]", "-", true },
	{ "[--0]", ".", true }, { "[--0]", "1", false }, { "[!--0]", ".", false },
	{ "[!--0]", "1", true }, { "[!-]", "-", false }, { "[!-]", "a", true },
	{ "[!-a]", "-", false }, { "[!-a]", "b", true }, { "[a-c-e]", "d", false },
	{ "[a-c-e]", "-", true }, { "[a-c-e]", "e", true }, { "[a-ce-g]", "f", true },
	{ "[a-c--e]", "-", true }, { "[+--]", ",", true }, { "[ -~]", "é", false },
	{ "[à-ÿ]", "é", true }, { "[\\-a]", "]", true }, { "[a-\\]", "b", false },
	{ "[Z-\\]", "[", true }, { "[*-/]", "/", true },

	/* empty ranges */
	{ "[b-a]", "a", false }, { "[b-a]", "b", false }, { "[b-a]", "-", false },
	{ "[!b-a]", "b", true }, { "[!b-a]", "\n", true }, { "[!b-a]", "", false },
	{ "[b-ac]", "c", true }, { "[b-ac]", "a", false }, { "[b-ac-d]", "d", true },
	{ "[cb-a]", "c", true }, { "[cb-a]", "b", false }, { "[!cb-a]", "c", false },
	{ "[!cb-a]", "b", true }, { "[b-a-c]", "-", true }, { "[b-a-c]", "c", true },
	{ "[b-a-c]", "b", false }, { "[b-a!x]", "x", false }, { "[b-a!x]", "y", true },
	{ "[b-a!]", "z", true }, { "[b-a!-x]", "!", true }, { "[b-a!-x]", "-", false },
	{ "[b-a!-x]", "x", false }, { "[b-a!-x]", "k", true }, { "[b-a!--x]", "-", false },
	{ "[b-a!-x-z]", "y", true }, { "[b-a!-x-z]", "z", false }, { "[b-a^x]", "^", true },
	{ "[b-a^x]", "a", false }, { "[]-[!a]", "a", false }, { "[]-[!a]", "b", true },
	{ "[]-[]", "]", false }, { "[é-a]", "c", false }, { "[a-é]", "z", true },
	{ "[!z-a!]", "!", false },
};

Test(engine_pattern, matches_like_pythons_fnmatch)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(pattern_matches(cases[i].pattern, cases[i].name), cases[i].matches,
			     "\"%s\", \"%s\"", cases[i].pattern, cases[i].name);
}

Test(engine_pattern, treats_pyc_as_py_only_in_file_names)
{
	static const struct {
		const char *pattern, *name;
		bool as_filename, as_text;
	} rows[] = {
		{ "a.py", "a.pyc", true, false },
		{ "a.pyc", "a.py", true, false },
		{ "a.pyc", "a.pyc", true, true },
		{ "*.pyc", "a.py", true, false },
		{ "*.py", "a.pyc", true, false },
		{ "*c", "a.pyc", false, true },
		{ ".py", ".pyc", true, false },
		{ "pyc", "py", false, false },
		{ "a.PY", "a.pyc", false, false },
		{ "a.PYC", "a.py", false, false },
		{ "a.py", "a.PYC", false, false },
		{ "a.py", "a.pyo", false, false },
		{ "a.py", "a.pycc", false, false },
		{ "a.pyc*", "a.pyc", false, true },
		{ "[a.pyc]", "y", true, true },
		{ "[a.pyc", "[a.py", true, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *pattern = rows[i].pattern, *name = rows[i].name;

		cr_expect_eq(pattern_matches_filename(pattern, name), rows[i].as_filename,
			     "\"%s\", \"%s\"", pattern, name);
		cr_expect_eq(pattern_matches(pattern, name), rows[i].as_text, "\"%s\", \"%s\"",
			     pattern, name);
	}
}

static char *repeat(const char *text, size_t nr, const char *end)
{
	size_t len = strlen(text);
	char *all = malloc(nr * len + strlen(end) + 1);

	for (size_t i = 0; i < nr; i++)
		memcpy(all + i * len, text, len);
	strcpy(all + nr * len, end);
	return all;
}

/* A backtracking matcher would need the age of the universe for these. */
Test(engine_pattern, matches_hostile_patterns_in_bounded_time)
{
	static const char *const parts[] = { "*a", "a*", "*?", "*[a-b]", "*[!b]", "[", "[!", "*[" };
	char *name = repeat("a", 5000, "x");

	limit_cpu_seconds(20);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		char *pattern = repeat(parts[i], 500, "y");

		cr_expect_not(pattern_matches(pattern, name), "%s…", parts[i]);
		free(pattern);
	}
	free(name);
}
/* NULL: the pattern is no UTF-8. */
static const struct {
	const char *pattern, *regex;
} regexes[] = {
	{ "", "^(?s:)$" },
	{ "a*", "^(?s:a\\C*)$" },
	{ "w?b-*[!0-3]", "^(?s:w.b\\x{2d}\\C*[^0-3])$" },
	{ "a[b", "^(?s:a\\x{5b}b)$" },
	{ "[]-]", "^(?s:[\\x{5d}-\\x{5d}\\x{2d}-\\x{2d}])$" },
	{ "[b-a!x]", "^(?s:[^x-x])$" },
	{ "[z-a]", "^(?s:[^\\x{0}-\\x{10ffff}])$" },
	{ "[!z-a]", "^(?s:[\\x{0}-\\x{10ffff}])$" },
	{ "ü.(", "^(?s:\\x{fc}\\x{2e}\\x{28})$" },
	{ "a\xff", NULL },
	{ "[\xff]", NULL },
};

Test(engine_pattern, is_written_as_a_regular_expression)
{
	for (size_t i = 0; i < ARRAY_SIZE(regexes); i++) {
		char *text = NULL;
		size_t len;
		FILE *out = open_memstream(&text, &len);
		int err = pattern_write_regex(regexes[i].pattern, out);

		fclose(out);
		cr_expect_eq(err, regexes[i].regex ? 0 : -EILSEQ, "%s: %d", regexes[i].pattern, err);
		if (regexes[i].regex)
			cr_expect_str_eq(text, regexes[i].regex, "%s: %s", regexes[i].pattern, text);
		free(text);
	}
	cr_expect(pattern_is_plain("a[b") && pattern_is_plain("") && !pattern_is_plain("a[b]"));
}
