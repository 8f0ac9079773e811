// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * take_instants PROGRAM SNAPSHOTS: runs and records tests/workloads/instants.c at its full speed, and
 * checks for each of many snapshots that the program was in that state at one instant. Prints
 * {"snapshots": …, "violations": …, "doubled": …, "blocks": of the last one}; the first violations
 * on stderr. For every fourth snapshot the program is stopped: then calls stay unfinished for as long as
 * the snapshot takes.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocsnap.h"
#include "collect.h"
#include "../workloads/instants.h"

/* The blocks of one snapshot: how many there are of each worker, slot and generation. */
struct set {
	unsigned int nr[WORKERS][SLOTS][GENERATIONS];
	unsigned int ballast;
};

static void read_set(const struct snapshot *snapshot, struct set *set)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	memset(set, 0, sizeof(*set));
	for (uint64_t i = 0; i < tables->trace_nr; i++) {
		uint64_t size = snapshot__trace(snapshot, i).size;

		if (size == BALLAST_BYTES)
			set->ballast++;
		else if (size - FIRST_BYTES < WORKERS * SLOTS * GENERATIONS)
			(&set->nr[0][0][0])[size - FIRST_BYTES]++;
	}
}

/* Slot `at` is being lifted from generation g to g + 1: a slot may hold blocks of these two generations only. */
static bool is_possible(const unsigned int *nr, int slot, int at, int g)
{
	unsigned int old = nr[g], new = nr[(g + 1) % GENERATIONS], others = 0;

	for (int i = 0; i < GENERATIONS; i++)
		others += nr[i];
	if (others != old + new || old > 1 || new > 1)
		return false;
	if (slot > at)
		return old && !new;
	if (slot < at)
		return new && (!old || WAY_OF(slot) == WAY_FREE_ELSEWHERE);
	return WAY_OF(slot) == WAY_REALLOC ? old + new == 1 : old + new >= 1;
}

static bool was_instant(unsigned int (*nr)[GENERATIONS], int at, int g)
{
	for (int slot = 0; slot < SLOTS; slot++)
		if (!is_possible(nr[slot], slot, at, g))
			return false;
	return true;
}

static bool was_any_instant(unsigned int (*nr)[GENERATIONS])
{
	for (int g = 0; g < GENERATIONS; g++)
		for (int at = 0; at < SLOTS; at++)
			if (was_instant(nr, at, g))
				return true;
	return false;
}

static void show(unsigned int (*nr)[GENERATIONS])
{
	for (int slot = 0; slot < SLOTS; slot++) {
		for (int g = 0; g < GENERATIONS; g++)
			for (unsigned int i = 0; i < nr[slot][g]; i++)
				fprintf(stderr, "%d", g);
		fputc(slot + 1 < SLOTS ? ' ' : '\n', stderr);
	}
}

#define SHOWN_MAX 5

static unsigned int count_violations(struct set *set)
{
	static unsigned int shown;
	unsigned int violations = set->ballast != BALLAST;

	for (int worker = 0; worker < WORKERS; worker++) {
		if (was_any_instant(set->nr[worker]))
			continue;
		violations++;
		if (shown++ < SHOWN_MAX)
			show(set->nr[worker]);
	}
	return violations;
}

static int ascending(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

/* Two blocks at one address. */
static unsigned int count_doubled(const struct snapshot *snapshot)
{
	uint64_t nr = snapshot__tables(snapshot)->trace_nr;
	uint64_t *address = calloc(nr + 1, sizeof(*address));
	unsigned int doubled = 0;

	if (!address)
		abort();
	for (uint64_t i = 0; i < nr; i++)
		address[i] = snapshot__trace(snapshot, i).address;
	qsort(address, nr, sizeof(*address), ascending);
	for (uint64_t i = 1; i < nr; i++)
		doubled += address[i] == address[i - 1];
	free(address);
	return doubled;
}

static pid_t run(struct collector *collector, const char *program, int *ret_stdin, int *ret_stdout)
{
	const char *argv[] = { program, NULL };
	int in[2], out[2], saved_in = dup(STDIN_FILENO), saved_out = dup(STDOUT_FILENO);
	struct reason why = { "" };
	pid_t pid = -1;

	if (pipe(in) || pipe(out))
		exit(1);
	dup2(in[0], STDIN_FILENO);
	dup2(out[1], STDOUT_FILENO);
	if (collector__run(collector, argv, &pid, &why)) {
		fprintf(stderr, "take_instants: %s\n", why.text);
		exit(1);
	}
	dup2(saved_in, STDIN_FILENO);
	dup2(saved_out, STDOUT_FILENO);
	*ret_stdin = in[1];
	*ret_stdout = out[0];
	return pid;
}

/* Past "ready" and "done". */
static void wait_for_begin(int from)
{
	int lines = 0;
	char byte;

	while (lines < 2 && read(from, &byte, 1) == 1)
		lines += byte == '\n';
}

static void hold(pid_t pid, bool is_held)
{
	int status;

	kill(pid, is_held ? SIGSTOP : SIGCONT);
	if (is_held && waitpid(pid, &status, WUNTRACED) != pid)
		abort();
}

static struct snapshot *take(struct collector *collector, pid_t pid, bool is_held)
{
	struct reason why = { "" };
	struct snapshot *snapshot = NULL;

	if (is_held)
		hold(pid, true);
	if (collector__take_snapshot(collector, pid, &snapshot, &why))
		fprintf(stderr, "take_instants: %s\n", why.text);
	if (is_held)
		hold(pid, false);
	return snapshot;
}

int main(int argc, char **argv)
{
	struct collector *collector = collector__open(NULL, NULL);
	unsigned int violations = 0, doubled = 0, nr = 0, wanted;
	struct set set = { 0 };
	uint64_t blocks = 0;
	int to, from;
	pid_t pid;

	if (argc != 3 || !collector)
		return 2;
	wanted = atoi(argv[2]);
	pid = run(collector, argv[1], &to, &from);
	if (write(to, "go\n", 3) != 3)
		return 1;
	wait_for_begin(from);
	for (; nr < wanted; nr++) {
		struct snapshot *snapshot = take(collector, pid, nr % 4 == 3);

		if (!snapshot)
			break;
		read_set(snapshot, &set);
		violations += count_violations(&set);
		doubled += count_doubled(snapshot);
		blocks = snapshot__tables(snapshot)->trace_nr;
		snapshot__close(snapshot);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	collector__close(collector);
	printf("{\"snapshots\": %u, \"violations\": %u, \"doubled\": %u, \"blocks\": %" PRIu64 "}\n", nr,
	       violations, doubled, blocks);
	return 0;
}
