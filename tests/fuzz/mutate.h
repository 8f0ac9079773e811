/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_FUZZ_MUTATE_H
#define TESTS_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/*
 * LLVMFuzzerCustomMutator() for snapshots. Checksums and cross references would stop nearly
 * every plain mutation at the door, so most of the time a file is taken apart, one table of it
 * is changed, and it is put together again as a file that may well be accepted.
 */
size_t mutate_snapshot(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

#endif
