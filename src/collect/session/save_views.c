// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The snapshots of a pass: built from what was drained, and written to files. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "archive/names.h"
#include "base/clock.h"
#include "base/host_name.h"
#include "base/moment.h"
#include "base/reason.h"
#include "base/units.h"
#include "collect/build/build_metadata.h"
#include "collect/session/session.h"
#include "snapshot.h"
#include "symbols/symbols.h"

/* ---- the public view of the recorded processes ---- */

void collector__set_between(struct collector *collector, bool (*fn)(void *what), void *what)
{
	collector->looks.between = fn;
	collector->looks.between_what = what;
}

int collector__event_fd(const struct collector *collector)
{
	return collector->events.fd;
}

bool collector__is_blind(const struct collector *collector)
{
	return collector->helpers.has_lost_helper;
}

size_t collector__process_nr(const struct collector *collector)
{
	return collector->targets.target_nr;
}

/* Whether the numbers are of the current image, and of traces that were not cleared since. */
static bool is_of_now(const struct shown *shown, const struct process *account)
{
	return shown->exec_cnt == account->exec_cnt && shown->clear_cnt == account->clear_cnt;
}

/*
 * In system-wide mode: whether there is nothing to report. The process was recorded from its fork on, holds
 * nothing, and never held enough to be reported at its end. This is not known of a process that ran before its
 * recording began.
 */
static bool has_nothing_to_report(const struct collector_options *options, const struct process_view *view,
				  const struct target *target)
{
	const struct process *account = &target->drained.account;
	uint64_t peak_bytes = account_most_bytes(account);

	if (options->system_wide && sources_show_nothing(options, target))
		return true;
	return options->system_wide && account->is_forked && !account->counter[COUNTER_current_blocks] &&
	       (peak_bytes < options->min_bytes || !peak_bytes) && !view->lost && !target->late.nr &&
	       !target->snapshots.any_saved;
}

static void set_view_times(struct process_view *view, const struct target *target)
{
	uint64_t end_ns = target->now.account.exit_ns ?: monotonic_now_ns(), start_ns = target->life.started_ns;

	view->recorded_ns = end_ns > start_ns ? end_ns - start_ns : 0;
	view->gaps_ns = target__gaps(target, end_ns).length_ns;
}

void collector__view(const struct collector *collector, size_t i, struct process_view *ret)
{
	const struct target *target = collector->targets.target[i];

	*ret = (struct process_view){
		.pid = target->identity.pid,
		.parent = target->now.account.parent,
		.comm = target->identity.comm,
		.pod_name = target->identity.pod.name,
		.pod_namespace = target->identity.pod.namespace,
		.container_name = target->identity.pod.container,
		.user = target->mappings.user,
		.has_ended = target->life.has_ended,
		.is_drained = target->drained.account.image != 0,
		.is_final = target->snapshots.is_final,
		.is_oom_victim = target->now.account.is_oom_victim,
		.is_vforked = target->now.account.memory_of != 0,
		.is_near_oom = target->snapshots.is_near_oom,
		.cpu_ns = target->now.cost.cpu_ns,
		.cost_ns = target->now.cost.cost_ns,
		.cost_is_known = collector->limits->budgets.costs.entry_ns && !target->pages.state,
		.is_paused = target->probes.used->is_paused,
		.is_thinned = target->now.account.sample_rate || collector->bpf->bss->shared_sample_rate,
		.is_estimated = collector->bpf->rodata->settings.sample_bytes[0] ||
				target->now.account.sample_rates_used ||
				sources_are_estimated(target, &collector->bpf->rodata->settings),
		.is_unsaved = target->snapshots.is_unsaved,
		.was_saved = target->snapshots.any_saved,
	};
	set_view_times(ret, target);
	if (is_of_now(&target->snapshots.shown, &target->now.account)) {
		ret->last_bytes = target->snapshots.shown.last_bytes;
		ret->most_bytes = target->snapshots.shown.most_bytes;
	}
	read_traced_memory(&collector->targets.accounts, target, &ret->memory);
	ret->allocations = account_allocations(&target->now.account);
	for (int loss = 0; loss < LOSS_NR; loss++)
		ret->lost += target->now.account.loss[loss];
	ret->is_empty = has_nothing_to_report(&collector->options, ret, target);
	ret->lost -= target->now.account.loss[LOSS_blocks_gone_in_gap]; /* no event was lost: the pause is a gap */
}

/* ---- saving views ---- */

/* A folder, the name of a file in it without its suffix, and the folder's descriptor (O_PATH). */
struct snapshot_place {
	char *folder, *name;
	int fd;
};

static void snapshot_place_release(struct snapshot_place *place)
{
	free(place->folder);
	free(place->name);
	if (place->fd >= 0)
		close(place->fd);
}

static char *without_suffix(const char *name)
{
	return strndup(name, strlen(name) - strlen(SNAPSHOT_SUFFIX));
}

/* The place of a file that the caller named. */
static int open_named_place(struct snapshot_place *place, const char *path, struct reason *why)
{
	if (!is_snapshot_path(path))
		return reason_set(why, -EINVAL, "%s: the name does not end in " SNAPSHOT_SUFFIX, path);
	place->folder = folder_of_path(path);
	place->name = without_suffix(path_name(path));
	if (!place->folder || !place->name)
		return -ENOMEM;
	place->fd = open(place->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return place->fd < 0 ? reason_set(why, -errno, "%s: %s", place->folder, strerror(errno)) : 0;
}

static int open_snapshot_place(struct snapshot_place *place, const struct process_identity *identity,
			       const struct save_options *options, const struct snapshot_context *context,
			       struct reason *why)
{
	const struct moment moment = { context->wall_ns, context->monotonic_ns, own_boot(), 1 };
	char name[MOMENT_NAME_MAX];
	char host[HOST_NAME_BYTES];

	*place = (struct snapshot_place){ .fd = -1 };
	if (options->file)
		return open_named_place(place, options->file, why);
	place->folder = archive_make_folder(options->dir, own_host_name(host), identity->comm, identity->pid,
					    options->owner, &place->fd, why);
	if (!place->folder)
		return -errno;
	place->name = without_suffix(moment_name(name, &moment));
	return place->name ? 0 : -ENOMEM;
}

static int save_snapshot_file(const struct process_identity *identity, struct snapshot_builder *builder,
			      const struct save_options *options, const struct snapshot_context *context,
			      char **ret_path, struct reason *why)
{
	struct snapshot_place place;
	int err = open_snapshot_place(&place, identity, options, context, why);
	const struct snapshot_save_options how = {
		.compact = options->is_compact,
		.compress = options->is_compact,
		.dir_fd = &place.fd,
		.owner = options->owner,
	};

	*ret_path = NULL;
	if (!err && options->batch)
		err = snapshot_batch__add(options->batch, builder, place.folder, place.name, &how, identity->pid, why);
	else if (!err)
		err = snapshot_builder__save(builder, place.folder, place.name, &how, ret_path, why);
	if (err && place.folder && !options->file)
		rmdir(place.folder); /* fails, as it should, if other snapshots are there */
	snapshot_place_release(&place);
	return err;
}

static void log_unreadable_files(struct symbols *symbols, struct notes *notes)
{
	const char *path, *why;

	while (symbols__next_unreadable(symbols, &path, &why))
		notes_add(notes, "no more names for %s: %s", path, why);
}

static void log_refused_map(struct target *target, struct notes *notes)
{
	struct reason why;

	if (made_code_next_refusal(&target->made_code, &why))
		notes_add(notes, "no names for code that process %d makes at run time: its perf map is not read: %s",
			  target->identity.pid, why.text);
}

static int report_snapshot_failure(pid_t pid, int err, struct reason *why)
{
	return reason_set(why, err, "cannot make the snapshot of process %d: %s", pid,
			  strerror(-err));
}

static int add_snapshot_label(struct snapshot_builder *builder, const char *label)
{
	int name_len = strcspn(label, "=");
	char *key;
	int err = asprintf(&key, "label.%.*s", name_len, label) < 0 ? -ENOMEM : 0;

	if (err)
		return err;
	err = snapshot_builder__metadata(builder, key, label[name_len] ? label + name_len + 1 : "");
	free(key);
	return err;
}

static int add_snapshot_labels(struct snapshot_builder *builder, const struct save_options *options)
{
	int err = 0;

	for (size_t i = 0; i < options->label_nr && !err; i++)
		err = add_snapshot_label(builder, options->label[i]);
	return err;
}

static int build_target_snapshot(struct collector *collector, struct target *target,
				 const struct save_options *options, struct snapshot_builder **ret,
				 struct reason *why)
{
	struct snapshot_context snapshot_context = collector->pass.snapshot_context;
	int err;

	snapshot_context.trigger = options->trigger;
	snapshot_context.interval_ns = options->interval_ns;
	snapshot_context.is_compact = options->is_compact;
	err = build_snapshot(target, &target->drained.account, &collector->pass.drain, &snapshot_context,
		       collector->symbols, ret);
	if (!err) {
		err = add_snapshot_labels(*ret, options);
		if (err)
			snapshot_builder__free(*ret);
	}
	log_unreadable_files(collector->symbols, &collector->notes);
	log_refused_map(target, &collector->notes);
	return err ? report_snapshot_failure(target->identity.pid, err, why) : 0;
}

/* Also updated if the snapshot could not be written: a trigger on live bytes would otherwise fire again at once. */
static void note_shown(struct target *target)
{
	const struct process *account = &target->drained.account;
	struct shown *shown = &target->snapshots.shown;

	if (shown->exec_cnt != account->exec_cnt || shown->clear_cnt != account->clear_cnt)
		*shown = (struct shown){ account->exec_cnt, account->clear_cnt };
	shown->last_bytes = target->snapshots.assembled_bytes;
	if (shown->most_bytes < shown->last_bytes)
		shown->most_bytes = shown->last_bytes;
	target->snapshots.is_near_oom = false;
}

static int save_target(struct collector *collector, struct target *target,
		       const struct save_options *options, char **ret_path, struct reason *why)
{
	struct snapshot_builder *builder;
	int err;

	target->snapshots.is_unsaved = false;
	err = build_target_snapshot(collector, target, options, &builder, why);
	if (err)
		return err;
	note_shown(target);
	err = save_snapshot_file(&target->identity, builder, options, &collector->pass.snapshot_context, ret_path, why);
	target->snapshots.any_saved |= !err;
	target->identity.is_named |= !err;
	target->losses.snapshots_lost += err != 0;
	snapshot_builder__free(builder);
	return err;
}

void collector__note_unsaved(struct collector *collector, pid_t pid)
{
	struct target *target = find_target(&collector->targets, pid);

	if (target)
		target->losses.snapshots_lost++;
}

int collector__save_view(struct collector *collector, size_t i, const struct save_options *options,
			 char **ret_path, struct reason *why)
{
	struct target *target = collector->targets.target[i];

	if (collector->options.system_wide)
		pause_spenders(collector); /* names of a large program take a second */
	if (!collector->options.system_wide || target->drained.account.exit_ns ||
	    target->now.account.exec_cnt == target->drained.account.exec_cnt)
		return save_target(collector, target, options, ret_path, why);
	/* The name of the program that the drained blocks belong to is no longer known. */
	target->snapshots.is_unsaved = false;
	target->losses.snapshots_lost++;
	*ret_path = NULL;
	return 0;
}

int collector__save(struct collector *collector, pid_t pid, const struct save_options *options,
		    char **ret_path, struct reason *why)
{
	struct target *target = find_target(&collector->targets, pid);

	return target ? save_target(collector, target, options, ret_path, why) :
			log_not_tracing(pid, why);
}

int collector__take_snapshot(struct collector *collector, pid_t pid, struct snapshot **ret,
			     struct reason *why)
{
	const struct save_options in_memory = {};
	struct snapshot_builder *builder;
	struct target *target;
	int err = find_target(&collector->targets, pid) ? collector__drain(collector, why) : 0;

	if (err)
		return err;
	target = find_target(&collector->targets, pid);
	err = target ? build_target_snapshot(collector, target, &in_memory, &builder, why) : log_not_tracing(pid, why);
	if (err)
		return err;
	err = snapshot_builder__finish(builder, ret);
	return err ? report_snapshot_failure(pid, err, why) : 0;
}
