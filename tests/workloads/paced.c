// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * paced: allocates at given rates, and keeps a ledger of what stays. Commands:
 *	pace MS PAIRS KEPT   for MS milliseconds PAIRS pairs of malloc and free a second, and KEPT blocks a second of
 *	                     each of three places that stay; PAIRS -1: as many as there is time for
 *	ledger               {"row": NAME, "count": N, "size": BYTES OF ONE} of each place, then {"done": …}
 *	drop                 frees what stays
 *	quit, …              as in workload.h
 */
#include <stdint.h>
#include <time.h>

#include "workload.h"

#define KEPT_MAX 200000

struct place {
	const char *name;
	void *(*take)(void);
	size_t bytes;
	void *kept[KEPT_MAX];
	long nr;
};

SITE static void *keep_small(void)
{
	return malloc(60);
}

SITE static void *keep_medium(void)
{
	return malloc(700);
}

SITE static void *keep_grown(void)
{
	return realloc(malloc(16), 250);
}

static struct place places[] = {
	{ "keep_small", keep_small, 60, {}, 0 }, { "keep_medium", keep_medium, 700, {}, 0 },
	{ "keep_grown", keep_grown, 250, {}, 0 },
};
#define PLACES (sizeof(places) / sizeof(*places))

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

SITE static void make_pairs(long nr)
{
	void *volatile own;

	for (long i = 0; i < nr; i++) {
		own = malloc(100);
		free(own);
	}
}

static void keep_more(long upto)
{
	for (size_t i = 0; i < PLACES; i++)
		while (places[i].nr < upto && places[i].nr < KEPT_MAX)
			places[i].kept[places[i].nr++] = places[i].take();
}

/* Catches up with the clock each millisecond. */
static void pace(const char *command)
{
	double begin = seconds(), passed = 0, ms = 0;
	long pairs = 0, kept = 0, made = 0, before = places[0].nr;

	sscanf(command, "pace %lf %ld %ld", &ms, &pairs, &kept);
	while (passed < ms / 1000) {
		long due = pairs < 0 ? 1000 : (long)(passed * pairs) - made;

		make_pairs(due);
		made += due;
		keep_more(before + (long)(passed * kept));
		if (pairs >= 0)
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		passed = seconds() - begin;
	}
	answer("{\"done\": {\"pairs\": %ld, \"kept\": %ld}}", made, places[0].nr);
}

static void tell_ledger(void)
{
	for (size_t i = 0; i < PLACES; i++)
		answer("{\"row\": \"%s\", \"count\": %ld, \"size\": %zu}", places[i].name, places[i].nr,
		       places[i].bytes);
	answer("{\"done\": true}");
}

static void drop_kept(void)
{
	for (size_t i = 0; i < PLACES; i++)
		while (places[i].nr)
			free(places[i].kept[--places[i].nr]);
	answer("{\"done\": true}");
}

int main(void)
{
	const char *command;

	ready();
	while (strcmp(command = next_command(), "quit")) {
		end_at_once(command);
		if (!strncmp(command, "pace ", 5))
			pace(command);
		else if (!strcmp(command, "ledger"))
			tell_ledger();
		else if (!strcmp(command, "drop"))
			drop_kept();
	}
	return 0;
}
