// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Keeps data in containers, and ends by an uncaught exception: std::terminate. */
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "workload.h"

#define BLOCKS 401
#define BLOCK_SIZE 4099

SITE static char *get_block()
{
	return static_cast<char *>(malloc(BLOCK_SIZE));
}

int main()
{
	std::vector<char *> blocks;
	std::map<int, std::string> names;

	ready();
	next_command();
	for (int i = 0; i < BLOCKS; i++) {
		blocks.push_back(get_block());
		names[i] = std::string(97, 'n');
	}
	throw std::runtime_error("nobody catches this");
}
