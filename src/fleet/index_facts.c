// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reads the facts that a snapshot states about itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "fleet/index_private.h"

#define LABEL_PREFIX "label."

static const char *get_fact_metadata(const struct snapshot *snapshot, const char *key)
{
	return snapshot__metadata(snapshot, key) ?: "";
}

/* Returns 0 if the snapshot does not have the number. */
static int64_t metadata_number(const struct snapshot *snapshot, const char *key)
{
	uint64_t number = snapshot__metadata_u64(snapshot, key, 0);

	return number <= INT64_MAX ? number : 0;
}

int found_copy_any_text(struct found *found, const char *text, size_t *ret)
{
	size_t len = strlen(text) + 1;
	int err = array_reserve(&found->text, &found->text_alloc, found->text_nr + len);

	if (err)
		return err;
	memcpy(found->text + found->text_nr, text, len);
	*ret = found->text_nr;
	found->text_nr += len;
	return 0;
}

int found_copy_text(struct found *found, const char *text, size_t *ret)
{
	size_t len = strlen(text);

	if (len > FOUND_TEXT_MAX)
		return reason_set(&found->why, -EBADMSG, "a text of %zu bytes: no more than %d are taken", len,
				  FOUND_TEXT_MAX);
	if (found->text_nr + len > FOUND_TEXTS_MAX)
		return reason_set(&found->why, -EBADMSG, "more than %d bytes of texts", FOUND_TEXTS_MAX);
	return found_copy_any_text(found, text, ret);
}

/* ---- which snapshot it is --------------------------------------------------------------------------------- */

/* Parses "2026-11-21T03:15:00.123Z"; returns -1 for any other text. */
static int64_t parse_wall_time(const char *text)
{
	struct tm utc = {};
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &utc);
	int64_t unit = 1000000000, ns = 0;

	if (!end)
		return -1;
	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9'; end++)
			ns += (*end - '0') * (unit /= 10);
	if (strcmp(end, "Z") || timegm(&utc) < 0 || timegm(&utc) > INT64_MAX / 1000000000 - 1)
		return -1;
	return timegm(&utc) * 1000000000 + ns;
}

static int64_t snapshot_wall_ns(const struct snapshot *snapshot)
{
	uint64_t wall_ns = snapshot__metadata_u64(snapshot, "wall_ns", 0);

	if (wall_ns && wall_ns <= INT64_MAX)
		return wall_ns;
	return parse_wall_time(get_fact_metadata(snapshot, "wall_time"));
}

static int not_ours(struct found *found, const char *path, const char *missing)
{
	found->problem = INDEX_FOREIGN;
	return reason_set(&found->why, -EBADMSG, "%s: it does not say %s", path, missing);
}

/* Texts, each with its NUL: no text contains one, so that different texts make different bytes. */
struct identity {
	char *bytes;
	size_t bytes_nr, bytes_alloc;
};

static int add_identity(struct identity *identity, const char *text)
{
	size_t len = strlen(text) + 1;
	int err = array_reserve(&identity->bytes, &identity->bytes_alloc, identity->bytes_nr + len);

	if (err)
		return err;
	memcpy(identity->bytes + identity->bytes_nr, text, len);
	identity->bytes_nr += len;
	return 0;
}

static int make_snapshot_ids(struct found *found, const struct snapshot *snapshot, struct identity *identity)
{
	static const char *const process[] = {
		"host", "boot_id", "pid", "start_time_ticks", "exec_count",
	};
	char time[24];
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(process) && !err; i++)
		err = add_identity(identity, get_fact_metadata(snapshot, process[i]));
	if (err)
		return err;
	found->process_id = hash_id_make(identity->bytes, identity->bytes_nr).id;
	snprintf(time, sizeof(time), "%lld", (long long)found->time_ns);
	err = add_identity(identity, time) ?: add_identity(identity, get_fact_metadata(snapshot, "filters"));
	if (!err)
		found->snapshot = hash_id_make(identity->bytes, identity->bytes_nr);
	return err;
}

static int find_ids(struct found *found, const struct snapshot *snapshot, const char *path)
{
	struct identity identity = {};
	uint64_t pid = snapshot__metadata_u64(snapshot, "pid", 0);
	int err;

	found->time_ns = snapshot_wall_ns(snapshot);
	if (!*get_fact_metadata(snapshot, "host"))
		return not_ours(found, path, "of which host it is");
	if (!pid || pid > INT64_MAX)
		return not_ours(found, path, "of which process it is");
	if (found->time_ns < 0)
		return not_ours(found, path, "when it was taken");
	found->pid = pid;
	found->monotonic_ns = metadata_number(snapshot, "monotonic_ns");
	found->recording_ns = metadata_number(snapshot, "recording_start_monotonic_ns");
	found->interval_ns = metadata_number(snapshot, "interval_ns");
	found->start_ticks = metadata_number(snapshot, "start_time_ticks");
	found->exec_count = metadata_number(snapshot, "exec_count");
	err = make_snapshot_ids(found, snapshot, &identity);
	free(identity.bytes);
	return err;
}

/* ---- other facts ------------------------------------------------------------------------------ */

/* Returns the build-id of the program: the object whose path is the executable's. */
static const char *exe_build_id(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	const char *exe = get_fact_metadata(snapshot, "exe"), *said = get_fact_metadata(snapshot, "exe_build_id");

	for (uint32_t i = 1; !*said && *exe && i < t->object_nr; i++)
		if (!strcmp(snapshot__string(snapshot, t->object[i].path), exe))
			said = snapshot__string(snapshot, t->object[i].build_id);
	return said;
}

static int found_add_texts(struct found *found, const struct snapshot *snapshot)
{
	const char *const text[FLEET_TEXT_NR] = {
		[FLEET_TEXT_host] = get_fact_metadata(snapshot, "host"),
		[FLEET_TEXT_comm] = get_fact_metadata(snapshot, "comm"),
		[FLEET_TEXT_exe] = get_fact_metadata(snapshot, "exe"),
		[FLEET_TEXT_exe_build_id] = exe_build_id(snapshot),
		[FLEET_TEXT_cgroup] = get_fact_metadata(snapshot, "cgroup"),
		[FLEET_TEXT_container] = get_fact_metadata(snapshot, "container_id"),
		[FLEET_TEXT_boot_id] = get_fact_metadata(snapshot, "boot_id"),
		[FLEET_TEXT_kernel] = get_fact_metadata(snapshot, "kernel"),
		[FLEET_TEXT_version] = get_fact_metadata(snapshot, "allocsnap_version"),
		[FLEET_TEXT_trigger] = get_fact_metadata(snapshot, "trigger"),
		[FLEET_TEXT_ending] = get_fact_metadata(snapshot, "end"),
	};
	int err = 0;

	for (int i = 0; i < FLEET_TEXT_NR && !err; i++)
		err = found_copy_text(found, text[i], &found->fact[i]);
	return err;
}

static int found_add_labels(struct found *found, const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	int err = 0;

	for (uint32_t i = 0; i < t->metadata_nr && !err; i++) {
		const char *key = snapshot__string(snapshot, t->metadata[i].key);
		struct found_pair pair = {};

		if (strncmp(key, LABEL_PREFIX, strlen(LABEL_PREFIX)))
			continue;
		err = found_copy_text(found, key + strlen(LABEL_PREFIX), &pair.name) ?:
		      found_copy_text(found, snapshot__string(snapshot, t->metadata[i].value), &pair.text) ?:
		      array_push(found, label, pair);
	}
	return err;
}

/* Adds the losses that are not zero. */
static int found_add_losses(struct found *found, const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	int err = 0;

	for (uint32_t i = 0; i < t->counter_nr && !err; i++) {
		struct found_pair pair = { .value = t->counter[i].value };

		if (t->counter[i].kind != SNAP_LOST || !pair.value)
			continue;
		err = found_copy_text(found, snapshot__string(snapshot, t->counter[i].name), &pair.name) ?:
		      array_push(found, loss, pair);
	}
	return err;
}

static int check_size(struct found *found)
{
	return found->text_nr <= FOUND_FACTS_MAX ? 0 :
	       reason_set(&found->why, -EBADMSG, "labels and losses of more than %d bytes", FOUND_FACTS_MAX);
}

int found_read_facts(struct found *found, const struct snapshot *snapshot, const char *path)
{
	uint64_t limit = snapshot__metadata_u64(snapshot, "traceback_limit", 0);

	found->traceback_limit = limit <= UINT32_MAX ? limit : 0;
	found->is_part = snapshot__metadata(snapshot, "filters");
	found->sample_bytes_most = metadata_number(snapshot, "sample_bytes_most");
	return find_ids(found, snapshot, path) ?: found_add_texts(found, snapshot) ?:
	       found_add_labels(found, snapshot) ?: found_add_losses(found, snapshot) ?: check_size(found);
}
