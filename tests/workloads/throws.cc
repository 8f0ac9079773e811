// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * operator new that throws: when it finds no memory, and when its handler throws. If an allocator with an
 * operator new of its own is preloaded, the exception leaves a probed function; a hijacked return address
 * would stop the exception there, and end the program.
 *
 *	go N    N rounds; answers with the number of caught exceptions, and the live blocks
 *	free    frees all blocks, with sizes and alignments
 *	quit
 */
#include <cstdint>
#include <new>
#include <stdexcept>

#include "workload.h"

#define KEPT_MAX 4096
#define KEPT_SIZE 83

static volatile size_t huge = SIZE_MAX / 4;
static void *kept[KEPT_MAX]; /* every second one is aligned */
static long kept_nr, caught;

SITE static void keep()
{
	if (kept_nr == KEPT_MAX)
		abort();
	kept[kept_nr++] = operator new(KEPT_SIZE);
}

SITE static void keep_aligned()
{
	kept[kept_nr++] = operator new(KEPT_SIZE, std::align_val_t(64));
}

static void free_all()
{
	while (kept_nr)
		if (--kept_nr % 2)
			operator delete(kept[kept_nr], size_t(KEPT_SIZE), std::align_val_t(64));
		else
			operator delete(kept[kept_nr], size_t(KEPT_SIZE));
}

[[noreturn]] static void throwing_handler()
{
	throw std::logic_error("a handler that throws");
}

SITE static void ask_for_too_much()
{
	try {
		operator delete(operator new(huge));
	} catch (const std::exception &) {
		caught++;
	}
}

SITE static void ask_for_too_large_an_array()
{
	try {
		operator delete[](operator new[](huge, std::align_val_t(64)), std::align_val_t(64));
	} catch (const std::exception &) {
		caught++;
	}
}

static void go(long rounds)
{
	for (long i = 0; i < rounds; i++) {
		std::set_new_handler(i % 3 ? nullptr : throwing_handler);
		keep();
		ask_for_too_much();
		keep_aligned();
		ask_for_too_large_an_array();
	}
}

int main()
{
	ready();
	for (;;) {
		const char *command = next_command();
		long rounds;

		if (!strcmp(command, "free"))
			free_all();
		else if (sscanf(command, "go %ld", &rounds) == 1)
			go(rounds);
		else
			return 0;
		answer("{\"done\": {\"caught\": %ld, \"count\": %ld, \"size\": %ld}}", caught, kept_nr,
		       kept_nr * KEPT_SIZE);
	}
}
