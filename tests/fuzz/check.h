/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_FUZZ_CHECK_H
#define TESTS_FUZZ_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "snapshot.h"

/* The condition must hold for every input; libFuzzer keeps an input that breaks it. */
#define MUST(condition) ((condition) ? (void)0 : must_failed(#condition, __FILE__, __LINE__))
_Noreturn void must_failed(const char *condition, const char *file, int line);

/* The entry point that libFuzzer calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A refusal: one of the errors in the contract, and words that say why. */
void check_refused(int err, const struct reason *why, const int *allowed);

/* Words about a file, which is not to be trusted: one clean line. */
void check_one_line(const struct reason *why);

/* The statistics, checked in themselves; NULL if the engine may refuse and says why. */
struct statistics *check_statistics(const struct snapshot *snapshot,
				    const struct engine_options *options);

/* The same groups in the same order with the same costs. */
void check_same(const struct statistics *a, const struct statistics *b);

/* Both snapshots must give the same statistics; false if they give no statistics. */
bool check_same_snapshots(const struct snapshot *a, const struct snapshot *b,
			  const struct engine_options *options);

/* Written and opened again it is the same. */
void check_round_trip(const struct snapshot *snapshot, const struct engine_options *options);

/* Written as JSON, it is read, and written again it is the same text. */
void check_export(const struct snapshot *snapshot);

/* Text for people: UTF-8 without control characters, in whole lines. */
void check_clean(const char *text, size_t len);

#endif
