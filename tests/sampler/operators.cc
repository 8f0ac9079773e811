// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// C++'s operators come to the library by way of malloc and free, or are the library's own. Environment: NO_THROW, if the
// allocator's operator new does not throw.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <string>

extern "C" {
#define _Static_assert static_assert
#define _Atomic
#include "trap.h"
}

struct plain {
	char byte[256];
};

struct alignas(128) wide {
	char byte[256];
};

static int failures;

// The events since the last call are `allocs` allocations and `frees` frees, in any order.
static void expect(const char *what, int allocs, int frees)
{
	int told_allocs = 0;

	for (int i = 0; i < seen.nr && i < EVENTS_MAX; i++)
		told_allocs += seen.event[i].is_alloc;
	if (told_allocs != allocs || seen.nr - told_allocs != frees) {
		std::fprintf(stderr, "operators: %s: %d and %d events\n", what, told_allocs, seen.nr - told_allocs);
		failures++;
	}
	seen.nr = 0;
}

static void (*volatile keep)(void *) = [](void *) {};

template <typename T> static void check_one(const char *what)
{
	T *one = new T;
	keep(one);
	expect(what, 1, 0);
	delete one;
	expect(what, 0, 1);
	T *many = new (std::nothrow) T[3];
	keep(many);
	expect(what, 1, 0);
	delete[] many;
	expect(what, 0, 1);
}

int main()
{
	trap_find_library();
	trap_listen();
	seen.nr = 0;
	check_one<plain>("plain");
	check_one<std::string>("std::string");
	check_one<wide>("wide");
	{
		std::string text(1000, 'x');
		expect("text", 1, 0);
		std::map<long, std::string> map = { { 1, text } };
		expect("map", 3, 1); // the list's copy, the node and its text
	}
	expect("the end", 0, 3);
	if (!std::getenv("NO_THROW")) {
		try {
			keep(::operator new((std::size_t)1 << 62));
			failures++;
		} catch (const std::bad_alloc &) {
		}
		seen.nr = 0; // the exception itself was a block
		check_one<plain>("after an exception");
	}
	trap_stop_listening();
	std::printf("operators: %d failed\n", failures);
	return failures != 0;
}
