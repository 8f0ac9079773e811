/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_ATTACH_WAYS_H
#define ALLOCSNAP_COLLECT_ATTACH_WAYS_H

/*
 * The ways to bring probes to the kernel, and what those who do it share (attach.c, attach_rets.c,
 * attach_switch.c). A way is a row of probe_ways[], the best first; which one a collector goes is
 * decided when its programs are loaded, by trying (load.c).
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/probe/probes.h"

struct bpf_program;
struct object_returns;
struct parser;

/* Of site[first … first + nr) those that free, or those that do not. */
struct probe_sites {
	size_t first, nr;
	bool frees;
};

/* Whose probes, in which file, and how. */
struct attachment {
	struct probes *probes;
	const struct allocsnap_bpf *bpf;
	const struct probe_way *way;
	struct parser *parser;
	const struct object *object;
	uint32_t object_index;
	char path[64]; /* leads to the very file that was looked at, whatever its name means by now */
};

struct probe_way {
	const char *kind;	/* in the metadata */
	const char *without;	/* =1 in the environment: this way is not gone, nor one before it */
	bool has_sessions;
	bool is_alone; /* a link is one probe, and takes a tenth of a second to end */
	bool (*works)(void);
	/* One link with probes at all places, or none: fills in what it is held by. 0 or -errno. */
	int (*attach)(const struct attachment *at, const struct bpf_program *program,
		      enum probe_end end, const struct probe_places *places,
		      struct probe_link *link);
};

extern const struct probe_way probe_ways[];

/* The first that is allowed and works; the last always does. */
const struct probe_way *probe_way_choose(void);

/* Which one the programs were loaded for. */
const struct probe_way *probe_way_of(const struct allocsnap_bpf *bpf);

int attach_as_link(const struct attachment *at, const struct bpf_program *program,
		   enum probe_end end, const struct probe_places *places, struct probe_link *link);
int attach_as_event(const struct attachment *at, const struct bpf_program *program,
		    enum probe_end end, const struct probe_places *places, struct probe_link *link);

struct attachment attachment_to(struct probes *probes, const struct allocsnap_bpf *bpf,
				const struct objects *objects, uint32_t object);

/* All or none; as few links as the way needs. Nothing where it is a trial. */
int attach_places(const struct attachment *at, enum probe_end end,
		  const struct probe_places *places, const struct probe_sites *sites);

/* Attaches one that is held by nothing. 0 or -errno. */
int attach_again(const struct attachment *at, struct probe_link *link);

/* Ends the links from this one on, and waits till they are gone. */
void detach_from(struct probes *probes, size_t link);

/* Begins to end one; the second waits for all that were begun. */
void detach_link(const struct probes *probes, struct probe_link *link);
void detach_settle(const struct probes *probes);

/* Begins to end what holds a link, which is known as before; does not wait. */
void detach_begin_link(const struct probes *probes, struct probe_link *link, struct detacher *detacher);

/* Sites that were just added, from `first` on, move to where there is room for all of them. Where that is. */
size_t probe_sites_settle(struct probes *probes, size_t first);

/*
 * Whether a probe may sit there: -ENOTSUP, with a line, on a nop of five bytes (nop5.h), unless this kernel
 * does no harm at one, which is tried when the first is met.
 */
int check_place(const struct attachment *at, uint64_t offset, struct reason *why);

/* The probe at a site's entry. */
struct probe_place site_entry(const struct probes *probes, const struct probe_site *site);

/*
 * Adds the places where calls of the site's function return, and that have no probe yet, to *ret and to
 * those known (probes->ret). -EALREADY: all its calls go on in another function, which is probed;
 * else, with a line, why it cannot be: nothing was added then.
 */
int add_rets(const struct attachment *at, const struct probe_site *site,
	     struct probe_places *ret, struct reason *why);

/* Whether nothing else of this process can be attached either. -EPIPE: the keeper has ended. */
static inline bool is_of_process(int err)
{
	return err == -EPERM || err == -EACCES || err == -ESRCH || err == -ENOMEM || err == -EPIPE;
}

/* What an error of attaching means, where it was not said. */
void say_not_probed(const struct attachment *at, const struct probe_site *site, int err,
		    const struct reason *why_not, struct reason *why);

#endif
