// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/attach.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/bpf.h"
#include "collect/objects.h"
#include "collect/proc.h"
#include "elf/object_facts.h"
#include "collect/uprobe_multi.h"
#include "parser/parser.h"

#define ENOTSUPP 524 /* include/linux/errno.h: not for user space, but uprobes let it out */

/* Where and to whom the sites first … site_nr are attached. */
struct attachment {
	struct probes *probes;
	const struct allocsnap_bpf *bpf;
	struct parser *parser;
	const struct object *object;
	char path[64];
	size_t first;
};

/* /proc/self/fd leads to the very file that was looked at, whatever its path means by now. */
static struct attachment attachment_to(struct probes *probes, const struct allocsnap_bpf *bpf,
				       const struct objects *objects, uint32_t index)
{
	const struct object *object = objects->object[index];
	struct attachment at = {
		.probes = probes, .bpf = bpf, .parser = objects->parser, .object = object,
	};

	snprintf(at.path, sizeof(at.path), "/proc/self/fd/%d", object->fd);
	return at;
}

static uint64_t site_offset(const struct probe_site *site)
{
	return site->offset + site->placement.offset;
}

static uint64_t site_cookie(const struct probes *probes, const struct probe_site *site)
{
	return SITE_COOKIE(site - probes->site, site->shape, site->layer, site->domain) |
	       CUSTOM_CALL_COOKIE(site->custom_call) | (site->of_heap ? COOKIE_OF_HEAP : 0) |
	       (site->throws ? COOKIE_BY_RET : 0);
}

/* ---- at once ---- */

static int attach_multi_link(const struct attachment *at, const struct bpf_program *program,
			     struct uprobe_multi *uprobes)
{
	int err, fd;

	if (at->probes->is_trial)
		return 0;
	uprobes->path = at->path;
	uprobes->pid = at->probes->pid;
	uprobes->attach_type = bpf_program__expected_attach_type(program);
	fd = uprobe_multi_attach(bpf_program__fd(program), uprobes);
	if (fd < 0)
		return fd;
	err = array_push(at->probes, multi_fd, fd);
	if (err)
		close(fd);
	return err;
}

static const struct bpf_program *program_of(const struct attachment *at, bool frees)
{
	return frees ? at->bpf->progs.enter_call : at->bpf->progs.session_call;
}

static int attach_multi(const struct attachment *at, bool frees)
{
	struct probes *probes = at->probes;
	size_t most = probes->site_nr - at->first;
	uint64_t offset[most], cookie[most];
	struct uprobe_multi uprobes = { .offset = offset, .cookie = cookie };

	for (size_t i = at->first; i < probes->site_nr; i++) {
		const struct probe_site *site = &probes->site[i];

		if (shape_is_free(site->shape) != frees || site->throws)
			continue;
		offset[uprobes.nr] = site_offset(site);
		cookie[uprobes.nr++] = site_cookie(probes, site);
	}
	return uprobes.nr ? attach_multi_link(at, program_of(at, frees), &uprobes) : 0;
}

/* All or none. */
static int attach_all(const struct attachment *at)
{
	size_t link_nr = at->probes->multi_fd_nr;
	int err = attach_multi(at, true);

	if (!err)
		err = attach_multi(at, false);
	while (err && at->probes->multi_fd_nr > link_nr)
		close(at->probes->multi_fd[--at->probes->multi_fd_nr]);
	for (size_t i = at->first; i < at->probes->site_nr && !err; i++)
		at->probes->site[i].is_attached = !at->probes->site[i].throws;
	return err;
}

/* ---- one by one ---- */

static int attach_session(const struct attachment *at, const struct probe_site *site)
{
	uint64_t offset = site_offset(site), cookie = site_cookie(at->probes, site);
	struct uprobe_multi alone = { .nr = 1, .offset = &offset, .cookie = &cookie };

	return attach_multi_link(at, program_of(at, shape_is_free(site->shape)), &alone);
}

/* A perf event belongs to a task; -1: to all. */
static pid_t task_of(const struct probes *probes)
{
	return probes->pid ? proc_live_thread(probes->pid) : -1;
}

static int attach_link(const struct attachment *at, size_t site, enum probe_end end,
		       uint64_t offset, uint64_t cookie)
{
	struct bpf_program *const program[] = {
		[PROBE_ENTRY] = at->bpf->progs.enter_call,
		[PROBE_RETURN] = at->bpf->progs.leave_call,
		[PROBE_RET] = at->bpf->progs.leave_by_ret,
	};
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = end == PROBE_RETURN, .bpf_cookie = cookie);
	struct probe_link link = { .site = site, .end = end };
	int err;

	if (at->probes->is_trial)
		return 0;
	link.link = bpf_program__attach_uprobe_opts(program[end], task_of(at->probes), at->path,
						    offset, &opts);
	if (!link.link)
		return -errno;
	err = array_push(at->probes, link, link);
	if (err)
		bpf_link__destroy(link.link);
	return err;
}

static int attach_end(const struct attachment *at, const struct probe_site *site,
		      enum probe_end end)
{
	return attach_link(at, site - at->probes->site, end, site_offset(site),
			   site_cookie(at->probes, site));
}

static bool is_ret_probed(const struct probes *probes, const struct probed_ret *ret)
{
	for (size_t i = 0; i < probes->ret_nr; i++)
		if (probes->ret[i].object == ret->object && probes->ret[i].offset == ret->offset)
			return true;
	return false;
}

static int attach_ret(const struct attachment *at, const struct probe_site *site,
		      const struct object_return *place, struct reason *why)
{
	struct probed_ret ret = {
		.object = site->object,
		.offset = place->offset,
		.cookie = place->is_in_argument ? RESULT_IS_ARGUMENT : RESULT_IS_RETURNED,
	};
	int err = 0;

	if (is_ret_probed(at->probes, &ret))
		return 0;
	if (ret.offset == site_offset(site))
		return reason_set(why, -ENOTSUP, "it returns at its entry");
	if (!probes_have_sessions(at->bpf)) /* else attach_throwing() attaches all at once */
		err = attach_link(at, site - at->probes->site, PROBE_RET, ret.offset, ret.cookie);
	if (err)
		return reason_set(why, err, "%s", err == -ENOTSUPP ?
				  "the kernel cannot probe its return" : strerror(-err));
	return array_push(at->probes, ret, ret);
}

/*
 * A function that throws and jumps on to another allocator function: that one returns for it, and is
 * not seen to while a call of this one is pending. -EALREADY: all its calls are that one's.
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

#define RETS_MAX 1000 /* of an object; then no more functions: each new one is compared with all */

static size_t rets_of(const struct probes *probes, uint32_t object)
{
	size_t nr = 0;

	for (size_t i = 0; i < probes->ret_nr; i++)
		nr += probes->ret[i].object == object;
	return nr;
}

/* Wherever calls of the site's function return. */
static int attach_rets(const struct attachment *at, const struct probe_site *site,
		       struct reason *why)
{
	struct object_returns returns = {};
	int err;

	if (rets_of(at->probes, site->object) > RETS_MAX)
		return reason_set(why, -ENOTSUP, "its file has too many returns");
	err = parser__returns(at->parser, at->object->fd, site->vaddr, &returns, why);
	if (!err)
		err = check_jumps(at, site, &returns, why);
	for (uint32_t i = 0; i < returns.place_nr && !err; i++)
		err = attach_ret(at, site, &returns.place[i], why);
	object_returns_release(&returns);
	return err;
}

/* The return first: an entry alone would leave a call pending for ever. */
static int attach_pair(const struct attachment *at, const struct probe_site *site,
		       struct reason *why)
{
	int err = 0;

	if (!shape_is_free(site->shape))
		err = at->probes->by_ret || site->throws ? attach_rets(at, site, why) :
							   attach_end(at, site, PROBE_RETURN);
	return err ?: attach_end(at, site, PROBE_ENTRY);
}

/* The kernel removes perf uprobes one after another: of mimalloc's 84 functions that took 39 s. */
static int attach_alone(const struct attachment *at, const struct probe_site *site,
			struct reason *why)
{
	if (probes_have_sessions(at->bpf))
		return attach_session(at, site);
	if (site->is_seldom)
		return reason_set(why, -ENOTSUP, "it is seldom called, and without uprobe sessions "
						 "each probe takes long to remove");
	return attach_pair(at, site, why);
}

static int attach_site(const struct attachment *at, struct probe_site *site, struct reason *why)
{
	int err = attach_alone(at, site, why);

	site->is_attached = !err;
	site->is_another = err == -EALREADY;
	return site->is_another ? 0 : err;
}

static void say_not_probed(const struct attachment *at, const struct probe_site *site, int err,
			   const struct reason *why_not, struct reason *why)
{
	const char *what = *why_not->text    ? why_not->text :
			   err == -ENOTSUPP ? "the kernel cannot probe its first instruction" :
					      strerror(-err);

	reason_set(why, err, "cannot probe %s in %s%s: %s", site->function, at->object->path,
		   at->probes->by_ret ? " without return probes" : "", what);
}

static bool is_of_process(int err)
{
	return err == -EPERM || err == -EACCES || err == -ESRCH || err == -ENOMEM;
}

static int attach_each(const struct attachment *at, bool frees, struct reason *why)
{
	for (size_t i = at->first; i < at->probes->site_nr; i++) {
		struct probe_site *site = &at->probes->site[i];
		struct reason why_not = {};
		int err;

		if (shape_is_free(site->shape) != frees ||
		    (site->throws && probes_have_sessions(at->bpf)))
			continue;
		err = attach_site(at, site, &why_not);
		if (!err)
			continue;
		say_not_probed(at, site, err, &why_not, why);
		if (is_of_process(err))
			return err;
	}
	return 0;
}

/* ---- functions that throw, where others have sessions ---- */

/* Where it returns is noted; false: it can't be probed, or need not be. */
static bool note_rets(const struct attachment *at, struct probe_site *site, struct reason *why)
{
	struct reason why_not = {};
	int err = attach_rets(at, site, &why_not);

	site->is_another = err == -EALREADY;
	if (err && !site->is_another)
		say_not_probed(at, site, err, &why_not, why);
	return !err;
}

static int attach_noted_rets(const struct attachment *at, size_t first)
{
	const struct probes *probes = at->probes;
	size_t nr = probes->ret_nr - first;
	uint64_t offset[nr + 1], cookie[nr + 1];
	struct uprobe_multi uprobes = { .nr = nr, .offset = offset, .cookie = cookie };

	for (size_t i = 0; i < nr; i++) {
		offset[i] = probes->ret[first + i].offset;
		cookie[i] = probes->ret[first + i].cookie;
	}
	return nr ? attach_multi_link(at, at->bpf->progs.leave_by_ret, &uprobes) : 0;
}

/* The returns first, as with pairs. */
static int attach_throwing(const struct attachment *at, struct reason *why)
{
	struct probes *probes = at->probes;
	size_t first_ret = probes->ret_nr, most = probes->site_nr - at->first;
	uint64_t offset[most], cookie[most];
	struct uprobe_multi entries = { .offset = offset, .cookie = cookie };
	int err;

	for (size_t i = at->first; i < probes->site_nr; i++) {
		struct probe_site *site = &probes->site[i];

		if (!site->throws || !note_rets(at, site, why))
			continue;
		site->is_attached = true;
		offset[entries.nr] = site_offset(site);
		cookie[entries.nr++] = site_cookie(probes, site);
	}
	if (!entries.nr)
		return 0;
	err = attach_noted_rets(at, first_ret);
	if (!err)
		err = attach_multi_link(at, at->bpf->progs.enter_call, &entries);
	for (size_t i = at->first; i < probes->site_nr && err; i++)
		probes->site[i].is_attached &= !probes->site[i].throws;
	return is_of_process(err) ? err : 0;
}

int attach_sites(struct probes *probes, const struct allocsnap_bpf *bpf,
		 const struct objects *objects, size_t first, struct reason *why)
{
	struct attachment at;
	int err;

	if (first == probes->site_nr)
		return 0;
	at = attachment_to(probes, bpf, objects, probes->site[first].object);
	at.first = first;
	/* Where one of them can't be probed, the others still can. */
	err = probes_have_sessions(bpf) ? attach_all(&at) : -ENOTSUP;
	if (err)
		err = attach_each(&at, true, why) ?: attach_each(&at, false, why);
	return err || !probes_have_sessions(bpf) ? err : attach_throwing(&at, why);
}

/* ---- without return probes ---- */

static int drop_site(struct probes *probes, struct probe_site *site)
{
	site->is_attached = false;
	return array_push(probes, dropped, site->object);
}

/* Only probes on returns are added, which do nothing yet: this can fail and leave all as it was. */
static int attach_all_rets(struct probes *probes, const struct allocsnap_bpf *bpf,
			   const struct objects *objects, struct reason *why)
{
	for (size_t i = 0; i < probes->site_nr; i++) {
		struct probe_site *site = &probes->site[i];
		struct attachment at = attachment_to(probes, bpf, objects, site->object);
		struct reason why_not = {};
		int err;

		if (!site->is_attached || shape_is_free(site->shape))
			continue;
		err = attach_rets(&at, site, &why_not);
		if (is_of_process(err))
			return err;
		if (!err)
			continue;
		say_not_probed(&at, site, err, &why_not, why);
		err = drop_site(probes, site);
		if (err)
			return err;
	}
	return 0;
}

static void detach_returns(struct probes *probes)
{
	size_t kept = 0;

	for (size_t i = 0; i < probes->link_nr; i++) {
		const struct probe_link *link = &probes->link[i];

		if (link->end == PROBE_RETURN ||
		    (link->end == PROBE_ENTRY && !probes->site[link->site].is_attached))
			bpf_link__destroy(link->link);
		else
			probes->link[kept++] = *link;
	}
	probes->link_nr = kept;
}

static int tell_kernel(const struct probes *probes, const struct allocsnap_bpf *bpf)
{
	struct process_request args = { .tgid = probes->pid };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &args, .ctx_size_in = sizeof(args));
	int err;

	if (probes->is_trial)
		return 0;
	err = bpf_prog_test_run_opts(bpf_program__fd(bpf->progs.process_switch), &opts);
	return err ?: (int)opts.retval;
}

int probes_switch(struct probes *probes, const struct allocsnap_bpf *bpf,
		  const struct objects *objects, struct reason *why)
{
	int err;

	probes->by_ret = true;
	err = attach_all_rets(probes, bpf, objects, why);
	if (!err)
		err = tell_kernel(probes, bpf);
	for (size_t i = 0; i < probes->site_nr && err; i++)
		if (probes->site[i].is_attached && !shape_is_free(probes->site[i].shape))
			drop_site(probes, &probes->site[i]);
	detach_returns(probes);
	return err;
}
