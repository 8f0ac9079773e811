/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_UNIT_SKIP_H
#define TESTS_UNIT_SKIP_H

#include <criterion/criterion.h>
#include <stdio.h>

/*
 * Ends a test that cannot run here, and prints why: Criterion alone would count it nowhere. tests/harness/summary.py
 * counts these lines.
 */
#define skip_because(...) \
	({ \
		char line_[256]; \
		snprintf(line_, sizeof(line_), __VA_ARGS__); \
		fprintf(stderr, "skipped, because %s\n", line_); \
		cr_skip_test("%s", line_); \
	})

#endif
