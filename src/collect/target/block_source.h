/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_TARGET_BLOCK_SOURCE_H
#define ALLOCSNAP_COLLECT_TARGET_BLOCK_SOURCE_H

/*
 * A source of blocks: a way to learn of the blocks of a process. The heap's functions are one, the allocators of
 * --probe, CPython and a sampler in the process are others. A source is a row of sources/block_sources.c. A
 * recording goes through the rows, and asks nothing about any of them by name. Only the doctor does: it explains CPython
 * (diagnosis/blind_spots.c).
 *
 *	options ──► choose ──► configure ──► open ──► preload                  ──► close
 *	process              attach ──► check ──► attach … ──► leave (exec) ──► end
 *	pass                          before_cut ──► after_read ──► add_tracebacks ──► look
 *	snapshot                      look_up ──► describe, frame, add_losses
 *
 * Each function may be NULL. Those that return int: 0 or a negative errno, with a line in *why if there is one.
 */

#include <stdbool.h>
#include <stdint.h>

struct allocsnap_bpf;
struct collector;
struct collector_options;
struct reason;
struct settings;
struct snapshot_builder;
struct target;

struct block_source {
	const char *domain;  /* the name of its blocks' domain; NULL: its blocks are of the heap's domains */
	uint32_t domain_bit; /* of enum collector_domains; 0: the heap's */
	uint64_t trait;	     /* TRAIT_BIT() of files of processes that it may serve; 0: of any */
	const char *unrecorded; /* what is missing in such a process if the source is not used; NULL: a row of RUNTIME_HEAPS */

	/* The recording. */
	int (*choose)(struct collector *collector, struct reason *why); /* from the options, which it may complete */
	int (*configure)(struct collector *collector, struct allocsnap_bpf *bpf); /* before the BPF programs are loaded */
	int (*open)(struct collector *collector, struct reason *why); /* with all privileges, before the first process */
	int (*preload)(struct collector *collector); /* BPF programs that a process may need later */
	void (*close)(struct collector *collector);
	bool (*loads_later)(const struct collector *collector); /* BPF programs are loaded when a process needs them */
	const char *(*option_given)(const struct collector_options *options); /* an option that stands for the domain; or NULL */

	/* A process. */
	void (*prepare)(const struct target *target); /* before the unwind tables of new files are made */
	int (*attach)(struct collector *collector, struct target *target, struct reason *why); /* again at new mappings */
	int (*check)(struct collector *collector, const struct target *target, struct reason *why); /* at its start */
	void (*note_missing)(struct collector *collector, const struct target *target, uint32_t object); /* a new file */
	void (*leave)(struct collector *collector, struct target *target); /* the program has ended, or called exec */
	void (*forget_program)(struct target *target); /* after exec: the state of the program before */
	void (*end)(struct collector *collector, struct target *target); /* it is recorded no longer */

	/* The cost of recording. */
	uint64_t (*keep_cost)(struct collector *collector); /* acts, and returns when to look again, in ns; UINT64_MAX: never */
	bool (*can_save)(const struct target *target); /* it may still record less by itself, instead of a pause */
	bool (*has_own_rate)(const struct target *target); /* it has samples only, of its own rate */

	/* A pass. */
	void (*before_cut)(struct collector *collector);
	int (*after_read)(struct collector *collector); /* the blocks have been read; it may add some */
	int (*add_tracebacks)(struct collector *collector); /* of blocks that it has added; the kernel's have been read */
	void (*look)(struct target *target); /* the process runs */

	/* A snapshot. */
	bool (*is_used)(const struct target *target);
	const char *(*why_unused)(const struct target *target); /* of a process that it is for; NULL: it is not, or may be used */
	bool (*hides_heap)(const struct target *target); /* the functions of the heap are not probed for it */
	bool (*has_view)(const struct target *target); /* there is something to show of its domain, if only why not */
	bool (*is_estimated)(const struct target *target, const struct settings *settings);
	bool (*names_rate)(const struct target *target); /* describe() says how samples were taken */
	int (*look_up)(struct target *target); /* names of the frames in its tracebacks */
	/* -EAGAIN: another source made the word; -ENOENT: the frame is not known. */
	int (*frame)(struct target *target, struct snapshot_builder *builder, uint64_t word, uint32_t *ret_id);
	const char *unknown_frame; /* stands for frames of which frame() says -ENOENT */
	int (*describe)(struct snapshot_builder *builder, const struct target *target, const struct settings *settings);
	void (*add_losses)(const struct target *target, uint64_t *loss);
};

#endif
