// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/sampler_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reason.h"
#include "collect/process/maps_text.h"
#include "collect/sources/block_sources.h"

#define LOOK_NS 10000000   /* the least time between two looks at a process */
#define AGAIN_NS 100000000 /* when to look again at one that takes many samples */

/* ---- the memory ---- */

static bool read_block(const struct target *target, uint64_t address, struct sampler_info *ret)
{
	return address && pread(target->sampler.memory_fd, ret, sizeof(*ret), address) == sizeof(*ret) &&
	       sampler_info_is_sound(ret);
}

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
	struct reason why;

	if (collector->sources->is_interval_noted)
		return;
	collector->sources->is_interval_noted = true;
	reason_set(&why, 0, "%s (PID %d) takes its own samples: allocsnap cannot limit how many, as its memory "
		   "cannot be written (%s); further such processes are not named", target->identity.comm,
		   target->identity.pid, strerror(EACCES));
	notes_add(&collector->notes, why.text);
}

static bool all_may_be_written(const struct target *target)
{
	struct sampler_info info;

	for (size_t i = 0; i < target->sampler.object_nr; i++) {
		struct sampler_place_in_memory place = sampler_find_info(&target->mappings, target->sampler.object[i]);

		if (!is_own_memory(target, &place) || !read_block(target, place.info, &info))
			return false;
	}
	return true;
}

/* Opened before the checks: what they find is true of the memory that it belongs to, or nothing can be read there. */
void sampler_interval_open(struct collector *collector, struct target *target)
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

		if (read_block(target, address, &info) && (!only || info.interval == only))
			has_any |= write_interval(target, address, &info, interval);
	}
	return has_any;
}

/* ---- the decision ---- */

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

uint64_t sampler_intervals_keep(struct collector *collector)
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

bool sampler_interval_helps(const struct target *target)
{
	return target->sampler.memory_fd >= 0 && target->sampler.interval.chosen && !target->sampler.interval.is_vain;
}

void sampler_interval_leave(struct collector *collector, struct target *target)
{
	struct target_sampler *sampler = &target->sampler;
	uint64_t chosen = interval_to_restore(&sampler->interval);

	(void)collector;
	if (sampler->memory_fd >= 0 && chosen)
		write_intervals(target, chosen, sampler->interval.written);
	close_memory(target);
}
