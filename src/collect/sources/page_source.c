// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/page_source.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "collect/probe/late_programs.h"
#include "collect/build/build_metadata.h"
#include "collect/recording/map_shares.h"
#include "collect/sources/block_sources.h"
#include "collect/sources/page_join.h"
#include "snapshot.h"

struct page_state {
	const struct page_hearing *hearing;
	struct page_events events;
	struct page_runs older;	   /* resident when the recording began, or its traces were cleared */
	struct page_runs resident; /* at the last pass; none: the process had ended */
	struct page_sums sums;	   /* of resident */
	uint64_t files_bytes, shared_bytes; /* resident beside them */
	uint64_t image, exec_cnt;  /* at the last pass; image 0: none yet */
	uint32_t shift;		   /* struct all_pages */
	bool is_unseen;		   /* nothing else sees the process */
	bool is_left;		   /* something does now; the snapshots of the last pass are still of its pages */
};

static bool pages_are_used(const struct target *target)
{
	return target->pages.state && !target->pages.state->is_left;
}

/* ---- the recording ---- */

/* Blocks of an allocator are chosen by other means: to the rest of the recording no samples were asked for. */
static int choose_samples(struct collector_options *options, struct all_pages *pages, struct reason *why)
{
	while (pages->shift < PAGE_SHIFT_MOST && PAGE_BYTES << pages->shift < options->sample_bytes)
		pages->shift++;
	if (PAGE_BYTES << pages->shift != options->sample_bytes)
		return reason_set(why, -EINVAL, "--domain pages has samples of one page in 8K, 16K, 32K or 64K");
	options->sample_bytes = 0;
	return 0;
}

/* One page in eight. Nothing measures the cost, so a small budget leaves them out. */
static void choose_unseen(struct collector_options *options, struct all_pages *pages)
{
	bool fits = !options->max_overhead || options->max_overhead >= COLLECTOR_PAGES_OVERHEAD;

	options->unseen_pages &= fits && pages_are_known() && !options->min_size && !options->max_size && !options->injects && !pages->is_wanted;
	if (options->unseen_pages)
		pages->shift = 3;
}

static int choose_pages(struct collector *collector, struct reason *why)
{
	struct collector_options *options = &collector->options;
	const struct {
		bool is_given;
		const char *name;
	} others[] = {
		{ options->domains & ~COLLECTOR_PAGES, "another domain: pages and blocks are the same memory, so record one after the other" },
		{ options->max_overhead, "--max-overhead, which measures probes" },
		{ options->min_size || options->max_size, "--min-size or --max-size" },
		{ options->probe_nr, "--probe" },
		{ options->run_interval_bytes, "--fast" },
		{ options->injects, "--inject and --exact" },
	};

	struct all_pages *pages = &collector->sources->pages;

	pages->is_wanted = options->domains & COLLECTOR_PAGES;
	for (size_t i = 0; i < ARRAY_SIZE(others) && pages->is_wanted; i++)
		if (others[i].is_given)
			return reason_set(why, -EINVAL, "--domain pages goes without %s", others[i].name);
	if (pages->is_wanted && !pages_are_known())
		return reason_set(why, -ENOTSUP, "--domain pages knows only pages of %d bytes, and this kernel's have %ld",
				  (int)PAGE_BYTES, sysconf(_SC_PAGESIZE));
	choose_unseen(options, pages);
	return pages->is_wanted && options->sample_bytes ? choose_samples(options, pages, why) : 0;
}

static int configure_pages(struct collector *collector, struct allocsnap_bpf *bpf)
{
	late_programs_leave_out(bpf, LATE_RMAP);
	late_programs_leave_out(bpf, LATE_PAGES);
	late_programs_leave_out(bpf, LATE_TRACEPOINTS);
	bpf->rodata->pages_since_ns = monotonic_now_ns();
	bpf->rodata->pages_shift = collector->sources->pages.shift;
	bpf->rodata->pages_of_all = collector->sources->pages.is_wanted;
	return 0;
}

/* A descriptor, or a negative errno. */
static int page_program(struct collector *collector)
{
	const struct bpf_program *program;
	int err = late_programs_find(&collector->late, collector->bpf, LATE_PAGE_FAULT, &program);

	return err ?: bpf_program__fd(program);
}

/* If the user has not asked for pages, processes that are not recorded do not pay for them, where that is possible. */
static int hear_of_pages(struct collector *collector)
{
	struct all_pages *pages = &collector->sources->pages;

	return page_hearing_begin(&pages->hearing, &collector->late, collector->bpf, !pages->is_wanted);
}

static int open_pages(struct collector *collector, struct reason *why)
{
	struct all_pages *pages = &collector->sources->pages;
	int err = 0;

	if (pages->is_wanted)
		err = hear_of_pages(collector);
	if (!err && pages->is_wanted && pages->hearing.way->has_events && collector->options.system_wide)
		err = page_events_open_all(&pages->events, page_program(collector));
	return err ? reason_set(why, err, "cannot watch page faults: %s", strerror(-err)) : 0;
}

static void close_pages(struct collector *collector)
{
	page_events_close(&collector->sources->pages.events);
	page_hearing_end(&collector->sources->pages.hearing);
}

static bool loads_pages_later(const struct collector *collector)
{
	return collector->options.unseen_pages;
}

/* ---- a process ---- */

static void end_pages(struct collector *collector, struct target *target)
{
	struct page_state *state = target->pages.state;

	(void)collector;
	if (!state)
		return;
	page_events_close(&state->events);
	page_runs_release(&state->older);
	page_runs_release(&state->resident);
	free(state);
	target->pages.state = NULL;
}

/* has_own: its events are its own, and not its parent's or every process's. */
static int begin_page_state(struct collector *collector, struct target *target, bool has_own, struct reason *why)
{
	struct page_state *state = target->pages.state = calloc(1, sizeof(*state));
	int program_fd, err = 0;

	if (!state)
		return -ENOMEM;
	state->shift = collector->sources->pages.shift;
	state->hearing = &collector->sources->pages.hearing;
	if (has_own && state->hearing->way->has_events) {
		program_fd = page_program(collector);
		err = program_fd < 0 ? program_fd :
		      page_events_open(&state->events, target->identity.pid, !collector->options.unseen_pages, program_fd);
	}
	return err ? reason_set(why, err, "cannot watch page faults of process %d: %s", target->identity.pid, strerror(-err)) : 0;
}

/* ---- a process that nothing else sees ---- */

#define JUDGE_AFTER_NS (SECOND_NS / 5)

/* A program that has mapped a heap may have blocks of it, also if the file is not mapped any more. */
static bool is_seen_otherwise(const struct target *target)
{
	const struct mappings *mappings = &target->mappings;

	for (const struct block_source *const *source = block_sources; *source; source++)
		if (*source != &page_source && (*source)->is_used && (*source)->is_used(target))
			return true;
	return array_any(mappings->used_nr, i, object_has_heap(mappings_used(mappings, i)));
}

static void set_pages_image(struct collector *collector, const struct target *target, uint64_t image)
{
	__atomic_store_n(&collector->targets.accounts.process[target->slot].pages_image, image, __ATOMIC_SEQ_CST);
}

/* The list of older pages is read last, so that a page that comes meanwhile has an event or is in the list. */
static int begin_unseen(struct collector *collector, struct target *target, struct reason *why)
{
	const struct process *account = account_of(&collector->targets, target->slot);
	int err = hear_of_pages(collector);

	err = err ? reason_set(why, err, "cannot watch page faults: %s", strerror(-err)) :
		    begin_page_state(collector, target, true, why);
	if (!err) {
		target->pages.state->is_unseen = true;
		set_pages_image(collector, target, target->now.account.image ?: account->image);
	}
	if (!err && account->is_open)
		err = page_runs_read(target->identity.pid, &target->pages.state->older);
	if (err) {
		set_pages_image(collector, target, 0);
		end_pages(collector, target);
	}
	return err;
}

/*
 * Another source sees it now: its pages are forgotten, as pages and blocks are the same memory. Blocks that the source has
 * seen meanwhile stay. What was shown of the pages is not compared with them.
 */
static void leave_unseen(struct collector *collector, struct target *target)
{
	struct process *account = &collector->targets.accounts.process[target->slot];

	set_pages_image(collector, target, 0);
	page_events_close(&target->pages.state->events);
	target->pages.state->is_left = true;
	__atomic_store_n(&account->pages_bytes, 0, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&account->clear_cnt, 1, __ATOMIC_SEQ_CST);
}

static void note_refusal(struct collector *collector, const struct target *target, const struct reason *why, int err)
{
	if (!collector->sources->pages.is_refusal_noted && err != -ESRCH)
		notes_add(&collector->notes, "%s (PID %d): nothing sees its memory, and its pages are not recorded: %s; further such "
			  "processes are not named", target->identity.comm, target->identity.pid, *why->text ? why->text : strerror(-err));
	collector->sources->pages.is_refusal_noted |= err != -ESRCH;
}

/* A process that runs already is judged at once; then its recording depends on it. */
static int attach_unseen(struct collector *collector, struct target *target, struct reason *why)
{
	bool is_seen = is_seen_otherwise(target), is_own = !target->now.account.memory_of;

	if (is_seen && pages_are_used(target))
		leave_unseen(collector, target);
	target->pages.judge_ns = 0;
	if (is_seen || target->pages.state || !is_own)
		return 0;
	if (!collector->options.system_wide)
		return begin_unseen(collector, target, why);
	target->pages.judge_ns = monotonic_now_ns() + JUDGE_AFTER_NS;
	return 0;
}

/* Returns when to look again, in ns. */
static uint64_t judge_unseen(struct collector *collector, struct target *target)
{
	struct target_pages *pages = &target->pages;
	uint64_t now_ns = monotonic_now_ns();
	struct reason why = {};
	int err;

	if (target->life.has_ended || target->slot == ACCOUNT_NONE)
		return UINT64_MAX;
	if (pages_are_used(target) && is_seen_otherwise(target))
		leave_unseen(collector, target);
	if (!pages->judge_ns)
		return UINT64_MAX;
	if (now_ns < pages->judge_ns)
		return pages->judge_ns - now_ns;
	pages->judge_ns = 0;
	err = is_seen_otherwise(target) ? 0 : begin_unseen(collector, target, &why);
	if (err)
		note_refusal(collector, target, &why, err);
	return UINT64_MAX;
}

static uint64_t judge_all_unseen(struct collector *collector)
{
	uint64_t least_ns = UINT64_MAX;

	for (size_t i = 0; i < collector->targets.target_nr && collector->options.unseen_pages; i++) {
		uint64_t wait_ns = judge_unseen(collector, collector->targets.target[i]);

		least_ns = wait_ns < least_ns ? wait_ns : least_ns;
	}
	return least_ns;
}

/* ---- any process ---- */

/* A child has its parent's events. */
static int attach_pages(struct collector *collector, struct target *target, struct reason *why)
{
	bool has_own = !collector->options.system_wide && !target->now.account.parent;

	if (collector->options.unseen_pages)
		return attach_unseen(collector, target, why);
	if (!collector->sources->pages.is_wanted || target->pages.state)
		return 0;
	return begin_page_state(collector, target, has_own, why);
}

/* Called before the account opens, if the process runs already. */
static int read_older_pages(struct collector *collector, const struct target *target, struct reason *why)
{
	struct page_state *state = target->pages.state;
	int err;

	if (!state || target->slot == ACCOUNT_NONE || account_of(&collector->targets, target->slot)->is_open)
		return 0;
	err = page_runs_read(target->identity.pid, &state->older);
	return err ? reason_set(why, err, "cannot read the pages of process %d: %s", target->identity.pid, strerror(-err)) : 0;
}

/* The next program may be seen otherwise. */
static void forget_older_pages(struct target *target)
{
	if (target->pages.state && target->pages.state->is_unseen)
		end_pages(NULL, target);
	else if (target->pages.state)
		page_runs_release(&target->pages.state->older);
}

/* ---- a pass ---- */

/* A process that has ended has none. */
static void read_pages_of(struct page_state *state, const struct target *target)
{
	uint64_t kib = 0;

	page_runs_release(&state->resident);
	if (target->life.has_ended || page_runs_read(target->identity.pid, &state->resident))
		return;
	state->files_bytes = proc_status(target->identity.pid, "RssFile", &kib) ? 0 : kib * 1024;
	state->shared_bytes = proc_status(target->identity.pid, "RssShmem", &kib) ? 0 : kib * 1024;
}

static void read_resident_pages(struct collector *collector)
{
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *target = collector->targets.target[i];

		if (pages_are_used(target))
			read_pages_of(target->pages.state, target);
		else
			end_pages(collector, target);
	}
}

/* The leaves of all images, by image and number. */
struct leaves {
	struct map_copy copy;
	struct found_leaf *leaf;
	size_t leaf_nr;
};

static int by_image_and_number(const void *a_, const void *b_)
{
	const struct found_leaf *a = a_, *b = b_;

	if (a->image != b->image)
		return a->image < b->image ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

static int read_leaves(int fd, struct leaves *leaves)
{
	int err = map_copy_read(&leaves->copy, fd, sizeof(struct page_key), sizeof(struct page_leaf));

	leaves->leaf_nr = err ? 0 : leaves->copy.nr;
	leaves->leaf = err ? NULL : calloc(leaves->leaf_nr + 1, sizeof(*leaves->leaf));
	if (!leaves->leaf)
		return err ?: -ENOMEM;
	for (size_t i = 0; i < leaves->leaf_nr; i++) {
		const struct page_key *key = (const struct page_key *)leaves->copy.key + i;

		leaves->leaf[i] = (struct found_leaf){
			.image = key->image, .number = key->leaf,
			.leaf = (const struct page_leaf *)leaves->copy.value + i,
		};
	}
	qsort(leaves->leaf, leaves->leaf_nr, sizeof(*leaves->leaf), by_image_and_number);
	return 0;
}

static struct found_leaf *leaves_of(const struct leaves *leaves, uint64_t image, size_t *ret_nr)
{
	size_t first = array_first(leaves->leaf_nr, i, leaves->leaf[i].image >= image);

	*ret_nr = array_first(leaves->leaf_nr - first, i, leaves->leaf[first + i].image > image);
	return leaves->leaf + first;
}

struct adding {
	struct drained_blocks *to;
	uint64_t image, since_ns, now_ns;
	uint32_t shift;
};

static int add_page_block(void *adding_, const struct page_block *page)
{
	const struct adding *adding = adding_;
	const struct block_key key = block_key_of(page->start, adding->image, LAYER_MAPPING);
	uint64_t birth_ns = adding->since_ns + ((page->birth + UINT64_C(1)) << PAGE_BIRTH_BITS);
	const struct block block = {
		.size = page->end - page->start,
		.traceback = page->traceback == PAGE_UNTRACED ? 0 : page->traceback,
		.birth_ns = birth_ns < adding->now_ns ? birth_ns : adding->now_ns,
		.domain = DOMAIN_PAGES,
		.weight = adding->shift ? (page->end - page->start) << adding->shift : 0,
	};

	return drained_blocks_add(adding->to, &key, &block);
}

/* After its traces were cleared, what is resident is older. */
static int note_image(struct page_state *state, const struct process *account)
{
	bool is_cleared = state->image && state->image != account->image && state->exec_cnt == account->exec_cnt;
	int err = 0;

	state->image = account->image;
	state->exec_cnt = account->exec_cnt;
	if (!is_cleared)
		return 0;
	page_runs_release(&state->older);
	for (size_t i = 0; i < state->resident.run_nr && !err; i++)
		err = array_push(&state->older, run, state->resident.run[i]);
	return err;
}

static int join_target(struct collector *collector, struct target *target, const struct leaves *leaves)
{
	struct page_state *state = target->pages.state;
	const struct process *account = &target->drained.account;
	struct adding adding = {
		&collector->pass.drain.blocks, account->image, collector->bpf->rodata->pages_since_ns, monotonic_now_ns(),
		collector->sources->pages.shift,
	};
	struct page_join join = {
		.resident = &state->resident, .older = &state->older, .is_forked = account->is_forked,
		.shift = adding.shift, .seed = collector->bpf->rodata->settings.hash_seed,
	};
	uint64_t *counter = target->drained.account.counter;
	int err;

	if (state->is_left) {
		state->image = 0; /* since this pass began: it has none */
		return 0;
	}
	err = note_image(state, account);
	join.leaf = leaves_of(leaves, account->image, &join.leaf_nr);
	if (err)
		return err;
	counter[COUNTER_allocations] += account->pages_bytes / PAGE_BYTES;
	counter[COUNTER_allocated_bytes] += account->pages_bytes;
	return state->resident.run_nr ? page_join(&join, add_page_block, &adding, &state->sums) :
					page_join_ended(&join, add_page_block, &adding);
}

/* ---- leaves that nothing needs ---- */

#define LEAF_REST_NS (10 * SECOND_NS) /* so old are the events of a leaf that goes */

/* Its pages are recorded, and what is resident is not known. */
static bool is_of_unread_pages(const struct collector *collector, const struct page_state *state)
{
	return state ? !state->is_left && !state->resident.run_nr : collector->sources->pages.is_wanted;
}

static bool is_leaf_needed(const struct collector *collector, const struct found_leaf *leaf)
{
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		const struct target *target = collector->targets.target[i];
		bool is_its = target->drained.account.image == leaf->image || target->now.account.image == leaf->image;

		if (is_its && is_of_unread_pages(collector, target->pages.state))
			return true;
	}
	return false;
}

/* An event may have come since the leaf was read: then it goes back. */
static void delete_leaf(struct collector *collector, int fd, const struct found_leaf *leaf)
{
	const struct page_key key = { leaf->image, leaf->number };
	struct page_leaf now;

	if (bpf_map_lookup_and_delete_elem(fd, &key, &now))
		return;
	if (!memcmp(&now, leaf->leaf, sizeof(now)) || bpf_map_update_elem(fd, &key, &now, BPF_NOEXIST))
		fair_note_leaf_removed(collector->bpf, &collector->targets, leaf->image);
}

static void delete_unused_leaves(struct collector *collector, int fd, const struct leaves *leaves)
{
	uint64_t age_ns = monotonic_now_ns() - collector->bpf->rodata->pages_since_ns;
	uint64_t before = age_ns > LEAF_REST_NS ? (age_ns - LEAF_REST_NS) >> PAGE_BIRTH_BITS : 0;

	for (size_t i = 0; i < leaves->leaf_nr; i++) {
		const struct found_leaf *leaf = &leaves->leaf[i];

		if (!leaf->is_resident && !array_any(LEAF_PAGES, at, leaf->leaf->birth[at] >= before) &&
		    !is_leaf_needed(collector, leaf))
			delete_leaf(collector, fd, leaf);
	}
}

static int join_pages(struct collector *collector)
{
	int fd = bpf_map__fd(collector->bpf->maps.page_leaves), err;
	struct leaves leaves = {};

	if (!collector->sources->pages.hearing.way)
		return 0;
	err = read_leaves(fd, &leaves);
	for (size_t i = 0; i < collector->targets.target_nr && !err; i++)
		if (collector->targets.target[i]->pages.state)
			err = join_target(collector, collector->targets.target[i], &leaves);
	if (!err)
		delete_unused_leaves(collector, fd, &leaves);
	free(leaves.leaf);
	map_copy_release(&leaves.copy);
	return err;
}

/* ---- a snapshot ---- */

static bool pages_hide_heap(const struct target *target)
{
	return pages_are_used(target) && target->pages.state->is_unseen;
}

/* Whether the last pass has its pages: another source may see it since. */
static bool has_drained_pages(const struct target *target)
{
	const struct page_state *state = target->pages.state;

	return state && (!state->is_left || state->image == target->drained.account.image);
}

static bool name_page_rate(const struct target *target)
{
	return has_drained_pages(target) && target->pages.state->shift;
}

static bool pages_are_samples(const struct target *target, const struct settings *settings)
{
	(void)settings;
	return name_page_rate(target);
}

/* How it is known what is resident; render/page_facts.c has words for each. */
static const char *name_scan(const struct page_state *state, const struct target *target)
{
	if (state->resident.run_nr)
		return state->resident.counts_zero_pages ? "with zeros" : "exact";
	return target->life.has_ended ? "none" : "unread";
}

static int describe_pages(struct snapshot_builder *builder, const struct target *target, const struct settings *settings)
{
	const char *why = sources_why_unused(target) ?: "no file that it maps defines malloc or another known allocator function";
	static const char *const key[] = {
#define X(name) "pages_" #name "_bytes",
		PAGE_SUMS(X)
#undef X
	};
	const struct page_state *state = target->pages.state;
	const struct number beside[] = {
		{ "pages_rss_files_bytes", state ? state->files_bytes : 0 },
		{ "pages_rss_shared_bytes", state ? state->shared_bytes : 0 },
	};
	int err;

	(void)settings;
	if (!has_drained_pages(target))
		return 0;
	err = snapshot_builder__domain_name(builder, DOMAIN_PAGES, "pages") ?:
	      snapshot_builder__metadata(builder, "pages_by", state->hearing->way->name) ?:
	      snapshot_builder__metadata(builder, "pages_scan", name_scan(state, target));
	if (!err && state->is_unseen)
		err = snapshot_builder__metadata(builder, "pages_why", why);
	for (size_t i = 0; i < ARRAY_SIZE(key) && !err && state->resident.run_nr; i++)
		err = describe_numbers(builder, &(struct number){ key[i], ((const uint64_t *)&state->sums)[i] }, 1);
	if (!err && state->shift)
		err = describe_numbers(builder, &(struct number){ "sample_bytes", PAGE_BYTES << state->shift }, 1);
	return err || !state->resident.run_nr ? err : describe_numbers(builder, beside, ARRAY_SIZE(beside));
}

static void add_page_losses(const struct target *target, uint64_t *loss)
{
	if (target->pages.state)
		loss[LOSS_page_moves_missed] += page_hearing_missed(target->pages.state->hearing);
}

const struct block_source page_source = {
	.domain = "pages",
	.domain_bit = COLLECTOR_PAGES,
	.choose = choose_pages,
	.configure = configure_pages,
	.open = open_pages,
	.close = close_pages,
	.loads_later = loads_pages_later,
	.attach = attach_pages,
	.check = read_older_pages,
	.forget_program = forget_older_pages,
	.end = end_pages,
	.keep_cost = judge_all_unseen,
	.before_cut = read_resident_pages,
	.after_read = join_pages,
	.is_used = pages_are_used,
	.hides_heap = pages_hide_heap,
	.names_rate = name_page_rate,
	.is_estimated = pages_are_samples,
	.describe = describe_pages,
	.add_losses = add_page_losses,
};
