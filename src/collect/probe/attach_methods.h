/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_ATTACH_METHODS_H
#define ALLOCSNAP_COLLECT_PROBE_ATTACH_METHODS_H

/*
 * The methods to attach probes, and code that the attaching files share (attach_methods.c, hazards.c,
 * probes.c). Each method is a row of probe_ways[], the best first. A collector's method is chosen by
 * trying, when its programs are loaded (load.c).
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/probe/probes.h"

struct bpf_program;
struct sandbox;

/* The sites of site[first … first + nr) that free blocks, or those that do not. */
struct probe_sites {
	size_t first, nr;
	bool frees;
};

/* The target of attaching: the process's probes, the file, and the method. */
struct attachment {
	struct probes *probes;
	const struct allocsnap_bpf *bpf;
	const struct probe_way *way;
	struct sandbox *sandbox;
	const struct object *object;
	uint32_t object_index;
	char path[64]; /* leads to the file that was read, even if its name now means another file */
};

struct probe_way {
	const char *kind;	/* in the metadata */
	const char *without;	/* environment variable; if it is set, neither this method nor an earlier one is used */
	bool has_sessions;
	bool is_alone; /* each link holds one probe, and takes a tenth of a second to end */
	bool (*works)(void);
	/* Attaches probes at all places with one link, or none, and sets what holds them. 0 or -errno. */
	int (*attach)(const struct attachment *at, const struct bpf_program *program,
		      enum probe_end end, const struct probe_places *places,
		      struct probe_link *link);
};

extern const struct probe_way probe_ways[];

/* The first method that is allowed and works; the last one always works. */
const struct probe_way *probe_way_choose(void);

/* The method that the programs were loaded for. */
const struct probe_way *probe_way_of(const struct allocsnap_bpf *bpf);

struct attachment attachment_to(struct probes *probes, const struct allocsnap_bpf *bpf,
				const struct objects *objects, uint32_t object);

/* Attaches all places or none, with as few links as the method needs. In a trial it attaches nothing. */
int attach_places(const struct attachment *at, enum probe_end end,
		  const struct probe_places *places, const struct probe_sites *sites);

/* Attaches a link that nothing holds now. 0 or -errno. */
int attach_again(const struct attachment *at, struct probe_link *link);

/* Ends all links from this one on, and waits until they are gone. */
void detach_from(struct probes *probes, size_t link);

/* Starts to end one link; detach_settle() waits for all that were started. */
void detach_link(const struct probes *probes, struct probe_link *link);
void detach_settle(const struct probes *probes);

/*
 * Moves the sites from `first` on, which were just added, to a hole that fits all of them. Returns their new
 * first index.
 */
size_t probe_sites_settle(struct probes *probes, size_t first);

/*
 * Whether a probe may be placed there. -ENOTSUP, with a line, on an instruction that takes no probe: the kernel would
 * leave it out where a program maps the file later. Also on a five-byte nop (placement.h), unless this kernel handles it
 * safely; that is tried at the first such nop.
 */
int check_place(const struct attachment *at, uint64_t offset, struct reason *why);

/* The place of the probe at a site's entry. */
struct probe_place site_entry(const struct probes *probes, const struct probe_site *site);

/*
 * Adds the places where calls of the site's function return, except those already probed, to *ret and to
 * probes->ret. -EALREADY: all its calls continue in another function, which is probed. Any other error comes with
 * a line; nothing was added then.
 */
int add_rets(const struct attachment *at, const struct probe_site *site,
	     struct probe_places *ret, struct reason *why);

/*
 * Whether the error means that nothing else of this process can be attached either. -EPIPE: the link holder has ended.
 */
static inline bool is_of_process(int err)
{
	return err == -EPERM || err == -EACCES || err == -ESRCH || err == -ENOMEM || err == -EPIPE;
}

/* Writes a line about a function that cannot be probed: why_not, or the meaning of err if why_not is empty. */
void log_not_probed(const struct attachment *at, const struct probe_site *site, int err,
		    const struct reason *why_not, struct reason *why);

/* Turns probe sites into probes. attach_methods.h lists the attach methods; probes.h says how returns are seen. */

/*
 * Attaches site[first … first + nr), all of one object; frees first. A site that cannot be probed stays
 * unattached (is_attached), with a line in *why. 0, -ENOMEM, or the error of attaching if nothing of the process
 * can be probed (-EPERM, -ESRCH), or not now (-ETXTBSY).
 */
int attach_sites(struct probes *probes, const struct allocsnap_bpf *bpf,
		 const struct objects *objects, size_t first, size_t nr, struct reason *why);

/*
 * The probes that a sampler in the process passes (elf/sampler_places.h). Each place is a site, like a function. All
 * places of a file are probed, or none: a free that is not seen would leave its block in the account.
 */

/*
 * Probes the places of an object's sampler, frees first. 0, even if they could not be probed: *why then has a line, and
 * none is. Or an error as of probes_attach().
 */
int sampler_sites_attach(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
			 uint32_t object, struct reason *why);

/* Whether the sampler of an object is probed. */
bool sampler_sites_are_probed(const struct probes *probes, uint32_t object);

#endif
