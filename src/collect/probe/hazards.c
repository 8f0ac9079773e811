// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/hazards.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "collect/bpf.h"
#include "collect/probe/attach_methods.h"
#include "collect/probe/probes.h"
#include "process/objects.h"
#include "process/proc.h"
#include "elf/allocators.h"
#include "sandbox/client.h"
#include "shared/bpf_types.h"

/* ---- from return probes to probes at returns, during a recording ---- */

static int drop_site(struct probes *probes, struct probe_site *site)
{
	site->is_attached = false;
	return array_push(probes, dropped, site->object);
}

static bool gives_out(const struct probe_site *site)
{
	return site->is_attached && !shape_is_free(site->shape);
}

static bool has_return(const struct probe_site *site)
{
	return gives_out(site) && !shape_is_reported(site->shape);
}

/* Adds the site's returns, or drops the site. 0, or an error for which is_of_process() holds. */
static int add_rets_or_drop(const struct attachment *at, struct probe_site *site,
			    struct probe_places *ret, struct reason *why)
{
	struct reason why_not = {};
	int err = add_rets(at, site, ret, &why_not);

	if (!err || is_of_process(err))
		return err;
	log_not_probed(at, site, err, &why_not, why);
	return drop_site(at->probes, site);
}

/* Attaches the returns of all sites of one object; sets sites->nr to their number. */
static int attach_rets_of(struct probes *probes, const struct allocsnap_bpf *bpf,
			  const struct objects *objects, struct probe_sites *sites,
			  struct reason *why)
{
	uint32_t object = probes->site[sites->first].object;
	struct attachment at = attachment_to(probes, bpf, objects, object);
	struct probe_places rets = {};
	size_t i = sites->first, known = probes->ret_nr;
	int err = 0;

	for (; i < probes->site_nr && probes->site[i].object == object && !err; i++)
		if (has_return(&probes->site[i]))
			err = add_rets_or_drop(&at, &probes->site[i], &rets, why);
	sites->nr = i - sites->first;
	err = err ?: attach_places(&at, PROBE_RET, &rets, sites);
	if (err)
		probes->ret_nr = known;
	free(rets.place);
	return err;
}

/* Adds only probes at returns, which do nothing yet: if this fails, everything stays as it was. */
static int attach_all_rets(struct probes *probes, const struct allocsnap_bpf *bpf,
			   const struct objects *objects, struct reason *why)
{
	struct probe_sites sites = {};
	int err = 0;

	for (; sites.first < probes->site_nr && !err; sites.first += sites.nr) {
		sites.nr = 1;
		if (probes->site[sites.first].object != OBJECT_NONE)
			err = attach_rets_of(probes, bpf, objects, &sites, why);
	}
	return err;
}

static int tell_kernel(const struct probes *probes, const struct allocsnap_bpf *bpf)
{
	struct process_request args = { .slot = probes->slot };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &args, .ctx_size_in = sizeof(args));

	if (probes->is_trial)
		return 0;
	return bpf_prog_test_run_opts(bpf_program__fd(bpf->progs.process_switch), &opts) ?: (int)opts.retval;
}

/* ---- dropped sites ---- */

static bool has_dropped(const struct probes *probes, const struct probe_link *link)
{
	for (size_t i = link->first; i < link->first + link->nr; i++)
		if (!probes->site[i].is_attached && !shape_is_free(probes->site[i].shape))
			return link->end == PROBE_ENTRY && !link->frees;
	return false;
}

/*
 * Attaches a second link with only the entries that stay. A call that comes while both links exist starts twice
 * at one place: the first start is counted as a call that did not return.
 */
static int attach_kept(struct probes *probes, const struct allocsnap_bpf *bpf,
		       const struct objects *objects, const struct probe_link *link)
{
	const struct probe_sites sites = { link->first, link->nr, link->frees };
	struct attachment at =
		attachment_to(probes, bpf, objects, probes->site[link->first].object);
	struct probe_places entries = {};
	int err = 0;

	for (size_t i = sites.first; i < sites.first + sites.nr && !err; i++)
		if (gives_out(&probes->site[i]))
			err = array_push(&entries, place, site_entry(probes, &probes->site[i]));
	err = err ?: attach_places(&at, PROBE_ENTRY, &entries, &sites);
	free(entries.place);
	return err;
}

static void drop_rest(struct probes *probes, const struct probe_link *link)
{
	for (size_t i = link->first; i < link->first + link->nr; i++)
		if (gives_out(&probes->site[i]))
			drop_site(probes, &probes->site[i]);
}

/* Replaces links of several entries; a link with only one entry just ends. */
static void replace_entries(struct probes *probes, const struct allocsnap_bpf *bpf,
			    const struct objects *objects)
{
	size_t nr = probes->link_nr; /* new links are appended behind these */

	for (size_t i = 0; i < nr; i++) {
		const struct probe_link link = probes->link[i];

		if (has_dropped(probes, &link) && attach_kept(probes, bpf, objects, &link))
			drop_rest(probes, &link);
	}
	for (size_t i = 0; i < nr; i++)
		probes->link[i].is_over = has_dropped(probes, &probes->link[i]);
}

static void detach_over(struct probes *probes)
{
	for (size_t i = 0; i < probes->link_nr; i++)
		if (probes->link[i].is_over)
			detach_link(probes, &probes->link[i]);
	array_keep(probes, link, i, !probes->link[i].is_over);
	detach_settle(probes);
}

/*
 * Earlier calls still wait for their return probes; calls of threads that do not run wait longest. A call that takes
 * longer than this pause is counted as not returned.
 */
static void detach_returns(struct probes *probes)
{
	static const struct timespec settle = { .tv_nsec = 100000000 };
	bool have_returns = false;

	for (size_t i = 0; i < probes->link_nr; i++) {
		probes->link[i].is_over = probes->link[i].end == PROBE_RETURN;
		have_returns |= probes->link[i].is_over;
	}
	if (have_returns)
		nanosleep(&settle, NULL);
	detach_over(probes);
}

int probes_switch(struct probes *probes, const struct allocsnap_bpf *bpf,
		  const struct objects *objects, struct reason *why)
{
	int err;

	probes->by_ret = true;
	err = attach_all_rets(probes, bpf, objects, why) ?: tell_kernel(probes, bpf);
	for (size_t i = 0; i < probes->site_nr && err; i++)
		if (has_return(&probes->site[i]))
			drop_site(probes, &probes->site[i]);
	replace_entries(probes, bpf, objects);
	detach_over(probes);
	detach_returns(probes);
	return err;
}

/* ---- threads ---- */

/* Reads the walk's output up to a thread at risk. 1 with the thread; 0: no thread is at risk; or a negative errno. */
static int read_risky_thread(int fd, bool has_sessions, struct risky_thread *ret)
{
	struct risky_thread found[512];
	ssize_t got;

	while ((got = read(fd, found, sizeof(found))) > 0)
		for (size_t i = 0; i < got / sizeof(*found); i++)
			if (found[i].is_intercepted || !has_sessions) {
				*ret = found[i];
				return 1;
			}
	return got ? -errno : 0;
}

/* Asks the kernel. Results as of read_risky_thread(). */
static int find_risky_thread(const struct allocsnap_bpf *bpf, pid_t pid, struct risky_thread *ret)
{
	union bpf_iter_link_info of_process = { .task.pid = pid };
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &of_process,
		    .link_info_len = sizeof(of_process));
	struct bpf_link *link = bpf_program__attach_iter(bpf->progs.risky_threads, &opts);
	int fd, found;

	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	found = fd < 0 ? fd : read_risky_thread(fd, probes_have_sessions(bpf), ret);
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	return found;
}

int hazard_of_threads(const struct allocsnap_bpf *bpf, pid_t pid, struct reason *ret)
{
	struct risky_thread thread;
	int found = find_risky_thread(bpf, pid, &thread);

	if (!found || found == -ESRCH)
		return found;
	if (found < 0)
		reason_set(ret, 0, "its threads cannot be looked at: %s", strerror(-found));
	else
		reason_set(ret, 0, "its thread %u %s", thread.tid,
			   thread.is_intercepted ? "handles its system calls itself" : "has an alternate signal stack");
	return 1;
}

/* ---- tracers ---- */

int hazard_of_tracer(pid_t pid, struct reason *ret)
{
	uint64_t tracer = 0;
	char *comm;

	if (proc_status(pid, "TracerPid", &tracer) || !tracer || (pid_t)tracer == getpid())
		return 0;
	comm = proc_text(tracer, "comm");
	reason_set(
		ret, 0,
		"process %d is traced by %d (%s), which can see a system call at each return of an allocator function (uretprobe, 335); --no-return-probes avoids that",
		pid, (int)tracer, comm ?: "?");
	free(comm);
	return 1;
}

/* ---- objects ---- */

/*
 * These libraries have such names but switch stacks only between allocator calls, and only on request: the
 * asynchronous jobs of OpenSSL.
 */
static const char *const harmless[] = { "libcrypto.so*" };

static bool is_harmless(const char *path)
{
	return array_any(ARRAY_SIZE(harmless), i, !fnmatch(harmless[i], path_name(path), 0)) ||
	       allocator_of(path)->is_c_library;
}

int hazard_of_object(struct sandbox *sandbox, const struct object *object, struct reason *ret)
{
	const char *what;
	int err;

	if (!object->probe_info || is_harmless(object->path))
		return 0;
	err = sandbox__stack_switch(sandbox, object->fd, &what);
	if (err == -EIO)
		what = "may switch stacks, and reading it has failed";
	else if (err)
		return err == -ENOMEM ? err : 0;
	reason_set(ret, 0, "%s %s", object->path, what);
	return 1;
}
