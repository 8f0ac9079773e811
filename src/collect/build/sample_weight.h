/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUILD_SAMPLE_WEIGHT_H
#define ALLOCSNAP_COLLECT_BUILD_SAMPLE_WEIGHT_H

/* How many blocks a sampled block stands for. bpf/account/sample.bpf.h computes the same in whole numbers. */

#include <stdbool.h>
#include <stdint.h>

struct sample_tables;

/*
 * Returns 1 or more. It is 1 if sample_bytes is 0 (every block is recorded) and for mappings, which are all
 * recorded.
 */
double weight_of_block(uint64_t size, uint32_t layer, uint64_t sample_bytes);

/* The same for a sample for which the process reported how many bytes it stands for. */
double weight_of_told_block(uint64_t size, uint64_t bytes);

/*
 * Fills the rates. Rate 0 is the user's. With a budget the others are coarser. By the first of them a block of 64 bytes
 * is recorded once in 64 calls, so that a call costs hardly more than its trap. The coarser ones help if blocks are
 * large.
 */
void sample_rates_fill(uint64_t rate[], uint64_t sample_bytes, bool has_budget);

/* Fills the tables that the BPF programs read. */
void sample_tables_fill(struct sample_tables *tables);

/* The coarsest of a process's sample_rates_used; 0: no rate of a budget was in force. */
uint32_t coarsest_rate_of(uint64_t rates_used);

#endif
