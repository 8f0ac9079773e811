/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_PROBES_H
#define ALLOCSNAP_COLLECT_PROBE_PROBES_H

/*
 * The probes of one process; if children are followed, the probes of all processes. Functions at one address (glibc's
 * memalign and aligned_alloc) are one probe site; placement.h decides where in the function the probe is. If the
 * kernel supports it (attach_methods.h), all sites of a file are attached at once, otherwise one by one.
 *
 * Returns are seen by sessions; if the kernel has none, by return probes; and if those could kill the process
 * (hazards.h), by plain probes at the places where calls return (returns.h). Functions that throw always use the
 * plain probes: the unwinder cannot pass a hijacked return address.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf/placement.h"
#include "shared/bpf_types.h"

struct allocsnap_bpf;
struct bpf_link;
struct detacher;
struct late_programs;
struct link_holder;
struct mappings;
struct object;
struct objects;
struct probes;
struct reason;
struct user_allocator;

struct probe_site {
	uint32_t object;      /* index into struct objects; OBJECT_NONE: unused entry */
	const char *function; /* the first of its names */
	uint16_t renamed;	/* as in struct object_function; see probe_site_name() */
	uint16_t renamed_bytes; /* of function: the prefix that the file has another one for */
	enum call_shape shape;
	enum layer layer;
	uint32_t domain;
	uint64_t offset; /* of the function in the file */
	uint64_t vaddr;
	struct placement placement;
	uint32_t user_call; /* index into user_calls[], or of a USDT probe into usdt_calls[], once it is attached */
	uint32_t user_function; /* index into the functions of struct user_allocators */
	struct usdt_call usdt; /* of a USDT probe */
	uint64_t semaphore; /* of a USDT probe, in the file; 0: none */
	bool is_user_allocator;
	bool is_for_python; /* of the C library: gives blocks that CPython has asked for */
	bool of_heap;
	bool is_seldom; /* heap_is_seldom_called() */
	bool throws;
	bool restarts;
	bool is_attached;
	bool is_on_nop5; /* not attached: on a nop whose probe would kill forked children (placement.h) */
	bool is_another; /* not attached: all its calls continue in another function, which is probed */
};

/* The function's name in its file. buf has room for FUNCTION_NAME_MAX bytes, and may be what is returned. */
const char *probe_site_name(const struct probe_site *site, const struct object *object, char *buf);

enum probe_end {
	PROBE_RET,    /* at the places where calls return; belongs to no single site */
	PROBE_RETURN, /* hijacks the return address */
	PROBE_BOTH,   /* a session: the program at the entry decides whether the return is probed */
	PROBE_ENTRY,
	PROBE_SAMPLE, /* at a USDT probe */
	PROBE_PYTHON, /* at a place where CPython's allocators are called, or begin, or its objects do */
	PROBE_PYTHON_HEAP, /* a session at a function that they call */
	PROBE_END_NR
};

/* Where a probe is placed, and the cookie that the kernel side gets there. */
struct probe_place {
	uint64_t offset; /* in the file */
	uint64_t cookie;
	uint64_t semaphore; /* in the file: not 0 while the probe is there; 0: none */
};

/* Zeroed: none. */
struct probe_places {
	struct probe_place *place;
	size_t place_nr, place_alloc;
};

/* Probes of one kind at sites of one object; first, nr and frees as in struct probe_sites. */
struct probe_link {
	struct bpf_link *event; /* a perf uprobe, or NULL. Both holders are unset while probes pause */
	int kept; /* the number of a link in the link holder; 0: none */
	uint32_t object;
	struct probe_places places; /* to attach it again */
	enum probe_end end;
	size_t first, nr;
	bool frees;
	bool is_over; /* another link replaces it */
	bool is_put_off; /* a pause ended, but its file is being written to, so it is not attached */
};

struct probed_ret {
	uint32_t object;
	uint64_t offset; /* in the file */
};

/* An object that was examined, and the time since when its functions are probed. */
struct looked {
	uint32_t object;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t heap_time_ns; /* the same for its heap; UINT64_MAX: left out, for processes that have a sampler */
	bool as_program;  /* it was known as a process's program then: --probe may name it so */
};

/* Zeroed: none, for all processes, and return probes allowed. */
struct probes {
	pid_t pid; /* 0: probes fire in every process that maps the files */
	uint32_t slot; /* of its accounting; unused if pid is 0 */
	struct link_holder *link_holder; /* holds links of many probes; NULL: there will be none */
	struct late_programs *late; /* NULL: all programs are loaded */
	struct probe_site *site; /* its index is the site number in the attach cookie */
	size_t site_nr, site_alloc;
	struct probe_link *link;
	size_t link_nr, link_alloc;
	struct probed_ret *ret;
	size_t ret_nr, ret_alloc;
	bool by_ret; /* return probes are not used */
	bool is_beside; /* of one process, while others have shared probes at the same places: COOKIE_OWN_LINK */
	bool is_paused; /* nothing is attached, and nothing new will be */
	bool is_trial; /* nothing is attached, but everything is decided as if it were */
	struct looked *looked;
	size_t looked_nr, looked_alloc;
	uint32_t *failed; /* the object of each function that could not be probed: a loss */
	size_t failed_nr, failed_alloc;
	uint32_t *dropped; /* the same for functions that probes_switch() has left without probes: a loss */
	size_t dropped_nr, dropped_alloc;
};

/*
 * Finds the allocator functions that an object defines and probes them. Frees come first, so that no block can be
 * recorded whose free is not seen. An object without such functions, without a readable file, or examined before
 * is no error. A function that cannot be probed is counted, with a line in *why. Without with_heap the heap's functions
 * are left out, until a call with it.
 *
 * 0, -ENOMEM, or the error of attaching if nothing of the process can be probed (-EPERM, -ESRCH). -ETXTBSY: the
 * file is open for writing; the caller must drop what there is of it (probes_drop()), and attach again when the
 * file is closed.
 */
int probes_attach(struct probes *probes, const struct allocsnap_bpf *bpf,
		  const struct objects *objects, uint32_t object, bool with_heap, struct reason *why);

/*
 * Probes malloc, calloc and realloc of an object for blocks that CPython asks for (elf/python/python_info.h), unless
 * that was done before. Only if the kernel has sessions. Results as of probes_attach().
 */
int probes_attach_for_python(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
			     uint32_t object, struct reason *why);

/* Whether functions of a heap are probed that give out blocks. */
bool probes_see_heap(const struct probes *probes);

/* Whether an object was examined. */
bool probes_have_looked(const struct probes *probes, uint32_t object);

/* Notes the same for probes that are placed otherwise, so that probes_drop() finds them. 0 or -ENOMEM. */
int probes_note_looked(struct probes *probes, uint32_t object);

/* Whether a function of an object is probed. */
bool probes_have_site(const struct probes *probes, uint32_t object);

/* Number of allocator functions of an object that probes_attach() would probe. */
size_t probes_count_functions(const struct objects *objects, uint32_t object, bool with_heap);

/* Whether this file defines the allocator of a --probe option. */
bool user_allocator_applies(const struct user_allocator *allocator, const struct object *object);

/* Whether the kernel has sessions. If so, probes cannot kill a process. */
bool probes_have_sessions(const struct allocsnap_bpf *bpf);

/*
 * Removes the return probes and continues without them. No call is missed. A function that cannot be probed
 * without them is no longer recorded, and is counted (dropped_nr), with a line in *why. 0, or -errno if the
 * process has ended or the kernel refuses; the return probes are gone then, too.
 */
int probes_switch(struct probes *probes, const struct allocsnap_bpf *bpf,
		  const struct objects *objects, struct reason *why);

/*
 * Removes all probes for a while, frees last; the sites stay known. The breakpoints are gone when this returns,
 * except breakpoints of perf uprobes, which the kernel removes one after another.
 */
void probes_pause(struct probes *probes, struct detacher *detacher);

/*
 * Attaches the paused probes again, frees first. New objects need probes_attach(). Links whose file is open for
 * writing or was written to stay detached: is_put_off. 0, or a negative errno: all are still paused.
 */
int probes_resume(struct probes *probes, const struct allocsnap_bpf *bpf,
		  const struct objects *objects, struct detacher *detacher);

/*
 * Removes an object's probes, without waiting, and forgets that it was examined. Returns whether there was
 * anything to forget.
 */
bool probes_drop(struct probes *probes, uint32_t object, struct detacher *detacher);

/*
 * Gives a process the shared probes of the objects that it maps, as its own, with the same site numbers; nothing is
 * attached yet: probes_resume() does that. `probes` must be empty. 0 or -ENOMEM: it is empty again.
 */
int probes_copy(struct probes *probes, const struct probes *shared, const struct mappings *mappings);

/* Starts to remove all probes, frees last, without waiting; the sites stay known. */
void probes_detach(struct probes *probes, struct detacher *detacher);

/* The same, and forgets the sites. No program may need the probes any more. */
void probes_end(struct probes *probes, struct detacher *detacher);

/* The attach method: "uprobe_session", "uprobe_multi", "uprobe", "uprobe_ret". */
const char *probes_kind(const struct probes *probes, const struct allocsnap_bpf *bpf);

/* Whether a function that returns blocks is probed. */
bool probes_see_allocations(const struct probes *probes);

/* Whether a file has functions of a heap, probed or not. */
bool object_has_heap(const struct object *object);

/* Counts the entries of failed[] or dropped[] whose object the process maps. */
uint64_t probes_lost_in(const uint32_t *object, size_t nr, const struct mappings *mappings);

/* Detaches all probes; later ones are attached in the same way. */
void probes_close(struct probes *probes);

/*
 * Functions that were probed when the process could have called them already: of which the process had mapped the
 * object earlier.
 */

/* An object that the image maps, and since when. Functions that are probed later than that are late. */
struct seen_object {
	uint32_t object;
	uint64_t since_ns;
};

/* Zeroed: no object was seen. */
struct late_functions {
	struct seen_object *seen; /* each object once */
	size_t seen_nr, seen_alloc;
	size_t judged_nr; /* the first of `seen`: their late functions are in nr */
	uint64_t nr;	  /* late functions */
};

/* An object is mapped since then, if it was not before. 0 or -ENOMEM. */
int late_functions_see(struct late_functions *late, uint32_t object, uint64_t since_ns);
int late_functions_see_all(struct late_functions *late, const struct mappings *mappings, uint64_t since_ns);

/*
 * Counts functions that were probed after the process had mapped them, no matter for which process, and those
 * that could not be probed before the process ended. with_heap is as for probes_attach().
 */
void late_functions_count(struct late_functions *late, const struct objects *objects, const struct probes *probes,
			  bool with_heap, bool has_ended);

/* Objects with goes[index] set are dropped: no mapping is of one. */
void late_functions_forget(struct late_functions *late, const bool *goes);

/* After an exec: nothing was seen. */
void late_functions_begin_image(struct late_functions *late);

void late_functions_release(struct late_functions *late);

#endif
