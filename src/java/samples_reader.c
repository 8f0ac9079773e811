// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "java/samples_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reason.h"

#define SLOT_TRIES 8
#define SWEEP_TRIES 50
#define SWEEP_MS 2
#define SIZE_MOST (UINT64_C(1) << 44)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

struct java_samples {
	int fd;
	uint64_t lease;
	struct java_head head;
	struct java_slot *slot, *again; /* JAVA_SLOTS of each */
	uint8_t *is_sound;
	struct java_node *node;
	struct java_frame *frame;
	char *text;
	uint64_t unsound_nr;
};

static int read_file_at(int fd, uint64_t at, void *to, size_t bytes)
{
	ssize_t got = pread(fd, to, bytes, at);

	return got == (ssize_t)bytes ? 0 : got < 0 ? -errno : -EBADMSG;
}

/* ---- open and closed ---- */

static bool is_head_sound(const struct java_head *head)
{
	return head->magic == JAVA_SAMPLES_MAGIC && head->version == JAVA_SAMPLES_VERSION && head->interval && head->interval <= INT32_MAX &&
	       head->slot_nr <= JAVA_SLOTS && head->node_nr <= JAVA_NODES && head->node_nr >= JAVA_NODE_FIRST &&
	       head->frame_nr <= JAVA_FRAMES && head->frame_nr >= JAVA_FRAME_FIRST && head->text_bytes <= JAVA_TEXT_BYTES;
}

static int check_samples_file(int fd, struct java_head *ret)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size != JAVA_FILE_BYTES || (fcntl(fd, F_GET_SEALS) & SEALS) != SEALS)
		return -EBADMSG;
	return read_file_at(fd, 0, ret, sizeof(*ret)) ?: is_head_sound(ret) ? 0 : -EBADMSG;
}

static int allocate(struct java_samples *samples)
{
	samples->slot = malloc(JAVA_SLOTS * sizeof(*samples->slot));
	samples->again = malloc(JAVA_SLOTS * sizeof(*samples->again));
	samples->is_sound = malloc(JAVA_SLOTS);
	samples->node = malloc(JAVA_NODES * sizeof(*samples->node));
	samples->frame = malloc(JAVA_FRAMES * sizeof(*samples->frame));
	samples->text = malloc(JAVA_TEXT_BYTES);
	return samples->slot && samples->again && samples->is_sound && samples->node && samples->frame && samples->text ? 0 : -ENOMEM;
}

int java_samples__open(int fd, struct java_samples **ret, struct reason *why)
{
	struct java_samples *samples = calloc(1, sizeof(*samples));
	struct java_head head = {};
	int err;

	if (!samples) {
		close(fd);
		return -ENOMEM;
	}
	samples->fd = fd;
	err = check_samples_file(fd, &head) ?: allocate(samples);
	samples->head.interval = head.interval;
	samples->head.state = head.state;
	if (err) {
		java_samples__close(samples);
		return err == -ENOMEM ? err : reason_set(why, err, "its memory file is not the agent's, or of another version");
	}
	*ret = samples;
	return 0;
}

void java_samples__close(struct java_samples *samples)
{
	if (!samples)
		return;
	close(samples->fd);
	free(samples->slot);
	free(samples->again);
	free(samples->is_sound);
	free(samples->node);
	free(samples->frame);
	free(samples->text);
	free(samples);
}

/* ---- orders ---- */

static void write_at(const struct java_samples *samples, uint64_t at, const void *from, size_t bytes)
{
	ssize_t written = pwrite(samples->fd, from, bytes, at);

	(void)written; /* the process may have sealed it: then its agent ends */
}

void java_samples__renew(struct java_samples *samples)
{
	samples->lease++;
	write_at(samples, JAVA_ORDERS_AT + offsetof(struct java_orders, lease), &samples->lease, sizeof(samples->lease));
}

void java_samples__stop(struct java_samples *samples)
{
	const uint32_t stops = 1;

	write_at(samples, JAVA_ORDERS_AT + offsetof(struct java_orders, stops), &stops, sizeof(stops));
}

bool java_samples__has_ended(const struct java_samples *samples)
{
	uint32_t state;

	return read_file_at(samples->fd, offsetof(struct java_head, state), &state, sizeof(state)) || state != JAVA_ON;
}

/* ---- reading ---- */

/* The agent writes none that does not fit. */
static bool does_slot_fit(const struct java_slot *slot, uint32_t node_nr)
{
	return slot->node < node_nr && slot->size && slot->size <= SIZE_MOST;
}

static void leave_unfit_out(struct java_samples *samples, uint32_t slot_nr, uint32_t node_nr)
{
	for (uint32_t i = 0; i < slot_nr; i++)
		if (samples->is_sound[i] && samples->slot[i].node && !does_slot_fit(&samples->slot[i], node_nr)) {
			samples->is_sound[i] = false;
			samples->unsound_nr++;
		}
}

/* A slot is sound when it was the same twice, and was not being written. */
static int read_slots(struct java_samples *samples, uint32_t nr)
{
	size_t bytes = nr * sizeof(*samples->slot);
	uint64_t missing = nr;
	int err = read_file_at(samples->fd, JAVA_SLOTS_AT, samples->slot, bytes);

	memset(samples->is_sound, 0, nr);
	for (int try = 0; try < SLOT_TRIES && missing && !err; try++) {
		err = read_file_at(samples->fd, JAVA_SLOTS_AT, samples->again, bytes);
		for (uint32_t i = 0; i < nr && !err; i++) {
			if (samples->is_sound[i])
				continue;
			samples->is_sound[i] = !memcmp(&samples->slot[i], &samples->again[i], sizeof(samples->slot[i])) &&
					       !(samples->slot[i].sequence & 1);
			missing -= samples->is_sound[i];
			samples->slot[i] = samples->again[i];
		}
	}
	samples->unsound_nr = missing;
	return err;
}

/* The agent writes nodes, frames and texts before the slot that names them: their numbers are read after the slots. */
static int read_once(struct java_samples *samples, struct java_head *before, struct java_head *after)
{
	int err = read_file_at(samples->fd, 0, before, sizeof(*before)) ?: is_head_sound(before) ? 0 : -EBADMSG;

	err = err ?: read_slots(samples, before->slot_nr) ?: read_file_at(samples->fd, 0, after, sizeof(*after));
	err = err ?: is_head_sound(after) ? 0 : -EBADMSG;
	if (!err)
		leave_unfit_out(samples, before->slot_nr, after->node_nr);
	return err ?: read_file_at(samples->fd, JAVA_NODES_AT, samples->node, after->node_nr * sizeof(*samples->node)) ?:
		      read_file_at(samples->fd, JAVA_FRAMES_AT, samples->frame, after->frame_nr * sizeof(*samples->frame)) ?:
		      read_file_at(samples->fd, JAVA_TEXTS_AT, samples->text, after->text_bytes);
}

/* The sums of nodes agree with the slots if the agent has not swept meanwhile. */
static bool was_swept(const struct java_samples *samples, const struct java_head *before)
{
	uint64_t now;

	return before->sweeps & 1 || read_file_at(samples->fd, offsetof(struct java_head, sweeps), &now, sizeof(now)) || now != before->sweeps;
}

int java_samples__read(struct java_samples *samples)
{
	struct java_head before, after;
	int err = read_once(samples, &before, &after);

	for (int try = 1; try < SWEEP_TRIES && !err && was_swept(samples, &before); try++) {
		poll(NULL, 0, SWEEP_MS);
		err = read_once(samples, &before, &after);
	}
	after.slot_nr = before.slot_nr;
	after.interval = samples->head.interval; /* as it was at first: weights depend on it */
	samples->head = err ? (struct java_head){ .interval = samples->head.interval } : after;
	return err;
}

/* A look may have begun before. */
int java_samples__await_look(struct java_samples *samples, uint64_t until_ns)
{
	int err = java_samples__read(samples);
	const uint64_t before = samples->head.looks;

	while (!err && samples->head.looks < before + 2 && !java_samples__has_ended(samples)) {
		if (monotonic_now_ns() >= until_ns)
			return -ETIMEDOUT;
		poll(NULL, 0, 10 * SWEEP_MS);
		err = java_samples__read(samples);
	}
	return err ?: samples->head.looks < before + 2 ? -ESRCH : 0;
}

const struct java_head *java_samples__head(const struct java_samples *samples)
{
	return &samples->head;
}

uint64_t java_samples__unsound(const struct java_samples *samples)
{
	return samples->unsound_nr;
}

int java_samples__each(const struct java_samples *samples, java_sample_fn fn, void *what)
{
	int err = 0;

	for (uint32_t i = 0; i < samples->head.slot_nr && !err; i++) {
		const struct java_slot *slot = &samples->slot[i];

		if (!samples->is_sound[i] || !slot->node)
			continue;
		err = fn(what, &(struct java_sample){
			.slot = i, .node = slot->node, .tid = slot->tid, .survived = slot->survived, .size = slot->size,
			.birth_ns = slot->birth_ns, .bytes = java_sample_bytes(slot->size, samples->head.interval),
		});
	}
	return err;
}

/* ---- stacks ---- */

uint32_t java_samples__node_nr(const struct java_samples *samples)
{
	return samples->head.node_nr;
}

void java_samples__node_sums(const struct java_samples *samples, uint32_t node, uint64_t *ret_count, uint64_t *ret_bytes)
{
	*ret_count = samples->node[node].count;
	*ret_bytes = samples->node[node].bytes;
}

/* A parent has a lower number, so each walk ends. */
bool java_samples__stack(const struct java_samples *samples, uint32_t node, struct java_stack *ret)
{
	ret->nr = 0;
	while (node >= JAVA_NODE_FIRST && node < samples->head.node_nr && ret->nr < JAVA_STACK_MAX + 1) {
		uint32_t parent = samples->node[node].parent;

		ret->frame[ret->nr++] = samples->node[node].frame;
		node = parent < node ? parent : 0;
	}
	ret->is_deep = node == JAVA_NODE_DEEP;
	return ret->nr && (node == JAVA_NODE_ROOT || node == JAVA_NODE_DEEP);
}

/* ---- names ---- */

/* Not ended by a NUL. *ret_bytes 0: no text. */
static const char *java_text_at(const struct java_samples *samples, uint32_t at, size_t *ret_bytes)
{
	uint16_t bytes = 0;

	*ret_bytes = 0;
	if (at < JAVA_TEXT_FIRST || at > samples->head.text_bytes || samples->head.text_bytes - at < sizeof(bytes))
		return "";
	memcpy(&bytes, samples->text + at, sizeof(bytes));
	if (bytes > JAVA_TEXT_MOST || bytes > samples->head.text_bytes - at - sizeof(bytes))
		return "";
	*ret_bytes = strnlen(samples->text + at + sizeof(bytes), bytes);
	return samples->text + at + sizeof(bytes);
}

/* The package of a class is a folder: "Lcom/acme/Shop$Cart;" in Shop.java is com/acme/Shop.java. */
static void name_java_file(const char *class, size_t class_bytes, const char *file, size_t file_bytes, bool is_platform, char *ret, size_t room)
{
	const char *slash = memrchr(class, '/', class_bytes);
	size_t folder = slash ? slash + 1 - class : 0, skip = folder && *class == 'L';

	if (file_bytes)
		snprintf(ret, room, "%s%.*s%.*s", is_platform ? JAVA_PLATFORM_FOLDER : "", (int)(folder - skip), class + skip, (int)file_bytes,
			 file);
	else
		snprintf(ret, room, "%s<unknown>", is_platform ? JAVA_PLATFORM_FOLDER : "");
}

bool java_samples__frame(const struct java_samples *samples, uint32_t id, struct java_frame_text *ret)
{
	const struct java_frame *frame = &samples->frame[id];
	const char *class, *method, *file;
	size_t class_bytes, method_bytes, file_bytes;
	char name[JAVA_TYPE_MAX];

	if (id < JAVA_FRAME_FIRST || id >= samples->head.frame_nr)
		return false;
	class = java_text_at(samples, frame->class, &class_bytes);
	method = java_text_at(samples, frame->method, &method_bytes);
	file = java_text_at(samples, frame->file, &file_bytes);
	java_type_name(class, class_bytes, name);
	if (!*name)
		snprintf(name, sizeof(name), "<unknown>");
	*ret = (struct java_frame_text){ .line = !frame->is_type && frame->line > 0 ? frame->line : 0 };
	if (frame->is_type) {
		snprintf(ret->function, sizeof(ret->function), "%s", name);
		snprintf(ret->file, sizeof(ret->file), "%s", JAVA_TYPE_FILE);
		return true;
	}
	snprintf(ret->function, sizeof(ret->function), "%s.%.*s", name, (int)method_bytes, method);
	name_java_file(class, class_bytes, file, file_bytes, frame->is_platform, ret->file, sizeof(ret->file));
	return true;
}
