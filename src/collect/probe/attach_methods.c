// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/attach_methods.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/bpf.h"
#include "collect/probe/feature_probes.h"
#include "collect/probe/late_programs.h"
#include "collect/probe/link_holder.h"
#include "collect/probe/uprobe_multi.h"
#include "process/objects.h"
#include "process/proc.h"
#include "elf/machine.h"
#include "elf/probe_info.h"
#include "elf/sampler_places.h"
#include "sandbox/client.h"

/* ---- the places where calls return, for probes that hijack no return address (returns.h) ---- */

/*
 * Some functions that throw jump to another allocator function. That function returns instead of them, and its
 * return is not seen while a call of the first is pending. -EALREADY: all calls end in the other function.
 */
static int check_jumps(const struct attachment *at, const struct probe_site *site,
		       const struct object_returns *returns, struct reason *why)
{
	if (!site->throws || at->probes->by_ret || !returns->leads_to_probed)
		return 0;
	if (!returns->place_nr)
		return -EALREADY;
	return reason_set(why, -ENOTSUP, "some of its calls go on in another allocator function");
}

#define RETS_MAX 1000 /* in one object; beyond this no more functions are added: each new return is compared with all */
#define RETS_OF_EVENTS_MAX 200 /* in one object: the kernel ends perf uprobes one after another, each in a tenth of a second or more */

static size_t rets_of(const struct probes *probes, uint32_t object)
{
	return array_count(probes->ret_nr, i, probes->ret[i].object == object);
}

static int add_ret(const struct attachment *at, const struct probe_site *site,
		   const struct object_return *where, struct probe_places *places,
		   struct reason *why)
{
	const struct probed_ret ret = { .object = site->object, .offset = where->offset };
	const struct probe_place place = {
		.offset = where->offset,
		.cookie = (where->is_in_argument ? RESULT_IS_ARGUMENT : RESULT_IS_RETURNED | COOKIE_STEPPED) |
			  (at->probes->is_beside ? COOKIE_OWN_LINK : 0),
	};
	int err;

	if (array_any(at->probes->ret_nr, i,
		      at->probes->ret[i].object == ret.object && at->probes->ret[i].offset == ret.offset))
		return 0;
	if (place.offset == site_entry(at->probes, site).offset)
		return reason_set(why, -ENOTSUP, "it returns at its entry");
	err = check_place(at, place.offset, why) ?: array_push(at->probes, ret, ret);
	return err ?: array_push(places, place, place);
}

static int add_all(const struct attachment *at, const struct probe_site *site,
		   const struct object_returns *returns, struct probe_places *ret,
		   struct reason *why)
{
	size_t known = at->probes->ret_nr, before = ret->place_nr;
	int err = check_jumps(at, site, returns, why);

	for (uint32_t i = 0; i < returns->place_nr && !err; i++)
		err = add_ret(at, site, &returns->place[i], ret, why);
	if (!err)
		return 0;
	at->probes->ret_nr = known;
	ret->place_nr = before;
	return err;
}

int add_rets(const struct attachment *at, const struct probe_site *site,
	     struct probe_places *ret, struct reason *why)
{
	struct object_returns returns = {};
	int err;

	if (rets_of(at->probes, site->object) > RETS_MAX)
		return reason_set(why, -ENOTSUP, "its file has too many returns");
	err = sandbox__returns(at->sandbox, at->object->fd, site->vaddr, &returns, why);
	if (!err && at->way->is_alone && rets_of(at->probes, site->object) + returns.place_nr > RETS_OF_EVENTS_MAX)
		err = reason_set(why, -ENOTSUP, "its file has too many returns to probe them one by one");
	err = err ?: add_all(at, site, &returns, ret, why);
	object_returns_release(&returns);
	return err;
}

/* ---- many probes of a file as one link: sessions, entries, returns (uprobe_multi.h) ---- */

static int attach_as_link(const struct attachment *at, const struct bpf_program *program,
		   enum probe_end end, const struct probe_places *places, struct probe_link *link)
{
	uint64_t offset[places->place_nr], cookie[places->place_nr], semaphore[places->place_nr];
	const struct uprobe_multi uprobes = {
		.pid = at->probes->pid,
		.attach_type = bpf_program__expected_attach_type(program),
		.of_returns = end == PROBE_RETURN,
		.nr = places->place_nr,
		.offset = offset,
		.cookie = cookie,
		.semaphore = semaphore,
	};
	int kept;

	for (size_t i = 0; i < places->place_nr; i++) {
		offset[i] = places->place[i].offset;
		cookie[i] = places->place[i].cookie;
		semaphore[i] = places->place[i].semaphore;
	}
	kept = link_holder__attach(at->probes->link_holder, bpf_program__fd(program), at->object->fd,
			      &at->object->identity, &uprobes);
	if (kept < 0)
		return kept;
	link->kept = kept;
	return 0;
}

/* ---- a probe as a perf event of its own: every kernel supports this ---- */

static int attach_as_event(const struct attachment *at, const struct bpf_program *program,
		    enum probe_end end, const struct probe_places *places, struct probe_link *link)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = end == PROBE_RETURN,
		    .bpf_cookie = places->place->cookie, .ref_ctr_offset = places->place->semaphore);

	/* A perf event belongs to one task; -1: to all. */
	link->event = bpf_program__attach_uprobe_opts(program, at->probes->pid ? proc_live_thread(at->probes->pid) : -1,
						      at->path, places->place->offset, &opts);
	return link->event ? 0 : -errno;
}

/* ---- choosing a method ---- */

static bool links_work(void)
{
	return !trial_pid_of_link();
}

static bool events_work(void)
{
	return true; /* the last resort is always tried */
}

const struct probe_way probe_ways[] = {
	{
		.kind = "uprobe_session",
		.without = "ALLOCSNAP_NO_UPROBE_SESSION",
		.has_sessions = true,
		.works = uprobe_session_works,
		.attach = attach_as_link,
	},
	{
		.kind = "uprobe_multi",
		.without = "ALLOCSNAP_NO_UPROBE_MULTI",
		.works = links_work,
		.attach = attach_as_link,
	},
	{
		.kind = "uprobe",
		.is_alone = true,
		.works = events_work,
		.attach = attach_as_event,
	},
};

static bool is_forbidden(const struct probe_way *way)
{
	if (way->has_sessions && getenv("ALLOCSNAP_NO_UPROBE_RETURN"))
		return true;
	for (; way->without; way++)
		if (getenv(way->without))
			return true;
	return false;
}

const struct probe_way *probe_way_choose(void)
{
	const struct probe_way *way = probe_ways;

	while (is_forbidden(way) || !way->works())
		way++;
	return way;
}

const struct probe_way *probe_way_of(const struct allocsnap_bpf *bpf)
{
	if (bpf_program__autoload(bpf->progs.session_call))
		return &probe_ways[0];
	return &probe_ways[bpf_program__expected_attach_type(bpf->progs.enter_call) ==
					   UPROBE_MULTI_ATTACH_TYPE ? 1 : 2];
}

static int nop5_err(void)
{
	static bool is_known;
	static int err;

	if (!is_known)
		err = trial_nop5();
	is_known = true;
	return err;
}

int check_place(const struct attachment *at, uint64_t offset, struct reason *why)
{
	const struct machine *machine = machine_of(machine_here());
	uint8_t code[INSN_BYTES_MAX];
	size_t size = object_read(at->object, offset, code, sizeof(code));
	const char *refusal = machine && machine->refusal ? machine->refusal(code, size) : NULL;

	if (refusal)
		return reason_set(why, -ENOTSUP, "its probe would sit %s", refusal);
	if (!machine || !machine->is_long_nop || !machine->is_long_nop(code, size) || !nop5_err())
		return 0;
	return reason_set(why, -ENOTSUP,
			  "its probe would sit on a nop of five bytes, and this kernel %s",
			  nop5_err() == -EFAULT ? "ends forked children there" :
						  "may end forked children there (it cannot be tried)");
}

struct attachment attachment_to(struct probes *probes, const struct allocsnap_bpf *bpf,
				const struct objects *objects, uint32_t index)
{
	const struct object *object = objects->object[index];
	struct attachment at = {
		.probes = probes, .bpf = bpf, .way = probe_way_of(bpf), .sandbox = objects->sandbox,
		.object = object, .object_index = index,
	};

	snprintf(at.path, sizeof(at.path), "/proc/self/fd/%d", object->fd);
	return at;
}

int attach_again(const struct attachment *at, struct probe_link *link)
{
	const struct bpf_program *program;
	int err = late_programs_find(at->probes->late, at->bpf, link->end, &program);

	return err ?: at->way->attach(at, program, link->end, &link->places, link);
}

static int attach_link(const struct attachment *at, enum probe_end end,
		       const struct probe_places *places, const struct probe_sites *sites)
{
	struct probe_link link = {
		.object = at->object_index, .end = end, .first = sites->first, .nr = sites->nr,
		.frees = sites->frees,
	};
	int err = 0;

	for (size_t i = 0; i < places->place_nr && !err; i++)
		err = array_push(&link.places, place, places->place[i]);
	err = err ?: attach_again(at, &link) ?: array_push(at->probes, link, link);
	if (err)
		detach_link(at->probes, &link);
	return err;
}

int attach_places(const struct attachment *at, enum probe_end end,
		  const struct probe_places *places, const struct probe_sites *sites)
{
	size_t before = at->probes->link_nr;
	size_t step = at->way->is_alone ? 1 : places->place_nr;
	int err = 0;

	for (size_t i = 0; i < places->place_nr && !err && !at->probes->is_trial; i += step)
		err = attach_link(at, end, &(struct probe_places){ places->place + i, step },
				  sites);
	if (err)
		detach_from(at->probes, before);
	return err;
}

void detach_link(const struct probes *probes, struct probe_link *link)
{
	if (link->event)
		bpf_link__destroy(link->event);
	if (link->kept)
		link_holder__detach(probes->link_holder, link->kept);
	free(link->places.place);
}

void detach_settle(const struct probes *probes)
{
	if (probes->link_holder)
		link_holder__settle(probes->link_holder);
}

void detach_from(struct probes *probes, size_t link)
{
	if (probes->link_nr <= link)
		return;
	while (probes->link_nr > link)
		detach_link(probes, &probes->link[--probes->link_nr]);
	detach_settle(probes);
}

/* ---- one site ---- */

#define ENOTSUPP 524 /* include/linux/errno.h: not meant for user space, but uprobes return it */

static uint64_t site_cookie(const struct probes *probes, const struct probe_site *site)
{
	return SITE_COOKIE(site - probes->site, site->shape, site->layer, site->domain) |
	       USER_CALL_COOKIE(site->user_call) | (site->of_heap ? COOKIE_OF_HEAP : 0) |
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

/* Finds the row with its values, or fills a new one: equal calls share a row. A used row has a width. */
static int find_usdt_call(const struct attachment *at, struct probe_site *site, struct reason *why)
{
	struct usdt_call *rows = at->bpf->bss->usdt_calls;

	for (site->user_call = 0; site->user_call < USDT_CALLS_MAX; site->user_call++) {
		struct usdt_call *row = &rows[site->user_call];

		if (!row->argument[0].bytes)
			*row = site->usdt;
		if (!memcmp(row, &site->usdt, sizeof(*row)))
			return 0;
	}
	return reason_set(why, -ENOTSUP, "there are too many kinds of such probes");
}

static struct probe_place site_return(const struct attachment *at, struct probe_place entry)
{
	entry.cookie &= ~USER_CALL_COOKIE(COOKIE_USER_CALL(-1));
	if (at->way->is_alone && at->probes->pid)
		entry.cookie |= USER_CALL_COOKIE(at->probes->slot + 1);
	return entry;
}

static int add_probes_of_site(const struct attachment *at, struct probe_site *site,
			      struct batch *batch, struct reason *why)
{
	int err = shape_is_reported(site->shape) ? find_usdt_call(at, site, why) : 0;
	const struct probe_place entry = site_entry(at->probes, site);

	err = err ?: check_seldom(at, site, why) ?: check_site(at, site, entry.offset, why);
	if (err)
		return err;
	if (site->is_for_python)
		return array_push(&batch->end[PROBE_PYTHON_HEAP], place, entry);
	if (shape_is_reported(site->shape))
		return array_push(&batch->end[PROBE_SAMPLE], place, entry);
	if (shape_is_free(site->shape))
		return array_push(&batch->end[at->way->has_sessions ? PROBE_BOTH : PROBE_ENTRY], place, entry);
	if (at->probes->by_ret || site->throws)
		err = add_rets(at, site, &batch->end[PROBE_RET], why);
	else if (at->way->has_sessions)
		return array_push(&batch->end[PROBE_BOTH], place, entry);
	else
		err = array_push(&batch->end[PROBE_RETURN], place, site_return(at, entry));
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

/* ---- sampler sites ---- */

static int add_sampler_site(struct probes *probes, uint32_t object, const struct usdt_place *place, bool tells_frees)
{
	bool is_free = sampler_place_is_free(place);
	struct probe_site site = {
		.object = object,
		.function = is_free ? "otel_memory:free" : "otel_memory:alloc",
		.shape = is_free ? SHAPE_SAMPLE_FREE : tells_frees ? SHAPE_SAMPLE : SHAPE_SAMPLE_LOST,
		.layer = LAYER_HEAP,
		.offset = place->offset,
		.placement = { .why = PLACEMENT_EMULATED, .instruction = "nop" },
		.usdt = place->call,
		.semaphore = place->semaphore,
	};
	return array_push(probes, site, site);
}

/* Whether all places may be probed. -ENOTSUP with a line in *why if not. */
static int check_sampler_places(const struct attachment *at, const struct usdt_places *places, struct reason *why)
{
	int err = 0;

	if (at->object->is_copied)
		return reason_set(why, -ENOTSUP, "its code may be copied while it runs");
	if (at->object->is_copy)
		return reason_set(why, -ENOTSUP, "it is on a file system that may stop answering");
	for (size_t i = 0; i < places->nr && !err; i++)
		err = check_place(at, places->place[i].offset, why);
	return err;
}

static bool all_are_attached(const struct probes *probes, size_t first, size_t nr)
{
	for (size_t i = first; i < first + nr; i++)
		if (!probes->site[i].is_attached)
			return false;
	return true;
}

/* The entries become holes, as their numbers are in cookies. */
static void forget_sampler_sites(struct probes *probes, size_t first, size_t nr)
{
	for (size_t i = first; i < first + nr; i++)
		probes->site[i] = (struct probe_site){ .object = OBJECT_NONE };
	while (probes->site_nr && probes->site[probes->site_nr - 1].object == OBJECT_NONE)
		probes->site_nr--;
}

static int attach_sampler_sites(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
				size_t first, struct reason *why)
{
	size_t nr = probes->site_nr - first, link_nr = probes->link_nr;
	int err;

	first = probe_sites_settle(probes, first);
	err = attach_sites(probes, bpf, objects, first, nr, why);
	if (!err && all_are_attached(probes, first, nr))
		return 0;
	detach_from(probes, link_nr);
	forget_sampler_sites(probes, first, nr);
	return err;
}

static void say_unused(const struct object *object, const char *what, struct reason *why)
{
	reason_set(why, 0, "%s takes samples of the heap, but they are not used: %s", object->path, what);
}

int sampler_sites_attach(struct probes *probes, const struct allocsnap_bpf *bpf, const struct objects *objects,
			 uint32_t index, struct reason *why)
{
	const struct object *object = objects->object[index];
	const struct usdt_places *places = object->probe_info->sampler;
	struct attachment at = attachment_to(probes, bpf, objects, index);
	size_t first = probes->site_nr;
	struct reason why_not = {};
	int err = 0;

	if (!places->nr || check_sampler_places(&at, places, &why_not)) {
		say_unused(object, places->nr ? why_not.text : places->fault, why);
		return 0;
	}
	for (size_t i = 0; i < places->nr && !err; i++)
		err = add_sampler_site(probes, index, &places->place[i], sampler_places_tell_frees(places));
	if (err) {
		forget_sampler_sites(probes, first, probes->site_nr - first);
		return err;
	}
	err = attach_sampler_sites(probes, bpf, objects, first, &why_not);
	if (!err && !sampler_sites_are_probed(probes, index))
		say_unused(object, *why_not.text ? why_not.text : "the kernel refuses", why);
	return err;
}

bool sampler_sites_are_probed(const struct probes *probes, uint32_t object)
{
	return array_any(probes->site_nr, i,
			 probes->site[i].object == object && shape_is_sampler(probes->site[i].shape));
}
