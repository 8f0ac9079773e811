// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/attach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/probe/attach_methods.h"
#include "collect/process/objects.h"

#define ENOTSUPP 524 /* include/linux/errno.h: not meant for user space, but uprobes return it */

static uint64_t site_cookie(const struct probes *probes, const struct probe_site *site)
{
	return SITE_COOKIE(site - probes->site, site->shape, site->layer, site->domain) |
	       CUSTOM_CALL_COOKIE(site->user_call) | (site->of_heap ? COOKIE_OF_HEAP : 0) |
	       (site->throws ? COOKIE_BY_RET : 0) |
	       (site->restarts ? COOKIE_RESTARTS : 0) | (probes->is_beside ? COOKIE_OWN_LINK : 0) |
	       (site->placement.why == PLACEMENT_EMULATED ? 0 : COOKIE_STEPPED);
}

struct probe_place site_entry(const struct probes *probes, const struct probe_site *site)
{
	return (struct probe_place){
		.offset = site->offset + site->placement.offset,
		.cookie = site_cookie(probes, site),
		.semaphore = site->semaphore,
	};
}

/* ---- several sites at once ---- */

/*
 * The places to attach, by kind in the order of attaching: an entry without its return would leave calls pending
 * for ever.
 */
struct batch {
	struct probe_places end[PROBE_END_NR];
};

static void batch_release(struct batch *batch)
{
	for (int end = 0; end < PROBE_END_NR; end++)
		free(batch->end[end].place);
}

/* The kernel ends perf uprobes one after another: for mimalloc's 84 functions this took 39 s. */
static int check_seldom(const struct attachment *at, const struct probe_site *site,
			struct reason *why)
{
	if (!at->way->is_alone || !site->is_seldom)
		return 0;
	return reason_set(why, -ENOTSUP, "it is seldom called, and without links of many uprobes "
					 "each probe takes long to remove");
}

static int check_site(const struct attachment *at, struct probe_site *site, uint64_t offset,
		      struct reason *why)
{
	int err;

	if (at->object->is_copied)
		return reason_set(
			why, -ENOTSUP,
			"its code may be copied while it runs, and a breakpoint in the copy would end the process");
	err = check_place(at, offset, why);
	site->is_on_nop5 = err != 0;
	return err;
}

static int add_probes_of_site(const struct attachment *at, struct probe_site *site,
			      struct batch *batch, struct reason *why)
{
	const struct probe_place entry = site_entry(at->probes, site);
	int err = check_seldom(at, site, why) ?: check_site(at, site, entry.offset, why);

	if (err)
		return err;
	if (site->is_for_python)
		return array_push(&batch->end[PROBE_PYTHON_HEAP], place, entry);
	if (shape_is_sampler(site->shape))
		return array_push(&batch->end[PROBE_SAMPLE], place, entry);
	if (shape_is_free(site->shape))
		return array_push(&batch->end[at->way->has_sessions ? PROBE_BOTH : PROBE_ENTRY], place, entry);
	if (at->probes->by_ret || site->throws)
		err = add_rets(at, site, &batch->end[PROBE_RET], why);
	else if (at->way->has_sessions)
		return array_push(&batch->end[PROBE_BOTH], place, entry);
	else
		err = array_push(&batch->end[PROBE_RETURN], place, entry);
	return err ?: array_push(&batch->end[PROBE_ENTRY], place, entry);
}

/* Skips sites that cannot be probed, with a line in *why. 0, or an error for which is_of_process() holds. */
static int add_probes_of_sites(const struct attachment *at, const struct probe_sites *sites,
			       struct batch *batch, struct reason *why)
{
	for (size_t i = sites->first; i < sites->first + sites->nr; i++) {
		struct probe_site *site = &at->probes->site[i];
		struct reason why_not = {};
		int err;

		if (shape_is_free(site->shape) != sites->frees)
			continue;
		err = add_probes_of_site(at, site, batch, &why_not);
		site->is_attached = !err;
		site->is_another = err == -EALREADY;
		if (!err || site->is_another)
			continue;
		log_not_probed(at, site, err, &why_not, why);
		if (is_of_process(err))
			return err;
	}
	return 0;
}

static void undo_attach(const struct attachment *at, const struct probe_sites *sites,
			size_t link_nr, size_t ret_nr)
{
	detach_from(at->probes, link_nr);
	at->probes->ret_nr = ret_nr;
	for (size_t i = sites->first; i < sites->first + sites->nr; i++)
		if (shape_is_free(at->probes->site[i].shape) == sites->frees)
			at->probes->site[i].is_attached = false;
}

/* Attaches all sites that can be probed, or none. *failed: the kind of place that could not be attached. */
static int attach_batch(const struct attachment *at, const struct probe_sites *sites,
			enum probe_end *failed, struct reason *why)
{
	size_t link_nr = at->probes->link_nr, ret_nr = at->probes->ret_nr;
	struct batch batch = {};
	int err = add_probes_of_sites(at, sites, &batch, why);

	for (int end = 0; end < PROBE_END_NR && !err; end++) {
		*failed = end;
		err = attach_places(at, end, &batch.end[end], sites);
	}
	if (err)
		undo_attach(at, sites, link_nr, ret_nr);
	batch_release(&batch);
	return err;
}

void log_not_probed(const struct attachment *at, const struct probe_site *site, int err,
		    const struct reason *why_not, struct reason *why)
{
	reason_set(why, err, "cannot probe %s in %s%s: %s", site->function, at->object->path,
		   at->probes->by_ret ? " without return probes" : "",
		   *why_not->text ? why_not->text :
		   err == -EPIPE ? "the process that keeps the probes has ended" : strerror(-err));
}

static int attach_alone(const struct attachment *at, size_t site, bool frees, struct reason *why)
{
	const struct probe_sites alone = { site, 1, frees };
	struct reason why_not = {};
	enum probe_end failed;
	int err = attach_batch(at, &alone, &failed, why);

	if (!err)
		return 0;
	if (err == -ENOTSUPP)
		reason_set(&why_not, err, "the kernel cannot probe its %s",
			   failed == PROBE_RET ? "return" : "first instruction");
	log_not_probed(at, &at->probes->site[site], err, &why_not, why);
	return is_of_process(err) ? err : 0;
}

/* Attaches one by one: if one site cannot be probed, the others still can. */
static int attach_each(const struct attachment *at, const struct probe_sites *sites,
		       struct reason *why)
{
	int err = 0;

	for (size_t i = sites->first; i < sites->first + sites->nr && !err; i++)
		if (shape_is_free(at->probes->site[i].shape) == sites->frees)
			err = attach_alone(at, i, sites->frees, why);
	return err;
}

static int attach_sites_of_kind(const struct attachment *at, const struct probe_sites *sites,
				struct reason *why)
{
	enum probe_end failed;
	int err = at->way->is_alone ? -ENOTSUP : attach_batch(at, sites, &failed, why);

	return !err || err == -ETXTBSY ? err : attach_each(at, sites, why);
}

int attach_sites(struct probes *probes, const struct allocsnap_bpf *bpf,
		 const struct objects *objects, size_t first, size_t nr, struct reason *why)
{
	struct probe_sites sites = { first, nr, .frees = true };
	struct attachment at;
	int err;

	if (!sites.nr)
		return 0;
	at = attachment_to(probes, bpf, objects, probes->site[first].object);
	err = attach_sites_of_kind(&at, &sites, why);
	sites.frees = false;
	return err ?: attach_sites_of_kind(&at, &sites, why);
}
