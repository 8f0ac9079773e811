// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/page_source.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "collect/build/build_metadata.h"
#include "collect/recording/map_shares.h"
#include "collect/sources/block_sources.h"
#include "collect/sources/page_join.h"
#include "snapshot.h"

struct page_state {
	struct page_events events;
	struct page_runs older;	   /* resident when the recording began, or its traces were cleared */
	struct page_runs resident; /* at the last pass; none: the process had ended */
	struct page_sums sums;	   /* of resident */
	uint64_t files_bytes, shared_bytes; /* resident beside them */
	uint64_t image, exec_cnt;  /* at the last pass; image 0: none yet */
	uint32_t shift;		   /* struct all_pages */
};

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

static int choose_pages(struct collector *collector, struct reason *why)
{
	const struct collector_options *options = &collector->options;
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
	return pages->is_wanted && options->sample_bytes ? choose_samples(&collector->options, pages, why) : 0;
}

static int configure_pages(struct collector *collector, struct allocsnap_bpf *bpf)
{
	bpf_program__set_autoload(bpf->progs.page_fault, collector->sources->pages.is_wanted);
	bpf_program__set_autoload(bpf->progs.page_room_found, collector->sources->pages.is_wanted);
	bpf->rodata->pages_since_ns = monotonic_now_ns();
	bpf->rodata->pages_shift = collector->sources->pages.shift;
	return 0;
}

static int page_program(const struct collector *collector)
{
	return bpf_program__fd(collector->bpf->progs.page_fault);
}

static int open_pages(struct collector *collector, struct reason *why)
{
	struct all_pages *pages = &collector->sources->pages;
	int err = 0;

	if (pages->is_wanted && collector->options.system_wide)
		err = page_events_open_all(&pages->events, page_program(collector));
	if (pages->is_wanted && !err) {
		collector->bpf->links.page_room_found = bpf_program__attach(collector->bpf->progs.page_room_found);
		err = collector->bpf->links.page_room_found ? 0 : -errno;
	}
	return err ? reason_set(why, err, "cannot watch page faults: %s", strerror(-err)) : 0;
}

static void close_pages(struct collector *collector)
{
	page_events_close(&collector->sources->pages.events);
}

/* ---- a process ---- */

/* A child has its parent's events. */
static int attach_pages(struct collector *collector, struct target *target, struct reason *why)
{
	struct page_state *state = target->pages.state;
	int err = 0;

	if (!collector->sources->pages.is_wanted || state)
		return 0;
	state = target->pages.state = calloc(1, sizeof(*state));
	if (!state)
		return -ENOMEM;
	state->shift = collector->sources->pages.shift;
	if (!collector->options.system_wide && !target->now.account.parent)
		err = page_events_open(&state->events, target->identity.pid, page_program(collector));
	return err ? reason_set(why, err, "cannot watch page faults of process %d: %s", target->identity.pid, strerror(-err)) : 0;
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

static void forget_older_pages(struct target *target)
{
	if (target->pages.state)
		page_runs_release(&target->pages.state->older);
}

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
	for (size_t i = 0; i < collector->targets.target_nr; i++)
		if (collector->targets.target[i]->pages.state)
			read_pages_of(collector->targets.target[i]->pages.state, collector->targets.target[i]);
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
	int err = note_image(state, account);

	join.leaf = leaves_of(leaves, account->image, &join.leaf_nr);
	if (err)
		return err;
	return state->resident.run_nr ? page_join(&join, add_page_block, &adding, &state->sums) :
					page_join_ended(&join, add_page_block, &adding);
}

/* ---- leaves that nothing needs ---- */

#define LEAF_REST_NS (10 * SECOND_NS) /* so old are the events of a leaf that goes */

static bool is_leaf_of_target(const struct targets *targets, const struct found_leaf *leaf)
{
	for (size_t i = 0; i < targets->target_nr; i++) {
		const struct target *target = targets->target[i];
		bool is_its = target->drained.account.image == leaf->image || target->now.account.image == leaf->image;

		if (is_its && (!target->pages.state || !target->pages.state->resident.run_nr))
			return true; /* what is resident is not known */
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
		    !is_leaf_of_target(&collector->targets, leaf))
			delete_leaf(collector, fd, leaf);
	}
}

static int join_pages(struct collector *collector)
{
	int fd = bpf_map__fd(collector->bpf->maps.page_leaves), err;
	struct leaves leaves = {};

	if (!collector->sources->pages.is_wanted)
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

static bool pages_are_used(const struct target *target)
{
	return target->pages.state;
}

static bool pages_are_samples(const struct target *target, const struct settings *settings)
{
	(void)settings;
	return target->pages.state && target->pages.state->shift;
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
	if (!state)
		return 0;
	err = snapshot_builder__domain_name(builder, DOMAIN_PAGES, "pages") ?:
	      snapshot_builder__metadata(builder, "pages_by", "faults") ?:
	      snapshot_builder__metadata(builder, "pages_scan", name_scan(state, target));
	for (size_t i = 0; i < ARRAY_SIZE(key) && !err && state->resident.run_nr; i++)
		err = describe_numbers(builder, &(struct number){ key[i], ((const uint64_t *)&state->sums)[i] }, 1);
	if (!err && state->shift)
		err = describe_numbers(builder, &(struct number){ "sample_bytes", PAGE_BYTES << state->shift }, 1);
	return err || !state->resident.run_nr ? err : describe_numbers(builder, beside, ARRAY_SIZE(beside));
}

const struct block_source page_source = {
	.domain = "pages",
	.domain_bit = COLLECTOR_PAGES,
	.choose = choose_pages,
	.configure = configure_pages,
	.open = open_pages,
	.close = close_pages,
	.attach = attach_pages,
	.check = read_older_pages,
	.forget_program = forget_older_pages,
	.end = end_pages,
	.before_cut = read_resident_pages,
	.after_read = join_pages,
	.is_used = pages_are_used,
	.is_estimated = pages_are_samples,
	.describe = describe_pages,
};
