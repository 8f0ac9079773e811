// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * 64 instances of one template, each allocating in the same line; containers and strings that allocate for their
 * caller. The lines are marked for the test.
 */
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "workload.h"

#define CODECS 64

template <int N> struct Codec {
	char *buffer;

	SITE void decode()
	{
		buffer = new char[1000 + N]; // decode
	}
};

template <int... N> SITE static void decode_all(std::integer_sequence<int, N...>)
{
	(Codec<N>().decode(), ...);
}

struct Catalogue {
	std::vector<std::string> names;
	std::map<std::string, std::vector<int>> prices;

	SITE void add(const std::string &name)
	{
		names.push_back(name);			      // names
		prices[name].push_back(7);		      // prices
	}
};

static Catalogue catalogue;

int main()
{
	ready();
	while (!strcmp(next_command(), "go")) {
		decode_all(std::make_integer_sequence<int, CODECS>());
		for (int i = 0; i < 1000; i++)
			catalogue.add("a name too long for a small string, number " + std::to_string(i)); // caller
		answer("{\"done\": {\"codecs\": %d}}", CODECS);
	}
	return 0;
}
