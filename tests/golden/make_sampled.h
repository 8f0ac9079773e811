/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_GOLDEN_MAKE_SAMPLED_H
#define ALLOCSNAP_GOLDEN_MAKE_SAMPLED_H

/* Snapshots of samples, and with gaps. The weights belong to 1 sample in 512 KiB. */

#include "make.h"

#define SECOND_NS 1000000000ull

/* Two snapshots that have a sample of the same number have the same block. */
static void samples(struct make *m, uint32_t traceback, uint64_t size, double weight,
		    unsigned int first, unsigned int nr)
{
	for (unsigned int i = first; i < first + nr; i++) {
		struct snap_trace row = {
			.size = size, .traceback = traceback, .birth_ns = (10 + i) * SECOND_NS,
			.address = 0x7f0000000000 + 0x100000000 * traceback + 0x10000 * i,
			.thread = 4711, .weight = weight,
		};

		must(snapshot_builder__trace(m->builder, &row), "sample");
	}
}

static void sampled_metadata(struct make *m, const char *monotonic_ns)
{
	metadata(m, "boot_id", "4be9d1a0-5cbb-4f0b-8a3e-0d1d7d4f2a11");
	metadata(m, "pid", "4711");
	metadata(m, "start_time_ticks", "8800");
	metadata(m, "comm", "shopd");
	metadata(m, "recording_start_monotonic_ns", "5000000000");
	metadata(m, "monotonic_ns", monotonic_ns);
	metadata(m, "sample_bytes", "524288");
	metadata(m, "rss_bytes", "83990938");
}

static void make_sampled_old(struct make *m)
{
	const struct snap_churn churn = { 400000, 25600000, 40000, 2560000 };
	uint32_t root, cart;

	begin(m, SNAP_WITH_ALL | SNAP_WITH_WEIGHT | SNAP_WITH_CHURN);
	root = line(m, "main", "src/main.c", 70);
	cart = TRACEBACK(m, 0, line(m, "cart_new", "src/cart.c", 31), root);
	sampled_metadata(m, "50000000000");
	samples(m, cart, 64, 8192.5000101725, 0, 35);
	must(snapshot_builder__churn(m->builder, cart, &churn), "churn");
	samples(m, TRACEBACK(m, 0, line(m, "db_row", "src/db.c", 12), root), 4096, 128.500651041, 0, 30);
	samples(m, TRACEBACK(m, 0, line(m, "cache_page", "src/cache.c", 9), root), 1 << 20, 1.1565176427, 0, 3);
	end(m, "sampled-old");
}

static void sampled_cost(struct make *m)
{
	metadata(m, "min_size", "16");
	metadata(m, "max_size", "1048576");
	metadata(m, "max_overhead_core_percent", "20");
	metadata(m, "max_overhead_percent", "20");
	metadata(m, "thinned_ns", "12500000000");
	metadata(m, "cost_ns", "1600000000");
	metadata(m, "cpu_ns", "10000000000");
	metadata(m, "cost_entry_ns", "712");
	metadata(m, "cost_stepped_ns", "9434");
	metadata(m, "cost_return_ns", "1033");
	metadata(m, "cost_is_estimated", "1");
	metadata(m, "probes_stepped", "0");
	count(m, SNAP_COUNTED, "entry_traps", 1500000);
	count(m, SNAP_COUNTED, "stepped_traps", 0);
	count(m, SNAP_COUNTED, "return_traps", 120000);
	count(m, SNAP_COUNTED, "program_ns", 400000000);
}

/* Ten carts more, five are gone; the other places are as they were; and a new one. */
static void make_sampled(struct make *m, bool has_gaps)
{
	uint32_t root;

	begin(m, SNAP_WITH_ALL | SNAP_WITH_WEIGHT);
	root = line(m, "main", "src/main.c", 70);
	sampled_metadata(m, "60000000000");
	sampled_cost(m);
	samples(m, TRACEBACK(m, 0, line(m, "cart_new", "src/cart.c", 31), root), 64, 8192.5000101725, 5, 40);
	samples(m, TRACEBACK(m, 0, line(m, "db_row", "src/db.c", 12), root), 4096, 128.500651041, 0, 30);
	samples(m, TRACEBACK(m, 0, line(m, "cache_page", "src/cache.c", 9), root), 1 << 20, 1.1565176427, 0, 3);
	samples(m, TRACEBACK(m, 0, line(m, "log_line", "src/log.c", 8), root), 16, 32768.5000025, 30, 2);
	if (has_gaps) {
		must(snapshot_builder__gap(m->builder, 20 * SECOND_NS, 21500000000), "gap");
		must(snapshot_builder__gap(m->builder, 30 * SECOND_NS, 32 * SECOND_NS), "gap");
	}
	end(m, has_gaps ? "sampled-gaps" : "sampled");
}

/* Numbers that no recording makes. */
static void make_sampled_hostile(struct make *m)
{
	begin(m, SNAP_WITH_ALL | SNAP_WITH_WEIGHT);
	metadata(m, "sample_bytes", "\033[2J");
	metadata(m, "min_size", "18446744073709551615");
	metadata(m, "max_overhead_percent", "99999999999999999999");
	metadata(m, "cost_ns", "2000000000");
	metadata(m, "cpu_ns", "1000000000");
	metadata(m, "cost_entry_ns", "-1");
	metadata(m, "probes_stepped", "12 or so");
	metadata(m, "rss_files_bytes", "4096");
	metadata(m, "rss_heap_bytes", "4096");
	count(m, SNAP_COUNTED, "entry_traps", UINT64_MAX);
	samples(m, TRACEBACK(m, 0, line(m, "main", "src/main.c", 70)), UINT64_MAX, 0x1.fffffffffffffp1023, 0, 2);
	must(snapshot_builder__gap(m->builder, 0, UINT64_MAX), "gap");
	end(m, "sampled-hostile");
}

/* Samples that the process took itself, one in 64 KiB as its user chose, and one in `most` where those were too many. The
 * file without `most` is as before samplers had kinds. */
static void make_own_samples(struct make *m, const char *monotonic_ns, const char *now, const char *most, const char *name)
{
	uint32_t root;

	begin(m, SNAP_WITH_ALL | SNAP_WITH_WEIGHT);
	root = line(m, "main", "src/main.c", 70);
	metadata(m, "pid", "4711");
	metadata(m, "monotonic_ns", monotonic_ns);
	metadata(m, "sampler", "/usr/lib/allocsnap/liballocsnap-sampler.so");
	if (most)
		metadata(m, "sampler_kind", "injected");
	metadata(m, "sampler_weights", "exact");
	if (most)
		metadata(m, "sampler_unseen", "blocks of 0 bytes, blocks from before, mallocx, dallocx");
	metadata(m, "sample_bytes", now);
	metadata(m, "sampler_chosen_bytes", "65536");
	if (most) {
		metadata(m, "sampler_change_count", "3");
		metadata(m, "sampler_dropped_count", "2");
		metadata(m, "sampler_stopped_ns", "840000");
		metadata(m, "sample_bytes_most", most);
	}
	samples(m, TRACEBACK(m, 0, line(m, "cart_new", "src/cart.c", 31), root), 64, 1024.5000813802, 0, 9);
	if (most)
		samples(m, TRACEBACK(m, 0, line(m, "db_row", "src/db.c", 12), root), 4096, 64.5013020741, 9, 8);
	end(m, name);
}

/* Pools of CPython, each of 16 KiB for objects of a size, and a larger block. */
static void make_pools(struct make *m, const char *monotonic_ns, unsigned int pool_nr, const char *name)
{
	begin(m, SNAP_WITH_ALL | SNAP_WITH_WEIGHT);
	metadata(m, "pid", "4711");
	metadata(m, "monotonic_ns", monotonic_ns);
	metadata(m, "sampler_kind", "pools");
	metadata(m, "python_older_count", "120");
	metadata(m, "python_older_bytes", "1966080");
	samples(m, TRACEBACK(m, 0, line(m, "item", "shop.py", 18)), 64, 256, 0, pool_nr);
	samples(m, TRACEBACK(m, 0, line(m, "render", "shop.py", 31)), 512, 32, 50, 2);
	samples(m, TRACEBACK(m, 0, line(m, "item", "shop.py", 20)), 9000, 1, 90, 1);
	end(m, name);
}

/* A Python that `run --exact` has started. count NULL: what it had by then is not known. */
static void make_started(struct make *m, const char *count, const char *bytes, const char *name)
{
	begin(m, SNAP_WITH_ALL);
	metadata(m, "pid", "4711");
	metadata(m, "domains", "python");
	metadata(m, "unseen_start_ns", "2345678");
	if (count) {
		metadata(m, "unseen_start_count", count);
		metadata(m, "unseen_start_bytes", bytes);
	}
	blocks(m, TRACEBACK(m, 0, line(m, "item", "shop.py", 18)), 64, 5, 0);
	end(m, name);
}

/* Every block, as far as it was looked. */
static void make_gaps(struct make *m)
{
	begin(m, SNAP_WITH_ALL | SNAP_WITH_CHURN | SNAP_WITH_FIRST_LINE);
	metadata(m, "pid", "4711");
	blocks(m, TRACEBACK(m, 0, line(m, "cart_new", "src/cart.c", 31)), 64, 3, 10 * SECOND_NS);
	blocks(m, TRACEBACK(m, 0, line(m, "cart_new", "src/cart.c", 31)), 64, 2, 30 * SECOND_NS);
	for (unsigned int i = 1; i < 8; i++)
		must(snapshot_builder__gap(m->builder, (10 + 2 * i) * SECOND_NS, (11 + 2 * i) * SECOND_NS), "gap");
	end(m, "gaps");
}

#endif
