// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* write_metrics FILE: writes the metrics of a recorder, with names that are hard to write. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "record/metrics.h"

#define PROCESS_NR 1200

static const char *const hard[] = {
	"", "a b", "\"", "\\", "a\"b\\c", "\\n", "a\nb", "\t", "{pid=\"1\"}", "} 1", "# HELP", "\xff\xfe",
	"\xc3\xa4\xe2\x82\xac", "\033[1m", "a,b=c", "\\\"",
};

int main(int argc, char **argv)
{
	static struct metrics_process process[PROCESS_NR];
	static const struct metrics_named loss[] = {
		{ "blocks_dropped", 0 }, { "tracebacks_guessed", UINT64_MAX },
	};
	static const struct metrics_named traps[] = { { "entry", 7 }, { "return", 8 } };
	const struct metrics metrics = {
		.began_ns = 1795391728000000005, .last_pass_ns = 1795391788123456789,
		.process_now_nr = PROCESS_NR, .process_all_nr = PROCESS_NR + 1,
		.allocations = UINT64_MAX, .frees = 3, .cpu_ns = 1, .cost_ns = 999999999,
		.loss = loss, .loss_nr = ARRAY_SIZE(loss),
		.bystander_traps = traps, .bystander_traps_nr = ARRAY_SIZE(traps),
		.bystander_ns = 12345678901, .snapshots_written = 10000, .disk_bytes = 1ull << 40,
		.disk_most_bytes = 1ull << 41, .drain_nr = 2, .drain_ns = 1000000000,
		.process = process, .process_nr = PROCESS_NR,
	};
	struct reason why = {};

	for (int i = 0; i < PROCESS_NR; i++)
		process[i] = (struct metrics_process){
			.pid = i % (PROCESS_NR - 10) + 1, .comm = hard[i % ARRAY_SIZE(hard)],
			.traced_bytes = i, .traced_blocks = 2 * i, .peak_bytes = 3 * i,
			.cpu_ns = 1000000000ull * i, .cost_ns = i,
		};
	if (argc == 2 && !metrics__write(argv[1], &metrics, &why))
		return 0;
	fprintf(stderr, "write_metrics: %s\n", argc == 2 ? why.text : "which file?");
	return 1;
}
