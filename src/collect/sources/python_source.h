/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_PYTHON_SOURCE_H
#define ALLOCSNAP_COLLECT_SOURCES_PYTHON_SOURCE_H

/*
 * Processes that run CPython, if the domain python was chosen: what Python allocates is recorded, and not the heap below.
 * Not where several processes share probes, and not without uprobe sessions.
 *
 *	python_choice.c	whether Python's objects or the heap are recorded
 *	python_use.c	which process, which file; places the probes
 *	python_source.c	recordings by rules; code objects that the kernel side reports; comparing what was recorded
 *			with the lists of CPython's allocator; frames and metadata
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct collector;
struct inject_python;
struct python_info;
struct reason;
struct settings;
struct snapshot_builder;
struct target;

/* For libbpf: a code object that the kernel side reports. */
int note_python_code(void *collector, void *record, size_t bytes);

/* The kernel side forgets a process's CPython; code objects are swept when many have no process. */
void forget_python(struct collector *collector, const struct target *target);

/* Whether its objects would be recorded by probes, as it runs now, or its pools and larger objects. 0, or the same errors. */
int python_objects_plan(struct collector *collector, struct target *target, bool by_pools, struct reason *why);

/* ---- a view of its own ---- */

/*
 * Python's view in recordings by rules. The probes of the heap are shared there, but those at a CPython belong to one
 * process each: other processes that run the same file do not meet them. So the view of a process begins some ms after
 * its exec or fork, when the loader has heard of it; the time until then is a gap.
 *
 * The process still meets the shared probes of the heap, which do nothing for it (heap_is_hidden()). What they have
 * recorded before is forgotten. A forked child of such a process begins so in the kernel.
 */

#define PYTHONS_MOST 128 /* processes at once: a hit of a probe passes the links of all of them */

/* Whether its view may begin: not for one whose heap is in a snapshot of the same program already. */
bool python_view_may_begin(const struct collector *collector, const struct target *target);

/* Before the probes are placed: from now on its heap is not recorded, and older blocks are forgotten. 0 or a negative errno. */
int python_view_begin(struct collector *collector, struct target *target);

/* When those in a file are placed. The time until the first ones is a gap. 0 or -ENOMEM. */
int python_view_placed(struct target *target, uint32_t object);

/* There will be none: its heap is recorded from now on. */
void python_view_refuse(struct collector *collector, struct target *target);

/* It has ended, or runs another program: its own probes go. */
void leave_python(struct collector *collector, struct target *target);

/* ---- the check ---- */

/*
 * A standing check of Python's account: at each pass the lists of CPython's own allocator show which small blocks are
 * live. A result is exact or dropped: it counts only if all threads were asleep, if no call of the allocators was
 * seen from before the cut until the lists were read, and if every block is recorded.
 */

void python_check_begin(struct collector *collector);
int python_check(struct collector *collector);

/* When a recording begins: no blocks are read then. 0 or -ENOMEM. */
int python_check_first(struct collector *collector, struct target *target);

/* ---- snapshots ---- */

/* Looks up the lines of all Python frames in the target's tracebacks. 0 or -ENOMEM. */
int look_up_python_lines(struct target *target);

/* Adds the frame that a word of a traceback stands for. 0, -ENOMEM, or -ENOENT: its code object is not known. */
int add_python_frame(struct target *target, struct snapshot_builder *builder, uint64_t word, uint32_t *ret_id);

/*
 * Adds whose frames the blocks of CPython have, whether these are pools, the file with CPython's code (mixed tracebacks
 * pass over it to the Python code that it runs), or why Python is not recorded. 0 or -ENOMEM.
 */
int describe_python(struct snapshot_builder *builder, const struct target *target, const struct settings *settings);

void add_python_losses(const struct target *target, uint64_t *loss);

#endif
