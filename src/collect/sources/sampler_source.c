// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "collect/build/build_metadata.h"
#include "collect/files/written_files.h"
#include "collect/probe/attach_methods.h"
#include "process/proc.h"
#include "collect/sources/block_sources.h"
#include "elf/probe_info.h"
#include "snapshot.h"

/*
 * Processes that sample their own heap (bpf/account/calls.bpf.h). If a process maps a file with a sampler, the
 * sampler's probes are placed first. Then its heap needs no other probes: the accounting shows this to the kernel side.
 *
 * A process of its own probes (no children are followed) whose heap is probed already stays as it is, when a sampler
 * comes later: every block costs no more than before. With shared probes the sampler counts from its first sample on.
 */

/* ---- where it is ---- */

/* Where a sampler has its first probe, and its struct sampler_info; 0: not known. */
struct sampler_place_in_memory {
	uint64_t code, info;
};

static const struct usdt_places *sampler_of(const struct object *object)
{
	return object->probe_info ? object->probe_info->sampler : NULL;
}

static struct sampler_place_in_memory sampler_find_info(const struct mappings *mappings, uint32_t object)
{
	const struct usdt_places *places =
		mappings_use(mappings, object) ? sampler_of(mappings->objects->object[object]) : NULL;

	if (!places || !places->nr || !places->info_distance)
		return (struct sampler_place_in_memory){};
	for (size_t i = 0; i < mappings->mapping_nr; i++) {
		const struct mapping *mapping = &mappings->mapping[i];
		uint64_t into = places->place[0].offset - mapping->offset;

		if (mapping->object == object && mapping_is_there(mappings, mapping) &&
		    into < mapping->end - mapping->start)
			return (struct sampler_place_in_memory){ mapping->start + into,
								 mapping->start + into + places->info_distance };
	}
	return (struct sampler_place_in_memory){};
}

/* Whether bytes of the process are such a struct, of a version that is known. */
static bool sampler_info_is_sound(const struct sampler_info *info)
{
	return !memcmp(info->magic, SAMPLER_INFO_MAGIC, sizeof(info->magic)) && info->version >= SAMPLER_INFO_VERSION &&
	       info->bytes >= sizeof(*info);
}

/* ---- what it says about itself ---- */

/* The process can write anything there, or end and leave its PID to another one: these are numbers to show, no more. */
static bool read_info(const struct target *target, uint64_t address, struct sampler_info *ret)
{
	const struct iovec to = { ret, sizeof(*ret) }, from = { (void *)address, sizeof(*ret) };
	int fd = target->sampler.memory_fd;

	return address && (fd >= 0 ? pread(fd, ret, sizeof(*ret), address) :
				     process_vm_readv(target->identity.pid, &to, 1, &from, 1, 0)) == sizeof(*ret) &&
	       sampler_info_is_sound(ret);
}

/* An injected sampler has the same options in all its files. */
static void add_info(struct sampler_info *sum, const struct sampler_info *info)
{
	sum->samples += info->samples;
	sum->dropped += info->dropped;
	sum->flags |= info->flags;
	if (sum->interval < info->interval)
		sum->interval = info->interval;
	if (sum->interval_most < info->interval_most)
		sum->interval_most = info->interval_most;
	if (sum->interval_changes < info->interval_changes)
		sum->interval_changes = info->interval_changes;
}

/* Reads what the samplers of a target say now, all together. False: nothing can be read. */
static bool sampler_sum_infos(const struct target *target, struct sampler_info *ret)
{
	struct sampler_info info;
	bool has_any = false;

	for (size_t i = 0; i < target->sampler.object_nr; i++) {
		if (!read_info(target, sampler_find_info(&target->mappings, target->sampler.object[i]).info, &info))
			continue;
		if (has_any)
			add_info(ret, &info);
		else
			*ret = info;
		has_any = true;
	}
	return has_any;
}

/* ---- the interval ---- */

/*
 * Keeps the cost of processes that sample their own heap to a number of samples a second, or to a budget: writes the
 * interval of allocsnap's own sampler (sampler/sampler_info.h) in the process. Other samplers have no such word, and
 * nothing is written to them.
 *
 * The word is written by /proc/PID/mem, which stays open: the descriptor belongs to the memory of one program, so after
 * an exec, or in another process with the PID, nothing can be written. It is opened when the sampler is found, for
 * `attach` and `run` before they give up privileges. It needs the user of the process, or CAP_DAC_OVERRIDE.
 */

#define LOOK_NS 10000000   /* the least time between two looks at a process */
#define AGAIN_NS 100000000 /* when to look again at one that takes many samples */

/* ---- the interval in the process's memory ---- */

static bool write_word(const struct target *target, uint64_t address, uint64_t value)
{
	return pwrite(target->sampler.memory_fd, &value, sizeof(value), address) == sizeof(value);
}

/* The interval comes last: what the process says about itself is never less than true. */
static bool write_interval(const struct target *target, uint64_t address, const struct sampler_info *info,
			   uint64_t interval)
{
	uint64_t most = info->interval_most > interval ? info->interval_most : interval;

	return write_word(target, address + offsetof(struct sampler_info, interval_most), most) &&
	       write_word(target, address + offsetof(struct sampler_info, interval_changes), info->interval_changes + 1) &&
	       write_word(target, address + offsetof(struct sampler_info, interval), interval);
}

/* Whether the block lies in private memory that may be written, of the very file whose code has the probes. */
static bool is_own_memory(const struct target *target, const struct sampler_place_in_memory *place)
{
	struct maps_line code, data;

	return maps_find_line(target->identity.pid, place->code, &code) &&
	       maps_find_line(target->identity.pid, place->info, &data) && code.perms[2] == 'x' &&
	       !strncmp(data.perms, "rw-p", 4) && code.inode && code.inode == data.inode && code.dev == data.dev &&
	       data.end - place->info >= sizeof(struct sampler_info);
}

static void close_memory(struct target *target)
{
	if (target->sampler.memory_fd >= 0)
		close(target->sampler.memory_fd);
	target->sampler.memory_fd = -1;
}

static void note_refused(struct collector *collector, const struct target *target)
{
	if (collector->sources->is_interval_noted)
		return;
	collector->sources->is_interval_noted = true;
	notes_add(&collector->notes,
		  "%s (PID %d) takes its own samples: allocsnap cannot limit how many, as its memory cannot be "
		  "written (%s); further such processes are not named", target->identity.comm,
		  target->identity.pid, strerror(EACCES));
}

static bool all_may_be_written(const struct target *target)
{
	struct sampler_info info;

	for (size_t i = 0; i < target->sampler.object_nr; i++) {
		struct sampler_place_in_memory place = sampler_find_info(&target->mappings, target->sampler.object[i]);

		if (!is_own_memory(target, &place) || !read_info(target, place.info, &info))
			return false;
	}
	return true;
}

/*
 * Opens the memory of a process whose sampler is used, if the sampler has an interval that may be changed.
 * Opened before the checks: what they find is true of the memory that it belongs to, or nothing can be read there.
 */
static void sampler_interval_open(struct collector *collector, struct target *target)
{
	struct target_sampler *sampler = &target->sampler;
	char path[32];

	if (!sampler->is_used || !sampler->has_info || !sampler->info.interval_chosen || sampler->memory_fd >= 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/mem", target->identity.pid);
	sampler->memory_fd = open(path, O_RDWR | O_CLOEXEC);
	if (sampler->memory_fd < 0 && errno == EACCES)
		note_refused(collector, target);
	if (sampler->memory_fd >= 0 && (target__is_over(target) || !all_may_be_written(target)))
		close_memory(target);
	if (sampler->memory_fd < 0)
		return;
	sampler->interval = (struct interval_control){};
	sampler->changes_before = sampler->info.interval_changes;
	sampler->own_changes = 0;
}

/* In all files of the sampler; `only`: where this one is in force, unless it is 0. Returns whether any was written. */
static bool write_intervals(const struct target *target, uint64_t interval, uint64_t only)
{
	bool has_any = false;

	for (size_t i = 0; i < target->sampler.object_nr; i++) {
		uint64_t address = sampler_find_info(&target->mappings, target->sampler.object[i]).info;
		struct sampler_info info;

		if (read_info(target, address, &info) && (!only || info.interval == only))
			has_any |= write_interval(target, address, &info, interval);
	}
	return has_any;
}

/* ---- the choice of the interval ---- */

static void keep_interval(const struct collector *collector, struct target *target, uint64_t now_ns)
{
	struct target_sampler *sampler = &target->sampler;
	const struct interval_aim aim = { collector->options.sampler_rate ?: INTERVAL_RATE_DEFAULT,
					  target->budget.limit.share_ns };
	struct sampler_info info;
	uint64_t wanted;

	sampler->looked_ns = now_ns;
	if (!sampler_sum_infos(target, &info)) {
		close_memory(target); /* it has ended, or has another program */
		return;
	}
	sampler->info = info;
	wanted = interval_decide(&sampler->interval, &aim, &(struct interval_look){
		.chosen = info.interval_chosen,
		.interval = info.interval,
		.samples = info.samples,
		.cost_ns = target->now.cost.cost_ns,
		.now_ns = now_ns,
	});
	if (wanted && write_intervals(target, wanted, 0)) {
		interval_has_written(&sampler->interval, wanted);
		sampler->info.interval = wanted;
		sampler->info.interval_changes++;
		sampler->own_changes++;
	}
}

/* Looks at all processes, and changes intervals. Returns when to look again, in ns; UINT64_MAX: no need to. */
static uint64_t sampler_intervals_keep(struct collector *collector)
{
	uint64_t now_ns = monotonic_now_ns(), wait_ns = UINT64_MAX;

	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *target = collector->targets.target[i];

		if (target->sampler.memory_fd < 0 || target->life.has_ended)
			continue;
		if (target->probes.used->is_paused)
			interval_end_period(&target->sampler.interval);
		else if (now_ns - target->sampler.looked_ns >= LOOK_NS)
			keep_interval(collector, target, now_ns);
		if (interval_is_busy(&target->sampler.interval))
			wait_ns = AGAIN_NS;
	}
	return wait_ns;
}

/* Whether a larger interval may still bring the cost of a process into its budget: then it need not pause. */
static bool sampler_interval_helps(const struct target *target)
{
	return target->sampler.memory_fd >= 0 && target->sampler.interval.chosen && !target->sampler.interval.is_vain;
}

/* Gives the process the interval back that its user chose, and closes its memory. */
static void sampler_interval_leave(struct collector *collector, struct target *target)
{
	struct target_sampler *sampler = &target->sampler;
	uint64_t chosen = interval_to_restore(&sampler->interval);

	(void)collector;
	if (sampler->memory_fd >= 0 && chosen)
		write_intervals(target, chosen, sampler->interval.written);
	close_memory(target);
}

static void read_sampler_info(struct target *target)
{
	struct sampler_info info;

	if (!target->sampler.is_used || !sampler_sum_infos(target, &info))
		return;
	target->sampler.has_info = true;
	target->sampler.info = info;
}

static bool is_bypassed(const struct target *target, uint32_t object)
{
	struct sampler_info info;

	return read_info(target, object, &info) && info.flags & SAMPLER_BYPASSED;
}

/* ---- whether the sampler is used ---- */

static bool may_use_samplers(const struct collector *collector, const struct target *target)
{
	const struct probes *probes = target->probes.used;

	return !collector->options.no_sampler && collector->objects.domains & COLLECTOR_MALLOC &&
	       (target->sampler.is_used || probes == &collector->shared.probes || !probes_see_heap(probes));
}

/* Each file once. */
static void note_sampler(struct collector *collector, const struct target *target, uint32_t index)
{
	struct object *object = collector->objects.object[index];

	if (object->is_sampler_told)
		return;
	object->is_sampler_told = true;
	if (object_is_injected(object))
		return note_injected(collector, target);
	notes_add(&collector->notes,
		  "%s takes samples of the heap itself: these are recorded, not every block; sums are estimates%s. "
		  "--no-sampler records every block, at the usual cost",
		  object->path, sampler_places_tell_frees(sampler_of(object)) ? "" :
		  ". It reports no frees: what is allocated is recorded, not what lives");
}

static void note_unused(struct collector *collector, uint32_t index, const char *what)
{
	struct object *object = collector->objects.object[index];

	if (object->is_sampler_told || !*what)
		return;
	object->is_sampler_told = true;
	notes_add(&collector->notes, "%s", what);
}

/* Places the probes of one sampler. Whether it can be used. */
static int probe_sampler(struct collector *collector, struct target *target, uint32_t object, bool *ret_works,
			 struct reason *why)
{
	struct probes *probes = target->probes.used;
	struct reason why_not = {};
	int err = 0;

	if (is_bypassed(target, object)) {
		reason_set(&why_not, 0, "%s is loaded but takes no samples: another library's malloc is called first",
			   collector->objects.object[object]->path);
	} else if (!sampler_sites_are_probed(probes, object)) {
		watch_file(collector, object);
		err = sampler_sites_attach(probes, collector->bpf, &collector->objects, object, &why_not);
		if (err == -ETXTBSY)
			err = 0;
	}
	if (err) {
		reason_set(why, err, "%s", *why_not.text ? why_not.text : strerror(-err));
		return err;
	}
	*ret_works = !*why_not.text && sampler_sites_are_probed(probes, object);
	if (*ret_works)
		note_sampler(collector, target, object);
	else
		note_unused(collector, object, why_not.text);
	return 0;
}

/* Its library knows this only once the process has allocated. Each file once. */
static void note_unseen(struct collector *collector, const struct target *target)
{
	static const struct {
		enum sampler_flag flag;
		const char *what;
	} unseen[] = {
		{ SAMPLER_OPERATORS_UNSEEN,
		  "blocks of the allocator's own operator new are not sampled, and missing; preload "
		  "liballocsnap-sampler-new.so instead" },
		{ SAMPLER_EXTENSIONS_UNSEEN,
		  "mallocx and dallocx are not seen: their blocks are missing, and a sample that dallocx frees stays" },
		{ SAMPLER_BAD_INTERVAL, "its distance of samples (" SAMPLER_INTERVAL_VARIABLE ") could not be read: 512K" },
	};
	const struct target_sampler *sampler = &target->sampler;
	struct object *object;

	if (!sampler->is_used || !sampler->has_info || !sampler->info.flags)
		return;
	object = collector->objects.object[sampler->object[0]];
	for (size_t i = 0; i < ARRAY_SIZE(unseen) && !object->is_unseen_told; i++)
		if (sampler->info.flags & unseen[i].flag)
			notes_add(&collector->notes, "%s: %s", object->path, unseen[i].what);
	object->is_unseen_told = true;
}

/* Gives the kernel side the choice, for the image whose mappings were read. */
static void tell_of_sampler(const struct collector *collector, const struct target *target)
{
	struct process *account;
	uint64_t image;

	if (target->slot == ACCOUNT_NONE)
		return;
	account = &collector->targets.accounts.process[target->slot % PROCESSES_MAX];
	image = target->now.account.image ?: __atomic_load_n(&account->image, __ATOMIC_ACQUIRE);
	if (target->sampler.is_used)
		__atomic_store_n(&account->sampler_image, image, __ATOMIC_RELEASE);
	else
		__atomic_compare_exchange_n(&account->sampler_image, &image, 0, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
}

static bool may_use_object(const struct target *target, const struct object *object)
{
	return sampler_of(object) && !object->has_changed && !object->is_put_off &&
	       (!object_is_injected(object) || injected_sampler_is_called(target));
}

/* Places the probes of all samplers of a target. */
static int probe_samplers(struct collector *collector, struct target *target, struct reason *why)
{
	const struct mappings *mappings = &target->mappings;
	struct target_sampler *sampler = &target->sampler;
	size_t nr = 0;
	int err = 0;

	for (size_t i = 0; i < mappings->used_nr && !err && nr < TARGET_SAMPLERS_MAX; i++) {
		bool works = false;

		if (may_use_object(target, mappings_used(mappings, i)))
			err = probe_sampler(collector, target, mappings->used[i], &works, why);
		if (works)
			sampler->object[nr++] = mappings->used[i];
	}
	sampler->object_nr = nr;
	return err;
}

static int use_sampler(struct collector *collector, struct target *target, struct reason *why)
{
	int err = 0;

	target->sampler.object_nr = 0;
	if (may_use_samplers(collector, target))
		err = probe_samplers(collector, target, why);
	target->sampler.is_used = target->sampler.object_nr;
	judge_injected(collector, target);
	if (!err)
		tell_of_sampler(collector, target);
	read_sampler_info(target);
	/* The library reads the variable in its constructor, which has not run in a program that is held. */
	if (target->sampler.has_info && !target->sampler.info.samples && collector->options.run_interval_bytes)
		target->sampler.info.interval = target->sampler.info.interval_most = collector->options.run_interval_bytes;
	note_unseen(collector, target);
	sampler_interval_open(collector, target);
	return err;
}

static int require_sampler(const struct collector *collector, const struct target *target, struct reason *why)
{
	if (!collector->options.run_interval_bytes || target->sampler.is_used)
		return 0;
	return reason_set(why, -ENOENT, "process %d (%s) has not loaded the sampler: it runs on, and is not recorded",
			  target->identity.pid, target->identity.comm);
}

/* ---- in a snapshot ---- */

/* A sampler that says nothing about itself may be any program's. */
static const char *name_of_sampler_kind(const struct target_sampler *sampler)
{
	if (!sampler->has_info)
		return "own";
	return sampler->is_injected ? "injected" : "preloaded";
}

/* Names blocks that are no samples by whatever chance. */
static int describe_unseen(struct snapshot_builder *builder, const struct target_sampler *sampler)
{
	uint32_t flags = sampler->has_info ? sampler->info.flags : 0;
	char text[96];

	snprintf(text, sizeof(text), "%sblocks from before%s%s", sampler->has_info ? "blocks of 0 bytes, " : "",
		 flags & SAMPLER_OPERATORS_UNSEEN ? ", operator new" : "",
		 flags & SAMPLER_EXTENSIONS_UNSEEN ? ", mallocx, dallocx" : "");
	return snapshot_builder__metadata(builder, "sampler_unseen", text);
}

/* A file of the sampler may report what it allocates only. */
static int describe_frees(struct snapshot_builder *builder, const struct target *target)
{
	for (size_t i = 0; i < target->sampler.object_nr; i++) {
		uint32_t object = target->sampler.object[i];

		if (mappings_use(&target->mappings, object) &&
		    !sampler_places_tell_frees(sampler_of(target->mappings.objects->object[object])))
			return snapshot_builder__metadata(builder, "sampler_frees", "not reported");
	}
	return 0;
}

/* Whether all intervals since the recording began are known: another program may change them between two looks. */
static bool knows_intervals(const struct target_sampler *sampler)
{
	return sampler->interval.most &&
	       sampler->info.interval_changes - sampler->changes_before <= sampler->own_changes;
}

/* The largest interval in force since the recording began; if they are not all known, since the sampler began. */
static uint64_t largest_interval(const struct target_sampler *sampler)
{
	return knows_intervals(sampler) ? sampler->interval.most : sampler->info.interval_most;
}

static bool has_several_intervals(const struct target_sampler *sampler)
{
	return knows_intervals(sampler) ? sampler->interval.has_changed : sampler->info.interval_changes != 0;
}

/*
 * Writes the sampler's own numbers. sample_bytes_most: where samples of several rates are together, or blocks that are
 * older than its reports.
 */
static int describe_sampler_info(struct snapshot_builder *builder, const struct target_sampler *sampler, bool is_mixed)
{
	const struct sampler_info *info = &sampler->info;
	const struct number number[] = {
		{ "sampler_version", info->version },
		{ "sample_bytes", info->interval },
		{ "sampler_chosen_bytes", info->interval_chosen },
		{ "sampler_change_count", info->interval_changes },
		{ "sampler_sample_count", info->samples },
		{ "sampler_dropped_count", info->dropped },
	};
	const struct number most = { "sample_bytes_most", largest_interval(sampler) };
	const struct number stopped = { "sampler_stopped_ns", sampler->stopped_ns };
	int err = describe_numbers(builder, number, ARRAY_SIZE(number));

	if (!err && (has_several_intervals(sampler) || is_mixed))
		err = describe_numbers(builder, &most, 1);
	return err || !sampler->stopped_ns ? err : describe_numbers(builder, &stopped, 1);
}

/* sampler_weights: whether a known rule gave them, or they are taken as the process reported them. */
static int describe_sampler(struct snapshot_builder *builder, const struct target *target, const struct settings *settings)
{
	const struct target_sampler *sampler = &target->sampler;
	int err;

	(void)settings;
	if (sampler->is_heap_left_out)
		return snapshot_builder__metadata(builder, "heap_not_recorded",
						  "the injected sampler went with the program before exec");
	if (!sampler->is_used || !mappings_use(&target->mappings, sampler->object[0]))
		return 0;
	err = snapshot_builder__metadata(builder, "sampler",
					 target->mappings.objects->object[sampler->object[0]]->path);
	err = err ?: snapshot_builder__metadata(builder, "sampler_kind", name_of_sampler_kind(sampler));
	if (!err)
		err = snapshot_builder__metadata(builder, "sampler_weights", sampler->has_info ? "exact" : "as told");
	err = err ?: describe_frees(builder, target) ?: describe_unseen(builder, sampler);
	if (!err && sampler->functions)
		err = snapshot_builder__metadata(builder, "sampler_functions", sampler->functions);
	return err || !sampler->has_info ? err : describe_sampler_info(builder, sampler, target->snapshots.is_mixed);
}

static void add_sampler_losses(const struct target *target, uint64_t *loss)
{
	loss[LOSS_samples_dropped] = target->sampler.has_info ? target->sampler.info.dropped : 0;
	loss[LOSS_execs_unsampled] = target->sampler.is_heap_left_out;
}

/* ---- the source ---- */

static int check_sampler(struct collector *collector, const struct target *target, struct reason *why)
{
	return check_injected(collector, target, why) ?: require_sampler(collector, target, why);
}

static void find_copied_pages_of(const struct target *target)
{
	find_copied_pages(&target->mappings);
}

static void close_injections(struct collector *collector)
{
	injections_release(&collector->sources->injections);
}

static bool sampler_hides_heap(const struct target *target)
{
	return target->sampler.is_used || target->sampler.is_heap_left_out;
}

static bool sampler_is_used(const struct target *target)
{
	return target->sampler.is_used;
}

static bool sampler_is_estimated(const struct target *target, const struct settings *settings)
{
	(void)settings;
	return target->sampler.is_used;
}

static bool names_sampler_rate(const struct target *target)
{
	return target->sampler.is_used && target->sampler.has_info;
}

const struct block_source sampler_source = {
	.close = close_injections,
	.prepare = find_copied_pages_of,
	.attach = use_sampler,
	.check = check_sampler,
	.end = sampler_interval_leave,
	.keep_cost = sampler_intervals_keep,
	.can_save = sampler_interval_helps,
	.has_own_rate = sampler_is_used,
	.look = read_sampler_info,
	.is_used = sampler_is_used,
	.hides_heap = sampler_hides_heap,
	.is_estimated = sampler_is_estimated,
	.names_rate = names_sampler_rate,
	.describe = describe_sampler,
	.add_losses = add_sampler_losses,
};
