// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * compare LEDGER SNAPSHOT: compares both, block by block, and prints one JSON object. The program must stand still or
 * have ended. If it was stopped inside allocator calls, one side may be ahead of the other by the blocks of these
 * calls and by no others: they are counted apart, as explained.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ledger.h"
#include "snapshot.h"

#define EXAMPLES_MAX 10

struct difference {
	uint64_t count;
	uint64_t explained; /* of these, by calls in flight */
};

struct comparison {
	const struct account *account;
	const struct snapshot *snapshot;
	uint64_t same_nr;
	struct difference only_ledger, only_snapshot, other_size;
	char example[EXAMPLES_MAX][256];
	unsigned int example_nr;
};

static const struct account *open_ledger(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	const struct account *account = MAP_FAILED;
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st) && st.st_size > (off_t)sizeof(*account))
		account = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (account == MAP_FAILED || account->magic != LEDGER_MAGIC) {
		fprintf(stderr, "%s: not a ledger\n", path);
		exit(1);
	}
	close(fd);
	return account;
}

static unsigned int in_flight_nr(const struct account *account)
{
	unsigned int nr = 0;

	for (uint64_t i = 0; i < account->threads; i++)
		nr += account->call[i].is_inside;
	return nr;
}

static bool is_in_flight(const struct account *account, uint64_t address)
{
	for (uint64_t i = 0; i < account->threads; i++) {
		const struct ledger_call *call = &account->call[i];

		if (call->is_inside && (call->pointer == address || call->result == address))
			return true;
	}
	return false;
}

static struct snap_trace trace_at(const struct snapshot *snapshot, uint64_t i)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	return (struct snap_trace){
		.size = tables->trace_size[i],
		.birth_ns = tables->trace_birth_ns[i],
		.address = tables->trace_address[i],
		.traceback = tables->trace_traceback[i],
		.thread = tables->trace_thread[i],
	};
}

static const char *direct_caller(const struct comparison *comparison, const struct snap_trace *trace)
{
	const struct snapshot_tables *tables = snapshot__tables(comparison->snapshot);
	const struct snap_traceback *traceback = &tables->traceback[trace->traceback];
	uint32_t frame;

	if (!traceback->nframe)
		return "";
	frame = tables->traceback_frame[traceback->first];
	return snapshot__string(comparison->snapshot, tables->frame[frame].function);
}

static void differ(struct comparison *comparison, struct difference *difference, const char *what,
		   uint64_t address, uint64_t size, const struct snap_trace *trace)
{
	difference->count++;
	if (is_in_flight(comparison->account, address)) {
		difference->explained++;
		return;
	}
	if (comparison->example_nr == EXAMPLES_MAX)
		return;
	snprintf(comparison->example[comparison->example_nr++], sizeof(comparison->example[0]),
		 "%s: 0x%" PRIx64 " of %" PRIu64 " bytes, thread %" PRIu32 ", born %" PRIu64 " %.100s",
		 what, address, size, trace ? trace->thread : 0, trace ? trace->birth_ns : 0,
		 trace ? direct_caller(comparison, trace) : "");
}

/* Looks up every trace in the ledger, and marks the found blocks. */
static void look_up_traces(struct comparison *comparison, bool *is_traced)
{
	const struct account *account = comparison->account;
	uint64_t nr = snapshot__tables(comparison->snapshot)->trace_nr;

	for (uint64_t i = 0; i < nr; i++) {
		struct snap_trace trace = trace_at(comparison->snapshot, i);
		uint64_t at = ledger_find(account, trace.address);

		if (!account->block[at].address) {
			differ(comparison, &comparison->only_snapshot, "only in the snapshot",
			       trace.address, trace.size, &trace);
			continue;
		}
		is_traced[at] = true;
		if (account->block[at].size != trace.size)
			differ(comparison, &comparison->other_size, "of another size in the ledger",
			       trace.address, trace.size, &trace);
		else
			comparison->same_nr++;
	}
}

static void look_up_blocks(struct comparison *comparison, const bool *is_traced)
{
	const struct account *account = comparison->account;

	for (uint64_t at = 0; at < account->slot_nr; at++)
		if (account->block[at].address && !is_traced[at])
			differ(comparison, &comparison->only_ledger, "only in the ledger",
			       account->block[at].address, account->block[at].size, NULL);
}

static void print_difference(const char *name, const struct difference *difference)
{
	printf("\"%s\": {\"count\": %" PRIu64 ", \"explained\": %" PRIu64 "}, ", name,
	       difference->count, difference->explained);
}

static void print_counters(const struct snapshot *snapshot, enum snap_counter_kind kind)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const char *comma = "";

	for (uint32_t i = 0; i < tables->counter_nr; i++) {
		const struct snap_counter *counter = &tables->counter[i];

		if (counter->kind != kind)
			continue;
		printf("%s\"%s\": %" PRIu64, comma, snapshot__string(snapshot, counter->name),
		       counter->value);
		comma = ", ";
	}
}

static void print(const struct comparison *comparison)
{
	const struct account *account = comparison->account;

	printf("{\"ledger\": {");
#define X(name) printf("\"" #name "\": %" PRIu64 ", ", account->name);
	LEDGER_COUNTERS(X)
#undef X
	printf("\"pid\": %u}, \"snapshot\": {", account->pid);
	print_counters(comparison->snapshot, SNAP_COUNTED);
	printf("}, \"losses\": {");
	print_counters(comparison->snapshot, SNAP_LOST);
	printf("}, \"blocks\": %" PRIu64 ", \"same\": %" PRIu64 ", ",
	       snapshot__tables(comparison->snapshot)->trace_nr, comparison->same_nr);
	print_difference("only_ledger", &comparison->only_ledger);
	print_difference("only_snapshot", &comparison->only_snapshot);
	print_difference("other_size", &comparison->other_size);
	printf("\"in_flight\": %u, \"examples\": [", in_flight_nr(account));
	for (unsigned int i = 0; i < comparison->example_nr; i++)
		printf("%s\"%s\"", i ? ", " : "", comparison->example[i]);
	printf("]}\n");
}

int main(int argc, char **argv)
{
	static struct comparison comparison;
	struct reason why = {};
	bool *is_traced;

	if (argc != 3) {
		fprintf(stderr, "compare LEDGER SNAPSHOT\n");
		return 2;
	}
	comparison.account = open_ledger(argv[1]);
	comparison.snapshot = snapshot__open(argv[2], &why);
	is_traced = calloc(comparison.account->slot_nr, sizeof(*is_traced));
	if (!comparison.snapshot || !is_traced) {
		fprintf(stderr, "compare: %s\n", why.text);
		return 1;
	}
	look_up_traces(&comparison, is_traced);
	look_up_blocks(&comparison, is_traced);
	print(&comparison);
	return 0;
}
