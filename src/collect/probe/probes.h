/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBES_H
#define ALLOCSNAP_COLLECT_PROBES_H

/*
 * The probes of one process, or where children are followed those of everybody. Functions at one
 * address (glibc's memalign and aligned_alloc) are one probe site; where in the function it sits is
 * placement.h's decision. Sites are attached all at once for each file where the kernel can
 * (attach_ways.h), else one by one.
 *
 * Returns are seen by sessions; where the kernel has none by return probes; and where those could
 * end the process (hazards.h) by plain probes on the places where calls return (returns.h). So are
 * always those of functions that throw: the unwinder finds no way through a hijacked return address.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/bpf_types.h"
#include "elf/placement.h"

struct allocsnap_bpf;
struct bpf_link;
struct custom_allocator;
struct keeper;
struct detacher;
struct mappings;
struct object;
struct objects;
struct reason;

struct probe_site {
	uint32_t object;      /* index into struct objects; OBJECT_NONE: no site any more */
	const char *function; /* the first of its names */
	enum call_shape shape;
	enum layer layer;
	uint32_t domain;
	uint64_t offset; /* of the function in the file */
	uint64_t vaddr;
	struct placement placement;
	uint32_t custom_call; /* index into custom_calls[] */
	bool is_custom;
	bool of_heap;
	bool is_seldom; /* heap_is_seldom_called() */
	bool throws;
	bool restarts;
	bool is_attached;
	bool is_on_nop5; /* not attached: it would end forked children (nop5.h) */
	bool is_another; /* not attached: all its calls go on in another function, which is probed */
};

enum probe_end {
	PROBE_RET,    /* sits where calls return; belongs to no one site */
	PROBE_RETURN, /* hijacks the return address */
	PROBE_BOTH,   /* of a session, which decides at the entry whether to */
	PROBE_ENTRY,
	PROBE_END_NR
};

/* Where a probe goes, and what the kernel side is told there. */
struct probe_place {
	uint64_t offset; /* in the file */
	uint64_t cookie;
};

/* Zeroed: none. */
struct probe_places {
	struct probe_place *place;
	size_t place_nr, place_alloc;
};

/* Of probes of one kind, of sites of one object: struct probe_sites. */
struct probe_link {
	struct bpf_link *event; /* a perf uprobe; else NULL, as both are while they pause */
	int kept; /* the number of a link that the keeper has; 0: none */
	uint32_t object;
	struct probe_places places; /* to attach it again */
	enum probe_end end;
	size_t first, nr;
	bool frees;
	bool is_over; /* something else stands for it */
	bool is_put_off; /* after a pause its file could not be probed: it is written to */
};

struct probed_ret {
	uint32_t object;
	uint64_t offset; /* in the file */
};

/* An object that was looked at, and since when what it has is probed. */
struct looked {
	uint32_t object;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	bool as_program;  /* known as the program of a process by then: --probe may name it so */
};

/* Zeroed: none, of everybody, and return probes allowed. */
struct probes {
	pid_t pid; /* 0: every process that maps the files hits them */
	uint32_t slot; /* of its books; of no meaning where pid is 0 */
	struct keeper *keeper; /* has the links of many; NULL: there will be none */
	struct probe_site *site; /* its index is the site of the attach cookie */
	size_t site_nr, site_alloc;
	struct probe_link *link;
	size_t link_nr, link_alloc;
	struct probed_ret *ret;
	size_t ret_nr, ret_alloc;
	bool by_ret; /* no return probes */
	bool is_paused; /* nothing is attached, and nothing new will be */
	bool is_trial; /* nothing is attached, and all is decided as if it were */
	struct looked *looked;
	size_t looked_nr, looked_alloc;
	uint32_t *failed; /* the object of each function found that could not be probed: a loss */
	size_t failed_nr, failed_alloc;
	uint32_t *dropped; /* the same, that probes_switch() has left without probes: a loss */
	size_t dropped_nr, dropped_alloc;
};

/*
 * Finds the allocator functions that an object defines and probes them; frees first, so that no
 * block can enter that could leave unseen. An object without any, or without a readable file, is
 * fine, and so is one that has been looked at. A function that cannot be probed is counted, with a
 * line in *why.
 * 0, -ENOMEM, or what attaching gave where it can't be had at all (-EPERM, -ESRCH). -ETXTBSY: the file is open for
 * writing; what there is of it is to be dropped (probes_drop()), and probed when that is over.
 */
int probes_attach(struct probes *probes, const struct allocsnap_bpf *bpf,
		  const struct objects *objects, uint32_t object, struct reason *why);

/* Whether an object was looked at. */
bool probes_have_looked(const struct probes *probes, uint32_t object);

/* Whether a function of an object is probed. */
bool probes_have_site(const struct probes *probes, uint32_t object);

/* Since when its functions are probed, those that can be; UINT64_MAX: it was not looked at. */
uint64_t probes_since_ns(const struct probes *probes, uint32_t object);

/* How many allocator functions an object has that probes_attach() would probe. */
size_t probes_count_functions(const struct objects *objects, uint32_t object);

/* Whether an allocator of --probe is one that this file defines. */
bool custom_allocator_applies(const struct custom_allocator *allocator, const struct object *object);

/* Whether the kernel has sessions: then no process has anything to fear. */
bool probes_have_sessions(const struct allocsnap_bpf *bpf);

/*
 * Takes the return probes away and goes on without them. No call is missed; but what cannot be
 * probed so is recorded no longer, and counted (dropped_nr), with a line in *why. 0, or -errno
 * where the process is no more or the kernel refuses: the return probes are gone then, too.
 */
int probes_switch(struct probes *probes, const struct allocsnap_bpf *bpf,
		  const struct objects *objects, struct reason *why);

/*
 * Takes all of them away for a while, frees last; they are known as before. The breakpoints are gone
 * when this returns, but for those of perf uprobes, which go one after another.
 */
void probes_pause(struct probes *probes, struct detacher *detacher);

/*
 * Places them again, frees first. What came meanwhile is not among them: probes_attach(). Nor are those of files
 * that are open for writing, or were written to: is_put_off. 0, or a negative errno: they are paused still.
 */
int probes_resume(struct probes *probes, const struct allocsnap_bpf *bpf,
		  const struct objects *objects, struct detacher *detacher);

/*
 * Takes an object's probes away, without waiting for it, and forgets that it was looked at. Whether there was
 * anything to forget.
 */
bool probes_drop(struct probes *probes, uint32_t object, struct detacher *detacher);

/* How they are attached: "uprobe_session", "uprobe_multi", "uprobe", "uprobe_ret". */
const char *probes_kind(const struct probes *probes, const struct allocsnap_bpf *bpf);

/* Whether a function that gives out blocks is among them. */
bool probes_see_allocations(const struct probes *probes);

/* Of failed[] or dropped[], how many are in objects that a process maps. */
uint64_t probes_lost_in(const uint32_t *object, size_t nr, const struct mappings *mappings);

/* Detaches all; what is attached later is attached as before. */
void probes_close(struct probes *probes);

#endif
