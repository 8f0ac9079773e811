/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_WEIGHT_H
#define ALLOCSNAP_COLLECT_WEIGHT_H

/* How many blocks a sampled one stands for; bpf/account/sample.bpf.h has the same in whole numbers. */

#include <stdint.h>

struct sample_tables;

/* 1 or more. sample_bytes 0: every block is recorded. Of mappings every one is. */
double weight_of_block(uint64_t size, uint32_t layer, uint64_t sample_bytes);

/* What the programs look up. */
void sample_tables_fill(struct sample_tables *tables);

#endif
