// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/files/written_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "collect/files/unused_files.h"
#include "collect/probe/attach_methods.h"
#include "collect/recording/collector.h"

/* ---- probes that are gone ---- */

/* The next look probes the file again. Allocations until then are not seen: its functions are late. */
static void request_reprobe(struct objects *objects, struct target *target, uint32_t object)
{
	target->reading.is_touched = true;
	if (!objects->object[object]->has_changed)
		target->late.nr += probes_count_functions(objects, object, !target->probes.hide_heap);
}

static void drop_probes(struct objects *objects, struct shared_probes *shared, struct targets *targets, uint32_t object)
{
	bool was_everybodys = probes_drop(&shared->probes, object, &shared->detacher);

	for (size_t i = 0; i < targets->target_nr; i++) {
		struct target *target = targets->target[i];
		bool was_own = target->probes.used != &shared->probes &&
			       probes_drop(target->probes.used, object, &shared->detacher);

		was_own |= probes_drop(&target->probes.beside, object, &shared->detacher);
		if (!target->life.has_ended && (was_own || was_everybodys) && mappings_use(&target->mappings, object))
			request_reprobe(objects, target, object);
	}
}

/* ---- files that the link holder or a watch reports ---- */

static struct probe_link *find_kept_link(const struct probes *probes, int kept)
{
	return array_find(probes, link, i, probes->link[i].kept == kept);
}

static struct probe_link *find_link(const struct shared_probes *shared, const struct targets *targets, int kept)
{
	struct probe_link *link = find_kept_link(&shared->probes, kept);

	for (size_t i = 0; i < targets->target_nr && !link; i++)
		link = find_kept_link(&targets->target[i]->probes.own, kept) ?:
		       find_kept_link(&targets->target[i]->probes.beside, kept);
	return link;
}

/*
 * Drops the probes of a link that the link holder has ended. The file may only have been open for writing: then it is
 * probed again.
 */
static void handle_closed_link(struct objects *objects, struct shared_probes *shared, struct targets *targets, int kept)
{
	struct probe_link *link = find_link(shared, targets, kept);

	if (!link)
		return; /* it was dropped meanwhile */
	link->kept = 0;
	objects_check(objects, link->object);
	drop_probes(objects, shared, targets, link->object);
}

static void log_unwatched_files(struct notes *notes, int err, uint64_t nr)
{
	notes_add(notes,
		  "%" PRIu64 " probed file%s cannot be watched for writes: %s; replace programs by renaming new files over them, not by writing into the old ones",
		  nr, nr == 1 ? "" : "s", strerror(err));
}

static void handle_link_holder_news(struct collector *collector)
{
	uint64_t nr;
	int kept, err;

	while ((kept = link_holder__next_closed(collector->helpers.link_holder)))
		handle_closed_link(&collector->objects, &collector->shared, &collector->targets, kept);
	err = link_holder__next_unwatched(collector->helpers.link_holder, &nr);
	if (err)
		log_unwatched_files(&collector->notes, err, nr);
}

static void drop_watched(struct objects *objects, struct shared_probes *shared, struct targets *targets, int watch)
{
	for (size_t i = 0; i < objects->object_nr; i++) {
		const struct object *object = objects->object[i];

		if (!object || !object->watch || (watch != FILE_WATCH_ALL && object->watch != watch))
			continue;
		objects_check(objects, i);
		drop_probes(objects, shared, targets, i);
	}
}

/* Drops the probes of files that a process waits to write to, and gives up leases once all probes that were dropped are gone. */
static void end_leases(struct written_files *written, struct objects *objects, struct shared_probes *shared, struct targets *targets)
{
	for (size_t i = 0; i < written->lease_nr; i++) {
		if (written->lease[i].is_ending || !file_lease_is_broken(written->lease[i].fd))
			continue;
		written->lease[i].is_ending = true;
		objects_check(objects, written->lease[i].object);
		drop_probes(objects, shared, targets, written->lease[i].object);
	}
	if (detach_pending(&shared->detacher))
		return;
	for (size_t i = 0; i < written->lease_nr; i++)
		if (written->lease[i].is_ending)
			close(written->lease[i].fd);
	array_keep(written, lease, i, !written->lease[i].is_ending);
}

/* Perf events belong to this process, and so do the watches on their files, and the leases. */
static void handle_watch_news(struct collector *collector)
{
	struct written_files *written = &collector->files->written;
	int watch;

	while ((watch = file_watch_next(&written->watch)) != FILE_WATCH_NONE)
		drop_watched(&collector->objects, &collector->shared, &collector->targets, watch);
	end_leases(written, &collector->objects, &collector->shared, &collector->targets);
}

/* ---- files that are open for writing ---- */

#define TRIED_AT_ONCE 64 /* any user can keep many files open */
#define NOTED_MOST 32

static void put_off_object(struct collector *collector, uint32_t i)
{
	struct object *object = collector->objects.object[i];

	object->is_put_off = true;
	if (object->is_put_off_told || collector->files->written.put_off_told_nr++ >= NOTED_MOST)
		return;
	object->is_put_off_told = true;
	notes_add(&collector->notes,
		  "%s is open for writing: nothing in it is probed until that is over", object->path);
}

void put_off_unplaced_objects(struct collector *collector, const struct probes *probes)
{
	size_t i = 0;

	while (i < probes->link_nr) {
		if (!probes->link[i].is_put_off) {
			i++;
			continue;
		}
		put_off_object(collector, probes->link[i].object);
		drop_probes(&collector->objects, &collector->shared, &collector->targets, probes->link[i].object);
		i = 0; /* links have moved */
	}
}

/*
 * Only these functions get a note, because a user would not expect this. Other functions that cannot be probed
 * are only counted.
 */
static void note_nops(const struct objects *objects, struct notes *notes, const struct probes *probes, uint32_t object)
{
	for (size_t i = 0; i < probes->site_nr; i++) {
		const struct probe_site *site = &probes->site[i];

		if (site->object != object || !site->is_on_nop5)
			continue;
		notes_add(notes,
			  "%s in %s is not recorded: its probe would sit on a nop of five bytes, where this kernel ends forked children",
			  site->function, objects->object[object]->path);
	}
}

/* Detects a write that happened before the file was watched, by the file's times. */
int probe_object(struct collector *collector, struct probes *probes, uint32_t object, bool with_heap,
		 struct reason *why)
{
	bool is_new = !probes_have_looked(probes, object);
	int err;

	if (collector->objects.object[object]->has_changed)
		return 0;
	err = watch_file(collector, object) ?:
		      probes_attach(probes, collector->bpf, &collector->objects, object, with_heap, why);
	if (err == -ETXTBSY) {
		probes_drop(probes, object, &collector->shared.detacher);
		put_off_object(collector, object);
		return 0;
	}
	if (is_new)
		note_nops(&collector->objects, &collector->notes, probes, object);
	if (!err && is_new && !objects_check(&collector->objects, object))
		probes_drop(probes, object, &collector->shared.detacher);
	return err;
}

static void retry_put_off_object(struct collector *collector, uint32_t i)
{
	struct object *object = collector->objects.object[i];

	object->is_put_off = false;
	for (size_t t = 0; t < collector->targets.target_nr; t++)
		if (!collector->targets.target[t]->life.has_ended &&
		    mappings_use(&collector->targets.target[t]->mappings, i))
			collector->targets.target[t]->reading.is_touched = true;
	if (object->is_kept)
		probe_object(collector, &collector->shared.probes, i, true, NULL);
}

static void retry_put_off_objects(struct collector *collector)
{
	uint64_t now_ns = monotonic_now_ns();
	size_t nr = collector->objects.object_nr, tried = 0;

	if ((collector->shared.probes.is_paused && !links_are_own(collector)) ||
	    now_ns - collector->files->written.put_off_ns < SECOND_NS)
		return;
	collector->files->written.put_off_ns = now_ns;
	for (size_t n = 0; n < nr && tried < TRIED_AT_ONCE; n++) {
		size_t i = collector->files->written.put_off_at++ % nr;

		if (!collector->objects.object[i] || !collector->objects.object[i]->is_put_off)
			continue;
		retry_put_off_object(collector, i);
		tried++;
	}
}

/* ---- together ---- */

static void drop_changed(struct collector *collector)
{
	if (collector->objects.changed_nr == collector->files->written.changed_nr)
		return;
	collector->files->written.changed_nr = collector->objects.changed_nr;
	for (size_t i = 0; i < collector->objects.object_nr; i++)
		if (collector->objects.object[i] && collector->objects.object[i]->has_changed)
			drop_probes(&collector->objects, &collector->shared, &collector->targets, i);
}

void handle_written_files(struct collector *collector)
{
	if (collector->helpers.link_holder)
		handle_link_holder_news(collector);
	else
		handle_watch_news(collector);
	drop_changed(collector);
	retry_put_off_objects(collector);
}

static bool has_probed_functions(const struct object *object)
{
	return object->fd >= 0 && object->probe_info && probe_info_has_places(object->probe_info);
}

int watch_file(struct collector *collector, uint32_t i)
{
	struct written_files *written = &collector->files->written;
	struct object *object = collector->objects.object[i];
	const struct file_lease *known = array_find(written, lease, n, written->lease[n].object == i);
	struct file_lease lease = { .object = i };
	bool has_lease;
	int watch;

	if (known)
		return known->is_ending ? -ETXTBSY : 0;
	if (collector->helpers.link_holder || !has_probed_functions(object))
		return 0;
	watch = file_watch_add(&written->watch, object->fd);
	lease.fd = file_lease_take(object->fd, &has_lease);
	if (lease.fd == -ETXTBSY)
		return -ETXTBSY;
	if (watch > 0)
		object->watch = watch;
	else if (!has_lease)
		log_unwatched_files(&collector->notes, -watch, 1);
	if (lease.fd >= 0 && (!has_lease || array_push(written, lease, lease)))
		close(lease.fd);
	return 0;
}

/*
 * A file that was written to has become another object, with the same watch: the watch stays until both are
 * dropped.
 */
void unwatch_file(struct written_files *written, struct objects *objects, uint32_t index)
{
	int watch = objects->object[index]->watch;
	bool is_needed = !watch;

	for (size_t i = 0; i < written->lease_nr; i++)
		if (written->lease[i].object == index)
			written->lease[i] = (struct file_lease){ .fd = written->lease[i].fd, .object = OBJECT_GONE, .is_ending = true };
	objects->object[index]->watch = 0;
	for (size_t i = 0; i < objects->object_nr; i++)
		is_needed |= objects->object[i] && objects->object[i]->watch == watch;
	if (!is_needed)
		file_watch_remove(&written->watch, watch);
}

void release_written_files(struct written_files *written)
{
	for (size_t i = 0; i < written->lease_nr; i++)
		close(written->lease[i].fd);
	free(written->lease);
	file_watch_close(&written->watch);
}

void check_probed_files(struct collector *collector, const struct probes *probes)
{
	for (size_t i = 0; i < probes->link_nr; i++)
		objects_check(&collector->objects, probes->link[i].object);
	handle_written_files(collector);
}

void check_files(struct collector *collector)
{
	for (size_t i = 0; i < collector->objects.object_nr; i++)
		if (collector->objects.object[i])
			objects_check(&collector->objects, i);
	handle_written_files(collector);
}
