/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_GOLDEN_MAKE_CXX_H
#define ALLOCSNAP_GOLDEN_MAKE_CXX_H

/* cxx.snap: a C++ program with containers, templates and overloads. */

#include "make.h"

#define CXX_STRING "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >"
#define CXX_STRINGS "std::vector<" CXX_STRING ", std::allocator<" CXX_STRING " > >"

struct cxx_frames {
	uint32_t malloc, new, allocate, insert, root, call_main, start;
};

static struct cxx_frames cxx_frames(struct make *m)
{
	return (struct cxx_frames){
		.malloc = place(m, "malloc", "/usr/lib/libc.so.6", 0x98110),
		.new = place(m, "operator new(unsigned long)", "/usr/lib/libstdc++.so.6", 0xaa110),
		.allocate = line(m, "std::__new_allocator<" CXX_STRING " >::allocate(unsigned long, void const*)",
				 "/usr/include/c++/12/bits/new_allocator.h", 137),
		.insert = line(m, "void " CXX_STRINGS "::_M_realloc_insert<" CXX_STRING " const&>(__gnu_cxx::"
				  "__normal_iterator<" CXX_STRING "*, " CXX_STRINGS " >, " CXX_STRING " const&)",
			       "/usr/include/c++/12/bits/vector.tcc", 465),
		.root = line(m, "main", "/home/me/shop/src/main.cc", 80),
		.call_main = place(m, "__libc_start_call_main", "/usr/lib/libc.so.6", 0x27240),
		.start = line(m, "_start", "../sysdeps/x86_64/start.S", 115),
	};
}

static void make_cxx(struct make *m)
{
	const struct cxx_frames f = cxx_frames(m);
	uint32_t add = line(m, "shop::Cart::add(" CXX_STRING " const&)", "/home/me/shop/src/cart.cc", 31);
	uint32_t add_number = line(m, "shop::Cart::add(int)", "/home/me/shop/src/cart.cc", 40);
	uint32_t fill = line(m, "void shop::fill<std::map<" CXX_STRING ", int, std::less<" CXX_STRING " >, "
			     "std::allocator<std::pair<" CXX_STRING " const, int> > > >(int)",
			     "/home/me/shop/lib/fill.h", 12);
	char function[32];

	blocks(m, TRACEBACK(m, 0, f.malloc, f.new, f.allocate, f.insert, add, f.root, f.call_main, f.start), 4096, 9, 0);
	blocks(m, TRACEBACK(m, 0, f.malloc, f.new, add_number, f.root, f.call_main, f.start), 300, 2, 0);
	blocks(m, TRACEBACK(m, 0, f.malloc, f.new, fill, f.root, f.call_main, f.start), 200, 3, 0);
	for (int i = 1; i <= 3; i++) {
		snprintf(function, sizeof(function), "Codec<%d>::decode()", i);
		blocks(m, TRACEBACK(m, 0, f.malloc, f.new, line(m, function, "/home/me/shop/src/codec.cc", 7), f.root,
				    f.call_main, f.start), 1000 + i, 1, 0);
	}
	blocks(m, TRACEBACK(m, 0, f.malloc, f.new, f.call_main, f.start), 7, 1, 0);
}

#endif
