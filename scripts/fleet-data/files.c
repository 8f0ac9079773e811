// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The snapshot files, as a recording has them: DIR/HOST/COMM.PID/TIME.snap, compact and compressed. There is no
 * fsync(): the files can be made again.
 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "snapshot.h"

struct file {
	const struct model *model;
	const struct moment *moment;
	struct snapshot_builder *builder;
	uint32_t exe, library, libc; /* object ids */
	uint32_t *frame;	     /* ids by the model's number, 0: not there yet */
	uint32_t wrapper[2];
};

static uint32_t string(struct file *f, const char *text)
{
	uint32_t id;

	must(snapshot_builder__string(f->builder, text, &id), "string");
	return id;
}

static uint32_t object(struct file *f, const char *path, const char *build_id)
{
	struct snap_object object = { string(f, path), string(f, build_id) };
	uint32_t id;

	must(snapshot_builder__object(f->builder, &object, &id), "object");
	return id;
}

static uint32_t add_frame(struct file *f, const struct frame_facts *facts, uint32_t object)
{
	struct snap_frame frame = {
		.filename = string(f, facts->line ? facts->file : facts->module),
		.lineno = facts->line,
		.function = string(f, facts->function),
		.object = object,
		.offset = facts->offset,
	};
	uint32_t id;

	must(snapshot_builder__frame_declared(f->builder, &frame, facts->first_line, &id), "frame");
	return id;
}

static uint32_t frame_of(struct file *f, uint32_t number)
{
	const struct frame_facts *facts = &f->model->frame[f->moment->program][f->moment->version][number];

	if (!f->frame[number])
		f->frame[number] = add_frame(f, facts, facts->is_shared ? f->library : f->exe);
	return f->frame[number];
}

static void add_objects(struct file *f)
{
	static const struct frame_facts wrapper[2] = {
		{ .function = "malloc", .module = LIBC, .offset = 0x98f40 },
		{ .function = "operator new(unsigned long)", .module = LIBRARY, .offset = 0xae98c },
	};
	const struct moment *moment = f->moment;

	f->exe = object(f, programs[moment->program].exe,
			f->model->build_id[moment->program][moment->version]);
	f->library = object(f, LIBRARY, LIBRARY_BUILD_ID);
	f->libc = object(f, LIBC, LIBC_BUILD_ID);
	f->wrapper[0] = add_frame(f, &wrapper[0], f->libc);
	f->wrapper[1] = add_frame(f, &wrapper[1], f->library);
}

static uint32_t add_traceback(struct file *f, uint32_t number)
{
	struct traceback_facts facts = model_traceback(f->model, f->moment->program, number);
	uint32_t frame[2 + DEPTH_MAX], nr = facts.wrappers, id;

	memcpy(frame, f->wrapper, nr * sizeof(*frame));
	for (uint32_t i = 0; i < facts.nframe; i++)
		frame[nr++] = frame_of(f, facts.frame[i]);
	must(snapshot_builder__traceback(f->builder, frame, nr, nr, SNAP_TRACEBACK_END_FLAG(SNAP_END_ROOT), &id),
	     "traceback");
	return id;
}

static void add_traces(struct file *f)
{
	for (uint32_t i = 0; i < f->model->options.sites; i++) {
		struct site site = model_site(f->model, f->moment, i);
		struct snap_trace trace = {
			.traceback = add_traceback(f, site.traceback),
			.domain = site.domain,
		};

		for (uint32_t j = 0; j < site.count; j++) {
			trace.size = site.block[j];
			trace.birth_ns = site.birth_s[j] * 1000000000;
			must(snapshot_builder__trace(f->builder, &trace), "trace");
		}
	}
}

static const char *format_time(char text[40], uint64_t wall_s, const char *format)
{
	time_t seconds = wall_s;
	struct tm utc;

	strftime(text, 40, format, gmtime_r(&seconds, &utc));
	return text;
}

static void add_number(struct file *f, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%lu", value);
	must(snapshot_builder__metadata(f->builder, key, text), key);
}

static void add_metadata(struct file *f)
{
	const struct moment *moment = f->moment;
	const struct program *program = &programs[moment->program];
	char wall[40];
	const char *const text[][2] = {
		{ "host", moment->host_name },
		{ "kernel", "6.1.0-38-amd64" },
		{ "boot_id", moment->boot_id },
		{ "comm", program->comm },
		{ "exe", program->exe },
		{ "cmdline", program->exe },
		{ "cgroup", program->cgroup },
		{ "allocsnap_version", ALLOCSNAP_VERSION },
		{ "wall_time", format_time(wall, moment->wall_s, "%Y-%m-%dT%H:%M:%S.000Z") },
		{ "trigger", moment->has_exited ? "end" : "interval" },
		{ "end", moment->has_exited ? "exited 0" : "running" },
		{ "label.version", version_name[moment->version] },
	};

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		must(snapshot_builder__metadata(f->builder, text[i][0], text[i][1]), text[i][0]);
	add_number(f, "pid", moment->pid);
	add_number(f, "start_time_ticks", moment->start_ticks);
	add_number(f, "exec_count", 0);
	add_number(f, "wall_ns", moment->wall_s * 1000000000);
	add_number(f, "monotonic_ns", moment->monotonic_s * 1000000000);
	add_number(f, "recording_start_monotonic_ns", RECORDING_S * 1000000000ull);
	add_number(f, "interval_ns", INTERVAL_S * 1000000000ull);
	add_number(f, "traceback_limit", 64);
	add_number(f, "birth_resolution_ns", 1000000000);
	must(snapshot_builder__domain_name(f->builder, IN_HEAP, "malloc"), "domain");
	must(snapshot_builder__domain_name(f->builder, IN_MMAP, "mmap"), "domain");
	if (program->pool)
		must(snapshot_builder__domain_name(f->builder, IN_POOL, program->pool), "domain");
	must(snapshot_builder__counter(f->builder, SNAP_LOST, "blocks_dropped", moment->host % 100 == 5 ? 3 : 0),
	     "counter");
}

static void write_file(const struct moment *moment, int folder, const void *bytes, size_t len)
{
	char name[64];
	int fd;

	format_time(name, moment->wall_s, "%Y%m%dT%H%M%S.000Z.snap");
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && !close(fd) ? 0 : -errno, name);
}

static int make_folder(const struct model *model, const struct moment *moment)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", model->options.dir, moment->host_name);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%s/%s.%u", model->options.dir, moment->host_name,
		 programs[moment->program].comm, moment->pid);
	mkdir(path, 0700);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(fd >= 0 ? 0 : -errno, path);
	return fd;
}

static size_t make_file(const struct model *model, const struct moment *moment, int folder)
{
	static const struct snapshot_save_options options = { .compress = true, .compact = true };
	struct file f = {
		.model = model,
		.moment = moment,
		.builder = snapshot_builder__new(SNAP_WITH_DOMAIN | SNAP_WITH_BIRTH | SNAP_WITH_FIRST_LINE),
		.frame = calloc(model->frame_nr, sizeof(*f.frame)),
	};
	struct snapshot *snapshot;
	void *bytes;
	size_t len;

	must(f.builder && f.frame ? 0 : -ENOMEM, "memory");
	add_metadata(&f);
	add_objects(&f);
	add_traces(&f);
	must(snapshot_builder__finish(f.builder, &snapshot), "finish");
	must(snapshot__serialize(snapshot, &options, &bytes, &len), "serialize");
	write_file(moment, folder, bytes, len);
	free(bytes);
	snapshot__close(snapshot);
	free(f.frame);
	return len;
}

uint64_t files_make_host(const struct model *model, uint32_t host)
{
	uint64_t bytes = 0;

	for (uint32_t process = 0; process < model->options.processes; process++) {
		int folder = -1;

		for (uint32_t time = 0; time < model->options.times; time++) {
			struct moment moment = model_moment(model, host, process, time);

			if (folder < 0)
				folder = make_folder(model, &moment);
			bytes += make_file(model, &moment, folder);
		}
		if (folder >= 0)
			close(folder);
	}
	return bytes;
}
