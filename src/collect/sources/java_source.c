// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Java virtual machines whose allocations an agent samples (java/agent_load.h). What it writes joins the kernel's blocks in each
 * pass. Objects that may be garbage are left out: a block is an object that a collection of the whole heap has left.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "base/signals.h"
#include "collect/build/build_metadata.h"
#include "collect/build/resolve_tracebacks.h"
#include "collect/sources/block_sources.h"
#include "elf/allocators.h"
#include "elf/runtime_detect.h"
#include "java/agent_load.h"
#include "java/jvm.h"
#include "java/samples_reader.h"
#include "shared/call_types.h"
#include "shared/python_calls.h"
#include "shared/unwind_types.h"
#include "snapshot.h"

#define LEASE_NS SECOND_NS
#define AWAIT_NS (SECOND_NS / 5)
#define INTERVAL_DEFAULT 524288
#define NODE_BITS 24 /* of a traceback's id; no node has a higher number */
_Static_assert(JAVA_NODES <= 1 << NODE_BITS, "nodes have room in an id");

/* Codes of CPython are counted from 1 on, and from 1 << 30. */
#define FRAMES_OF_JAVA (1u << 29)

struct java_recording {
	struct java_samples *samples; /* NULL: the virtual machine is awaited, or was refused */
	struct java_answer begun;
	bool is_asked; /* it was asked to load the agent, and has not answered yet */
	bool is_refused;
	bool has_failed; /* what it writes could not be read */
	uint64_t look_ns;
	uint64_t forced_nr, forced_ns; /* collections of the whole heap that it was asked for, and what was born before the last one */
	uint64_t unjudged_nr, unjudged_bytes; /* of the last pass: objects that may be garbage */
};

/* ---- the begin ---- */

static int choose_java(struct collector *collector, struct reason *why)
{
	const struct collector_options *options = &collector->options;
	const struct {
		bool is_given;
		const char *name;
	} rows[] = {
		{ options->follow_forks, "--follow-forks" }, { options->system_wide, "system-wide recordings" },
		{ options->domains & COLLECTOR_PYTHON, "the domain python" }, { options->injects, "--inject" },
		{ options->max_overhead, "--max-overhead (a larger --sample costs less)" }, { options->run_interval_bytes, "--fast" },
	};

	if (!(options->domains & COLLECTOR_JAVA))
		return options->java_collects ? reason_set(why, -EINVAL, "--java-gc needs --domain java") : 0;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].is_given)
			return reason_set(why, -EINVAL, "the domain java and %s exclude each other", rows[i].name);
	if (options->sample_bytes > INT32_MAX)
		return reason_set(why, -EINVAL, "with the domain java samples can be 2 GiB apart at most");
	collector->sources->java_loader = java_loader__open();
	return collector->sources->java_loader ? 0 : reason_set(why, -errno, "cannot start a helper: %s", strerror(errno));
}

static void close_java(struct collector *collector)
{
	java_loader__close(collector->sources->java_loader);
}

static void note_loaded(struct collector *collector, const struct target *target)
{
	notes_add(&collector->notes, "process %d (%s): an agent in its Java %u takes samples of allocations; when the recording ends it does nothing "
		  "any more, but its library stays mapped%s",
		  target->identity.pid, target->identity.comm, target->java.state->begun.version,
		  target->java.state->begun.version >= JAVA_WITH_WARNING ? ". This Java has printed a warning about it on its standard error" : "");
	if (target->java.state->begun.keeps_young && !collector->options.java_collects)
		notes_add(&collector->notes, "process %d (%s): its objects do not become old (-XX:MaxTenuringThreshold=16), so it is not known which "
			  "of its collections are of the whole heap: only --java-gc shows what lives", target->identity.pid, target->identity.comm);
}

static int ask_for_agent(struct collector *collector, const struct target *target, struct reason *why)
{
	return java_loader__ask(collector->sources->java_loader, target->identity.pid, collector->options.sample_bytes ?: INTERVAL_DEFAULT, why);
}

/* -EAGAIN: it has not answered yet. */
static int take_java_agent(struct collector *collector, struct target *target, struct reason *why)
{
	struct java_recording *state = target->java.state;
	struct java_answer answer = {};
	struct reason why_not = {};
	int err = java_loader__take(collector->sources->java_loader, target->identity.pid, &answer, &why_not);

	if (err == -EAGAIN)
		return err;
	state->begun = answer;
	err = err ?: java_samples__open(answer.fd, &state->samples, &why_not);
	if (err)
		return reason_set(why, err, "process %d (%s): %s", target->identity.pid, target->identity.comm, why_not.text);
	java_samples__renew(state->samples);
	note_loaded(collector, target);
	return 0;
}

#define ANSWER_MS 10

/* A program that is held, or that has begun meanwhile, is awaited until it runs a virtual machine that answers. */
static int attach_java(struct collector *collector, struct target *target, struct reason *why)
{
	int err;

	if (!(collector->options.domains & COLLECTOR_JAVA) || target->java.state)
		return 0;
	target->java.state = calloc(1, sizeof(*target->java.state));
	if (!target->java.state)
		return -ENOMEM;
	if (target->life.started_ns)
		return 0;
	err = ask_for_agent(collector, target, why);
	while (!err && (err = take_java_agent(collector, target, why)) == -EAGAIN) {
		if (is_told_to_end())
			return reason_set(why, -EINTR, "a signal asked allocsnap to end");
		poll(NULL, 0, ANSWER_MS);
		err = 0;
	}
	return err == -EAGAIN ? reason_set(why, -EBUSY, "another Java virtual machine has not answered yet") : err;
}

static void forget_java(struct target *target)
{
	if (target->java.state)
		java_samples__close(target->java.state->samples);
	free(target->java.state);
	target->java.state = NULL;
}

#define END_MS 2000

/* Its agent's thread looks several times a second. A process that is stopped may end its work later. */
static void end_java(struct collector *collector, struct target *target)
{
	struct java_recording *state = target->java.state;

	(void)collector;
	if (state && state->samples && !target->life.has_ended) {
		java_samples__stop(state->samples);
		for (int ms = 0; ms < END_MS && !java_samples__has_ended(state->samples) && !target__is_over(target); ms += 10)
			poll(NULL, 0, 10);
	}
	forget_java(target);
}

/* ---- meanwhile ---- */

/* A virtual machine that has just begun does not catch the signal yet: nothing is sent to it, and what is read of it may be half there. */
static void await_java(struct collector *collector, struct target *target)
{
	struct java_recording *state = target->java.state;
	struct reason why = {};
	struct jvm jvm = {};
	int err = state->is_asked ? 0 : jvm_look(target->identity.pid, &jvm, &why);

	if (err == -ENOENT || err == -ESRCH || (!state->is_asked && !jvm.refuses_attach && !jvm.catches_quit))
		return;
	err = err ?: state->is_asked ? take_java_agent(collector, target, &why) : ask_for_agent(collector, target, &why);
	if (err == -EAGAIN)
		return;
	state->is_asked = !err && !state->samples;
	state->is_refused = err;
	if (err)
		notes_add(&collector->notes, "%s: nothing of its Java is recorded", why.text);
}

static uint64_t keep_java_of(struct collector *collector, struct target *target)
{
	struct java_recording *state = target->java.state;
	uint64_t now_ns = monotonic_now_ns();

	if (!state || state->is_refused || target->life.has_ended)
		return UINT64_MAX;
	if (now_ns < state->look_ns)
		return state->look_ns - now_ns;
	if (state->samples)
		java_samples__renew(state->samples);
	else
		await_java(collector, target);
	state->look_ns = monotonic_now_ns() + (state->samples ? LEASE_NS : AWAIT_NS);
	return state->samples ? LEASE_NS : AWAIT_NS;
}

static uint64_t keep_java(struct collector *collector)
{
	uint64_t least_ns = UINT64_MAX, wait_ns;

	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		wait_ns = keep_java_of(collector, collector->targets.target[i]);
		least_ns = wait_ns < least_ns ? wait_ns : least_ns;
	}
	return least_ns;
}

/* ---- a pass ---- */

#define LOOK_NS (10 * SECOND_NS) /* the agent looks several times a second */

/* Until it has collected, or a signal asks the recording to end. */
static int await_collection(struct java_loader *loader, pid_t pid, struct reason *why)
{
	struct java_answer answer;
	int err;

	while ((err = java_loader__ask(loader, pid, 0, why)) == -EAGAIN && !is_told_to_end())
		poll(NULL, 0, ANSWER_MS);
	while (!err && (err = java_loader__take(loader, pid, &answer, why)) == -EAGAIN && !is_told_to_end()) {
		poll(NULL, 0, ANSWER_MS);
		err = 0;
	}
	return err == -EAGAIN ? reason_set(why, -EINTR, "a signal came before it had") : err;
}

/* An object that was born before, and is still there when the agent has looked, lives. */
static void collect_java(struct collector *collector, struct target *target)
{
	struct java_recording *state = target->java.state;
	uint64_t now_ns = monotonic_now_ns();
	struct reason why = {};
	int err = await_collection(collector->sources->java_loader, target->identity.pid, &why) ?:
		  java_samples__await_look(state->samples, monotonic_now_ns() + LOOK_NS);

	if (!err) {
		state->forced_ns = now_ns;
		state->forced_nr++;
	} else if (!target__is_over(target)) {
		notes_add(&collector->notes, "process %d (%s): it has not collected its heap: %s", target->identity.pid, target->identity.comm,
			  *why.text ? why.text : strerror(-err));
	}
}

static void collect_all_java(struct collector *collector)
{
	for (size_t i = 0; i < collector->targets.target_nr && collector->options.java_collects; i++) {
		struct target *target = collector->targets.target[i];

		if (target->java.state && target->java.state->samples && !target->life.has_ended)
			collect_java(collector, target);
	}
}

struct java_pass {
	struct collector *collector;
	struct target *target;
	uint64_t image, now_ns;
	uint64_t live_nr, live_bytes; /* numbers of objects are in parts (java_sample_count()) */
	struct node_pass {
		bool is_live;
		uint64_t survived_nr, survived_bytes; /* objects that the sums have, and that may be garbage */
	} *node; /* JAVA_NODES */
};

static uint64_t java_traceback_id(const struct java_pass *pass, uint32_t node)
{
	return TRACEBACK_OF_BOOKS | pass->image << NODE_BITS | node;
}

static uint64_t our_time(const struct java_recording *state, uint64_t its_ns)
{
	return its_ns - state->begun.ahead_ns;
}

/* How many collections of the whole heap there were. */
static uint64_t whole_collections(const struct java_recording *state)
{
	return state->forced_nr + (state->begun.keeps_young ? 0 : java_samples__head(state->samples)->whole_nr);
}

static bool is_judged(const struct java_recording *state, const struct java_sample *sample)
{
	const struct java_head *head = java_samples__head(state->samples);

	return sample->survived && ((!state->begun.keeps_young && sample->birth_ns < head->judged_ns) || our_time(state, sample->birth_ns) < state->forced_ns);
}

static void leave_out(struct java_pass *pass, const struct java_sample *sample, uint64_t nr)
{
	struct java_recording *state = pass->target->java.state;

	state->unjudged_nr += nr;
	state->unjudged_bytes += sample->bytes;
	pass->node[sample->node].survived_nr += sample->survived ? nr : 0;
	pass->node[sample->node].survived_bytes += sample->survived ? sample->bytes : 0;
}

/* Samples have no address: an object moves. Their numbers stand for it. The thread's number counts in its own PID namespace. */
static int join_sample(void *pass_, const struct java_sample *sample)
{
	struct java_pass *pass = pass_;
	const struct collector_options *options = &pass->collector->options;
	uint64_t birth_ns = our_time(pass->target->java.state, sample->birth_ns);
	const struct block_key key = block_key_of(sample->slot + 1, pass->image, LAYER_POOL);
	const struct block block = {
		.size = sample->size,
		.traceback = sample->node < JAVA_NODE_FIRST ? 0 : java_traceback_id(pass, sample->node),
		.birth_ns = birth_ns < pass->now_ns ? birth_ns : pass->now_ns,
		.thread = sample->tid,
		.domain = DOMAIN_JAVA,
		.weight = sample->bytes,
	};

	uint64_t nr = java_sample_count(sample->size, sample->bytes);

	if (sample->size < options->min_size || (options->max_size && sample->size > options->max_size))
		return 0;
	if (!is_judged(pass->target->java.state, sample)) {
		leave_out(pass, sample, nr);
		return 0;
	}
	pass->live_nr += nr;
	pass->live_bytes += sample->bytes;
	pass->node[sample->node].is_live = true;
	return drained_blocks_add(&pass->collector->pass.drain.blocks, &key, &block);
}

static int add_java_stack(const struct java_pass *pass, uint32_t node, const struct churn *churn)
{
	uint32_t limit = pass->collector->options.traceback_limit;
	struct traceback traceback = { .churn = *churn, .image = pass->image, .by_tables = true, .end = UNWIND_ROOT };
	uint64_t id = java_traceback_id(pass, node);
	struct java_stack stack;

	if (!java_samples__stack(pass->target->java.state->samples, node, &stack))
		return 0;
	traceback.nframe = stack.nr < limit ? stack.nr : limit;
	traceback.total_nframe = stack.nr + stack.is_deep;
	for (uint32_t i = 0; i < traceback.nframe; i++)
		traceback.pc[i] = PYTHON_FRAME_WORD(stack.frame[i] | FRAMES_OF_JAVA, 0);
	return map_copy_add(&pass->collector->pass.drain.tracebacks, &id, &traceback);
}

static uint64_t whole_objects(uint64_t parts)
{
	return (parts + JAVA_COUNT_PARTS / 2) / JAVA_COUNT_PARTS;
}

/* The sums of a node are of all its objects that a collection, if only a young one, has judged. */
static int add_java_stacks(const struct java_pass *pass, struct churn *ret_all)
{
	struct java_samples *samples = pass->target->java.state->samples;
	int err = 0;

	for (uint32_t node = JAVA_NODE_FIRST; node < java_samples__node_nr(samples) && !err; node++) {
		struct churn churn = {};
		uint64_t nr, bytes;

		java_samples__node_sums(samples, node, &nr, &bytes);
		churn.allocations = nr > pass->node[node].survived_nr ? whole_objects(nr - pass->node[node].survived_nr) : 0;
		churn.allocated_bytes = bytes > pass->node[node].survived_bytes ? bytes - pass->node[node].survived_bytes : 0;
		*ret_all = churn_sum(ret_all, &churn);
		if (churn.allocations || pass->node[node].is_live)
			err = add_java_stack(pass, node, &churn);
	}
	return err;
}

static void count_java(struct target *target, const struct java_pass *pass, const struct churn *all)
{
	uint64_t *counter = target->drained.account.counter, live_nr = whole_objects(pass->live_nr);

	counter[COUNTER_allocations] += all->allocations;
	counter[COUNTER_allocated_bytes] += all->allocated_bytes;
	counter[COUNTER_current_blocks] += live_nr;
	counter[COUNTER_current_bytes] += pass->live_bytes;
	counter[COUNTER_frees] += all->allocations > live_nr ? all->allocations - live_nr : 0;
	counter[COUNTER_freed_bytes] += all->allocated_bytes > pass->live_bytes ? all->allocated_bytes - pass->live_bytes : 0;
	counter[COUNTER_peak_bytes] = counter[COUNTER_peak_blocks] = 0;
	target->drained.cost.cost_ns += java_samples__head(target->java.state->samples)->cost_ns;
	target->drained.is_of_source = true;
}

static void note_unreadable(struct collector *collector, struct target *target)
{
	struct java_recording *state = target->java.state;

	if (!state->has_failed)
		notes_add(&collector->notes, "process %d (%s): what the agent writes is not sound: nothing of its Java is recorded",
			  target->identity.pid, target->identity.comm);
	state->has_failed = true;
}

static int read_java(struct collector *collector, struct target *target)
{
	struct java_recording *state = target->java.state;
	struct java_pass pass = {
		.collector = collector, .target = target, .image = target->drained.account.image, .now_ns = monotonic_now_ns(),
	};
	struct churn all = {};
	int err = java_samples__read(state->samples);

	if (err) {
		note_unreadable(collector, target);
		return 0;
	}
	state->unjudged_nr = state->unjudged_bytes = 0;
	pass.node = calloc(JAVA_NODES, sizeof(*pass.node));
	err = pass.node ? java_samples__each(state->samples, join_sample, &pass) ?: add_java_stacks(&pass, &all) : -ENOMEM;
	free(pass.node);
	if (!err)
		count_java(target, &pass, &all);
	return err;
}

/* The kernel's blocks and tracebacks have been read. */
static int read_all_java(struct collector *collector)
{
	int err = 0;

	for (size_t i = 0; i < collector->targets.target_nr && !err; i++) {
		struct target *target = collector->targets.target[i];

		if (target->java.state && target->java.state->samples)
			err = read_java(collector, target);
	}
	return err;
}

/* ---- a snapshot ---- */

static bool java_is_used(const struct target *target)
{
	return target->java.state;
}

static bool java_is_estimated(const struct target *target, const struct settings *settings)
{
	(void)settings;
	return target->java.state;
}

static bool names_java_rate(const struct target *target)
{
	return target->java.state && target->java.state->samples;
}

static int add_java_frame(struct target *target, struct snapshot_builder *builder, uint64_t word, uint32_t *ret_id)
{
	uint32_t code = PYTHON_FRAME_CODE(word);
	struct snap_frame frame = {};
	struct java_frame_text text;
	int err;

	if (!target->java.state || !target->java.state->samples || !(code & FRAMES_OF_JAVA) || code & ~FRAMES_OF_JAVA & ~(JAVA_FRAMES - 1))
		return -EAGAIN;
	if (!java_samples__frame(target->java.state->samples, code & ~FRAMES_OF_JAVA, &text))
		return -ENOENT;
	frame.lineno = text.line;
	err = snapshot_builder__string(builder, text.file, &frame.filename) ?:
	      snapshot_builder__string(builder, text.function, &frame.function);
	return err ?: snapshot_builder__frame(builder, &frame, ret_id);
}

static int describe_java(struct snapshot_builder *builder, const struct target *target, const struct settings *settings)
{
	const struct java_recording *state = target->java.state;
	const struct java_head *head = state && state->samples ? java_samples__head(state->samples) : NULL;
	const struct number number[] = {
		{ "java_version", state ? state->begun.version : 0 },
		{ "sample_bytes", head ? head->interval : 0 },
		{ "java_gc_count", head ? head->gc_nr : 0 },
		{ "java_whole_gc_count", head ? whole_collections(state) : 0 },
		{ "java_sample_count", head ? head->taken : 0 },
		{ "java_unjudged_count", state ? whole_objects(state->unjudged_nr) : 0 },
		{ "java_unjudged_bytes", state ? state->unjudged_bytes : 0 },
	};
	int err;

	(void)settings;
	if (!head)
		return 0;
	err = snapshot_builder__domain_name(builder, DOMAIN_JAVA, domain_name(DOMAIN_JAVA));
	err = err ?: snapshot_builder__metadata(builder, "sampler_kind", "java");
	return err ?: describe_numbers(builder, number, ARRAY_SIZE(number));
}

static void add_java_losses(const struct target *target, uint64_t *loss)
{
	const struct java_recording *state = target->java.state;
	const struct java_head *head = state && state->samples ? java_samples__head(state->samples) : NULL;

	if (!head)
		return;
	loss[LOSS_samples_dropped] += head->slots_lost + java_samples__unsound(state->samples);
	loss[LOSS_tracebacks_dropped] += head->nodes_lost + head->frames_lost;
}

const struct block_source java_source = {
	.domain = "java",
	.domain_bit = COLLECTOR_JAVA,
	.trait = TRAIT_BIT(JVM),
	.choose = choose_java,
	.close = close_java,
	.attach = attach_java,
	.forget_program = forget_java,
	.end = end_java,
	.keep_cost = keep_java,
	.has_own_rate = java_is_used,
	.before_cut = collect_all_java,
	.add_tracebacks = read_all_java,
	.is_used = java_is_used,
	.has_view = java_is_used,
	.is_estimated = java_is_estimated,
	.names_rate = names_java_rate,
	.frame = add_java_frame,
	.unknown_frame = "[frame that had no room]",
	.describe = describe_java,
	.add_losses = add_java_losses,
};
