/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUILD_PYTHON_H
#define ALLOCSNAP_COLLECT_BUILD_PYTHON_H

/* The frames of Python code in a snapshot, and whether it is Python's view of the process. */

#include <stdint.h>

struct settings;
struct snapshot_builder;
struct target;

/* Looks up the lines of all Python frames in the target's tracebacks. 0 or -ENOMEM. */
int build_python_lines(struct target *target);

/* Adds the frame that a word of a traceback stands for. 0, -ENOMEM, or -ENOENT: its code object is not known. */
int build_python_frame(const struct target *target, struct snapshot_builder *builder, uint64_t word, uint32_t *ret_id);

/*
 * Adds whose frames the blocks of CPython have, whether these are pools, and the file with CPython's code: mixed tracebacks
 * pass over it to the Python code that it runs. 0 or -ENOMEM.
 */
int describe_python(struct snapshot_builder *builder, const struct target *target, const struct settings *settings);

#endif
