// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Are the estimates unbiased? A program with known answers is sampled run_nr times. For each allocating place, the mean
 * of the estimates is compared with the truth: by z = (mean - truth) / (standard deviation / sqrt(run_nr)), which is
 * normally distributed if there is no bias, and by the sum of z² over the places, whose draws are independent. The
 * seeds are fixed, so each run gives the same result.
 */
#include "full.h"
#include "target.h"
#include "collect/build/sample_weight.h"
#include <bpf/bpf_helpers.h>
#include <math.h>

#define SAMPLE_BYTES 1000
#define THREADS 3
#define Z_MOST 4.0	  /* of all of them, 26 in each mode: 0.2 % by chance */
#define CHI_SQUARE_MOST 33.7 /* of 9 degrees of freedom: 0.01 % */

enum row {
	ROW_SMALL,    /* 400 of 16 bytes */
	ROW_MEDIUM,   /* 150 of 100 */
	ROW_MEAN,     /* 60 of 1000 */
	ROW_LARGE,    /* 10 of 5000 */
	ROW_MIXED,    /* 100 of 1 to 496 */
	ROW_REALLOC,  /* 60 of 700, which were of 50, and of 50 before: other threads do the one and the other */
	ROW_HALF,     /* 100 of 200, which were 200 */
	ROW_NESTED,   /* 80 of 120: calloc, which calls malloc */
	ROW_EMPTY,    /* 40 of 0 */
	ROW_NR,
};

/* The true total, or the total that the samples estimate. */
struct total {
	double count, bytes;
};

struct moments {
	double sum, sum_of_squares;
};

static int run_nr;
static struct total truth[ROW_NR];
static struct moments count_of[ROW_NR], bytes_of[ROW_NR];
static struct target_thread *threads_of[THREADS];
static __u64 next_address;

static __u64 take_address(void)
{
	return next_address += 0x50;
}

/*
 * The rate follows what was sampled so far, as a budget does: an estimate must be unbiased even if the past of a sample
 * decides about the next rate.
 */
static void change_rate(int i)
{
	if (chosen_blocks.has_budget && i % 3 == 0)
		rate_is(process, (book_of(process)->counter[COUNTER_sampled_blocks] / 5 + i / 7) % SAMPLE_RATES);
}

static void use(enum row row, int i)
{
	change_rate(i);
	thread_run(threads_of[i % THREADS]);
	stack_is(0x400000 + row * 0x1000, 0x500000);
}

static void live(enum row row, __u64 size)
{
	truth[row].count++;
	truth[row].bytes += size;
}

static void allocate(enum row row, int nr, __u64 size, __u64 step)
{
	for (int i = 0; i < nr; i++) {
		use(row, i);
		user_malloc(size + i * step, take_address());
		live(row, size + i * step);
	}
}

static void reallocate(int nr)
{
	for (int i = 0; i < nr; i++) {
		__u64 first = take_address(), second = take_address();

		use(ROW_SMALL, i); /* nothing of it stays */
		user_malloc(50, first);
		use(ROW_HALF, i + 1);
		user_realloc(first, 50, second);
		use(ROW_REALLOC, i + 2);
		user_realloc(second, 700, i % 2 ? second : first);
		live(ROW_REALLOC, 700);
	}
}

static void free_half(int nr)
{
	for (int i = 0; i < nr; i++) {
		__u64 kept = take_address(), freed = take_address();

		use(ROW_HALF, i);
		user_malloc(200, kept);
		user_malloc(200, freed);
		thread_run(threads_of[(i + 1) % THREADS]);
		user_free(freed);
		live(ROW_HALF, 200);
	}
}

static void nest(int nr)
{
	for (int i = 0; i < nr; i++) {
		__u64 address = take_address();

		use(ROW_NESTED, i);
		enter(SHAPE_CALLOC, sp_at(1), 1, 120);
		enter(SHAPE_MALLOC, sp_at(4), 136);
		leave(SHAPE_MALLOC, sp_at(4), address);
		leave(SHAPE_CALLOC, sp_at(1), address);
		live(ROW_NESTED, 120);
	}
}

static void run_program(void)
{
	next_address = 0x10000;
	memset(truth, 0, sizeof(truth));
	allocate(ROW_SMALL, 400, 16, 0);
	reallocate(60);
	allocate(ROW_MEDIUM, 150, 100, 0);
	allocate(ROW_MEAN, 60, 1000, 0);
	free_half(100);
	allocate(ROW_LARGE, 10, 5000, 0);
	nest(80);
	allocate(ROW_MIXED, 100, 1, 5);
	allocate(ROW_EMPTY, 40, 0, 0);
}

static void free_all(void)
{
	for (__u64 address = 0x10050; address <= next_address; address += 0x50)
		user_free(address);
}

static enum row row_of(const struct block *block)
{
	struct traceback *traceback = bpf_map_lookup_elem(&tracebacks, &block->traceback);

	cr_assert(traceback);
	return (traceback->pc[0] - 0x400000) / 0x1000;
}

static void read_estimates(struct total estimate[ROW_NR])
{
	struct fake_walk walk = {};

	while (fake_map_walk(&blocks, &walk)) {
		const struct block *block = walk.value;
		double weight = block_weight(walk.key, block);
		enum row row = row_of(block);

		cr_assert(row < ROW_NR);
		estimate[row].count += weight;
		estimate[row].bytes += weight * block->size;
	}
}

static void add(struct moments *moments, double value)
{
	moments->sum += value;
	moments->sum_of_squares += value * value;
}

static double z_of(const struct moments *moments, double wanted)
{
	double mean = moments->sum / run_nr;
	double variance = (moments->sum_of_squares - mean * moments->sum) / (run_nr - 1);

	return variance > 0 ? (mean - wanted) / sqrt(variance / run_nr) : mean == wanted ? 0 : INFINITY;
}

static double expect_unbiased(const struct moments *moments, double wanted, const char *what, int row)
{
	double z = z_of(moments, wanted);

	cr_expect(fabs(z) < Z_MOST, "%s %d: z is %.2f (mean %.2f, truth %.2f)", what, row, z,
		  moments->sum / run_nr, wanted);
	return z;
}

static void sum_up(const struct moments *of, bool is_count)
{
	double chi_square = 0;

	for (int row = 0; row < ROW_NR; row++) {
		double wanted = is_count ? truth[row].count : truth[row].bytes;
		double z = expect_unbiased(&of[row], wanted, is_count ? "count" : "bytes", row);

		chi_square += z * z;
	}
	cr_expect(chi_square < CHI_SQUARE_MOST, "chi-square is %.1f", chi_square);
}

/* The kernel's own sums, in whole numbers. */
static const struct {
	enum counter counter;
	double wanted;
	const char *name;
} of_a_run[] = {
	{ COUNTER_allocations, 400 + 3 * 60 + 150 + 60 + 200 + 10 + 80 + 100 + 40, "allocations" },
	{ COUNTER_frees, 2 * 60 + 100, "frees" },
	{ COUNTER_allocated_bytes,
	  6400 + 60 * 800 + 15000 + 60000 + 40000 + 50000 + 9600 + 24850, "allocated_bytes" },
	{ COUNTER_freed_bytes, 60 * 100 + 20000, "freed_bytes" },
	{ COUNTER_current_blocks, 400 + 60 + 150 + 60 + 100 + 10 + 80 + 100 + 40, "current_blocks" },
	{ COUNTER_current_bytes,
	  6400 + 60 * 700 + 15000 + 60000 + 20000 + 50000 + 9600 + 24850, "current_bytes" },
};
#define OF_A_RUN (sizeof(of_a_run) / sizeof(*of_a_run))

static void note_counters(struct moments moments[OF_A_RUN], const struct process *before)
{
	const struct process *now = book_of(process);

	for (unsigned int i = 0; i < OF_A_RUN; i++)
		add(&moments[i], now->counter[of_a_run[i].counter] -
				 (double)before->counter[of_a_run[i].counter]);
}

static void expect_nothing_left(void)
{
	expect(current_blocks, 0);
	expect(current_bytes, 0);
	expect(sampled_blocks, 0);
	expect_same(block_cnt(), 0, "blocks");
	account_check(); /* of free_filter, too */
}

static void run_once(struct moments counters[OF_A_RUN])
{
	struct process before = *book_of(process);
	struct total estimate[ROW_NR] = {};

	run_program();
	note_counters(counters, &before);
	read_estimates(estimate);
	for (int row = 0; row < ROW_NR; row++) {
		add(&count_of[row], estimate[row].count);
		add(&bytes_of[row], estimate[row].bytes);
	}
	free_all();
	expect_nothing_left();
}

static void expect_all_unbiased(void)
{
	struct moments counters[OF_A_RUN] = {};

	run_nr = full_or(2000, 400);
	fake.random = 20261121;
	threads_of[0] = main_thread;
	for (int i = 1; i < THREADS; i++)
		threads_of[i] = thread_start(process, 100 + i);
	for (int i = 0; i < run_nr; i++)
		run_once(counters);
	sum_up(count_of, true);
	sum_up(bytes_of, false);
	for (unsigned int i = 0; i < OF_A_RUN; i++)
		expect_unbiased(&counters[i], of_a_run[i].wanted, of_a_run[i].name, i);
	expect_loss(nestings_late, 0);
}

ACCOUNT_TEST(estimates, are_unbiased)
{
	choose_blocks((struct choice){ .sample_bytes = SAMPLE_BYTES });
	expect_all_unbiased();
}

ACCOUNT_TEST(estimates, are_unbiased_when_the_rate_changes)
{
	choose_rates((const __u64[SAMPLE_RATES]){ 0, SAMPLE_BYTES / 4, SAMPLE_BYTES, 3 * SAMPLE_BYTES });
	expect_all_unbiased();
}
