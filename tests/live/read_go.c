// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * read_go PID TIMES: reads the heap profile of a running Go program, and prints the last reading: a line "go VERSION RATE WALKS"
 * and for each bucket "SIZE ALLOCATIONS FREES NOW_ALLOCATIONS NOW_FREES PC…", where the first two counts are of `active`.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "go/go_profile.h"
#include "process/proc.h"
#include "symbols/go_program.h"

struct process {
	pid_t pid;
	int pages;
};

static int read_of_process(void *process, uint64_t address, void *to, size_t bytes)
{
	const struct iovec into = { to, bytes }, from = { (void *)address, bytes };

	return process_vm_readv(((struct process *)process)->pid, &into, 1, &from, 1, 0) == (ssize_t)bytes ? 0 : -1;
}

static int entries_of_process(void *process, uint64_t address, uint64_t *entry, size_t nr)
{
	ssize_t bytes = nr * sizeof(*entry);

	return pread(((struct process *)process)->pages, entry, bytes, address / 4096 * sizeof(*entry)) == bytes ? 0 : -1;
}

static int open_of(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return open(path, O_RDONLY);
}

/* The address of the code that lies in the file at an offset. */
static uint64_t address_of(pid_t pid, uint64_t offset)
{
	char *text = proc_text(pid, "maps"), *rest = text, *line;
	struct maps_line parsed;
	uint64_t address = 0;

	while (!address && (line = strsep(&rest, "\n")))
		if (maps_parse_line(line, &parsed) && parsed.perms[2] == 'x' && parsed.inode && offset >= parsed.offset &&
		    offset - parsed.offset < parsed.end - parsed.start)
			address = parsed.start + offset - parsed.offset;
	free(text);
	return address;
}

static void print_profile(const struct go_profile *profile)
{
	for (size_t i = 0; i < profile->bucket_nr; i++) {
		const struct go_bucket *bucket = &profile->bucket[i];

		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, bucket->size, bucket->active.allocations,
		       bucket->active.frees, bucket->now.allocations, bucket->now.frees);
		for (uint32_t k = 0; k < bucket->nframe; k++)
			printf(" %" PRIx64, profile->pc[bucket->first + k]);
		putchar('\n');
	}
}

int main(int, char **argv)
{
	struct process process = { atoi(argv[1]), open_of(atoi(argv[1]), "pagemap") };
	const struct go_memory memory = { read_of_process, entries_of_process, &process };
	struct go_profile profile = {};
	struct go_program program = {};
	struct reason why = {};
	uint64_t bias, mbuckets, rate = 0;
	int err = go_program_read(open_of(process.pid, "exe"), &program, &why);

	bias = err ? 0 : address_of(process.pid, program.code_offset) - program.code.start;
	const struct go_places places = { program.code.start + bias, program.code.end + bias, {
		{ program.zeroed[0].start + bias, program.zeroed[0].end + bias },
		{ program.zeroed[1].start + bias, program.zeroed[1].end + bias },
	} };
	err = err ?: go_profile_find(&memory, &places, &mbuckets);
	for (int i = 0; i < atoi(argv[2]) && !err; i++)
		err = go_profile_read(&memory, &places, mbuckets, &profile, &why);
	if (err) {
		fprintf(stderr, "%d: %s\n", err, why.text);
		return 1;
	}
	if (program.rate)
		read_of_process(&process, program.rate + bias, &rate, sizeof(rate));
	printf("go %s %" PRIu64 " %" PRIu32 "\n", program.version, rate, profile.walk_nr);
	print_profile(&profile);
	return 0;
}
