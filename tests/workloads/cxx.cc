// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * operator new, templates, containers and exceptions; cxx_new.cc is the same program with an
 * operator new of its own.
 */
#include <stdexcept>
#include <string>
#include <vector>

#include "workload.h"

namespace shop {

struct Item {
	char bytes[131];
};

template <typename T> struct Shelf {
	T *place;

	SITE void fill(size_t count)
	{
		place = new T[count];
	}
};

static Item *item[97];
static Shelf<int> numbers[13];
static Shelf<Item> items[3];
static std::vector<std::string> *names;

SITE Item *stock()
{
	return new Item;
}

SITE void discard()
{
	delete new Item;
}

SITE void name_things()
{
	names = new std::vector<std::string>;
	for (int i = 0; i < 41; i++)
		names->push_back(std::string(101, 'x'));
}

SITE int refuse(int i)
{
	if (i >= 0)
		throw std::runtime_error("a reason that is too long for a small string");
	return i;
}

SITE void open_day()
{
	for (Item *&place : item)
		place = stock();
	for (Shelf<int> &shelf : numbers)
		shelf.fill(53);
	for (Shelf<Item> &shelf : items)
		shelf.fill(7);
	for (int i = 0; i < 59; i++)
		discard();
	name_things();
	for (int i = 0; i < 211; i++) {
		try {
			refuse(i);
		} catch (const std::runtime_error &) {
			continue;
		}
	}
}

}

int main()
{
	ready();
	while (!strcmp(next_command(), "go")) {
		shop::open_day();
		answer("{\"done\": {\"items\": %zu, \"item_size\": %zu}}",
		       sizeof(shop::item) / sizeof(shop::item[0]), sizeof(shop::Item));
	}
	return 0;
}
