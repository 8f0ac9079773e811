// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Exceptions wherever there can be some: out of constructors, of arrays half made, out of a sort,
 * through a dozen frames with things to destroy, thrown again, one as the cause of another, kept
 * for later, and operator new's own. "exceptions ROUNDS" ends by itself, with how many it caught.
 */
#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <cstdio>
#include <cstdlib>

static long caught;

struct Wrong : std::runtime_error {
	std::vector<std::string> details;

	explicit Wrong(int depth) : std::runtime_error("wrong " + std::to_string(depth))
	{
		details.assign(depth % 7 + 1, std::string(37, 'x'));
	}
};

static void descend(int depth)
{
	std::string held(41 + depth, 'h');
	auto kept = std::make_unique<std::vector<int>>(53);

	if (!depth)
		throw Wrong(int(held.size()));
	descend(depth - 1);
}

static void throw_again(int depth)
{
	try {
		descend(depth);
	} catch (const Wrong &wrong) {
		std::string note = wrong.what() + std::string(59, 'n');

		caught++;
		if (depth % 2)
			throw;
		std::throw_with_nested(std::logic_error(note));
	}
}

static void look_inside(const std::exception &outer)
{
	try {
		std::rethrow_if_nested(outer);
	} catch (const std::exception &inner) {
		caught++;
		look_inside(inner);
	}
}

/* The 7th object throws: the earlier ones are destroyed, and the array is freed. */
struct Part {
	static int made;
	std::string name = std::string(61, 'p');

	Part()
	{
		if (++made % 7 == 0)
			throw Wrong(made % 13);
	}
};
int Part::made;

static void make_parts()
{
	std::unique_ptr<Part[]> parts(new Part[11]);
}

static void ask_for_too_much()
{
	static volatile size_t huge = SIZE_MAX / 4;

	::operator delete(::operator new(huge));
}

static void sort_badly()
{
	std::vector<std::string> words;
	int left = 67;

	for (int i = 0; i < 71; i++)
		words.push_back(std::string(31 + i * 37 % 71, char('a' + i % 26)));
	std::sort(words.begin(), words.end(), [&](const auto &a, const auto &b) {
		if (!--left)
			throw Wrong(3);
		return a < b;
	});
}

static std::exception_ptr for_later(int depth)
{
	try {
		descend(depth);
	} catch (...) {
		caught++;
		return std::current_exception();
	}
	return nullptr;
}

static void expect(const std::function<void()> &what)
{
	try {
		what();
		std::abort();
	} catch (const std::exception &error) {
		caught++;
		look_inside(error);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
	std::vector<std::exception_ptr> kept;

	for (int i = 0; i < rounds; i++) {
		expect([=] { throw_again(i % 13); });
		expect(make_parts);
		expect(ask_for_too_much);
		expect(sort_badly);
		kept.push_back(for_later(i % 5));
		if (kept.size() == 29) {
			expect([&] { std::rethrow_exception(kept[i % 29]); });
			kept.clear();
		}
	}
	std::printf("caught %ld\n", caught);
	return 0;
}
