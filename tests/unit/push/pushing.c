// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "push/push_queue.h"
#include "push/push_endpoint.h"

/* Servers refuse a series with a name twice. */
Test(pushing, label_names_are_unique)
{
	static const char url[] = "http://localhost/push.v1.PusherService/Push";
	const struct push_label label[] = {
		{ "host", "web-1" }, { "host", "other" }, { "a.b", "first" }, { "a_b", "second" }, { "service_name", "x" },
	};
	const struct push_profile profile = { .bytes = "x", .len = 1, .service = "shopd", .label = label,
					      .label_nr = ARRAY_SIZE(label) };
	struct push_request request = {};

	cr_assert_eq(push_protocol_of(url)->make(&request, url, &profile), 0);
	cr_expect(strstr(request.body, "{\"name\":\"service_name\",\"value\":\"shopd\"},{\"name\":\"host\",\"value\":\"web-1\"},"
				       "{\"name\":\"a_b\",\"value\":\"first\"}]"), "%s", (const char *)request.body);
	push_request_release(&request);
}

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

static off_t notes_size(const char *folder)
{
	char command[160];
	FILE *pipe;
	long size = -1;

	snprintf(command, sizeof(command), "cat %s/.push-* | wc -c", folder);
	pipe = popen(command, "r");
	cr_assert_eq(fscanf(pipe, "%ld", &size), 1);
	pclose(pipe);
	return size;
}

/* Notes of files that are gone are forgotten; notes of files that are there stay. */
Test(pushing, notes_do_not_only_grow)
{
	char folder[] = "/tmp/allocsnap-push-XXXXXX", path[128];
	struct reason why = { "" };
	struct push_queue *queue;
	uint64_t vanished;

	cr_assert_not_null(mkdtemp(folder));
	write_file(folder, "stays.snap", "");
	queue = push_queue__open(folder, "http://localhost/ingest", &why);
	cr_assert_not_null(queue, "%s", why.text);
	for (int i = 0; i < 6; i++) {
		for (int file = 0; file < 500; file++) {
			snprintf(path, sizeof(path), "%d-%d.snap", i, file);
			write_file(folder, path, "");
		}
		cr_assert_eq(push_queue__scan(queue, &vanished, &why), 0, "%s", why.text);
		cr_expect_eq(push_queue__nr(queue), i ? 500 : 501);
		while (push_queue__nr(queue))
			cr_assert_eq(push_queue__note(queue, 0, OUTCOME_PUSHED, &why), 0, "%s", why.text);
		for (int file = 0; file < 500; file++) {
			snprintf(path, sizeof(path), "%s/%d-%d.snap", folder, i, file);
			unlink(path);
		}
	}
	cr_assert_eq(push_queue__scan(queue, &vanished, &why), 0, "%s", why.text);
	cr_expect_eq(push_queue__nr(queue), 0);
	cr_expect_lt(notes_size(folder), (off_t)(1500 * strlen("pushed 0-123.snap\n")), "more than 1,500 of 3,000");
	cr_expect_null(push_queue__open(folder, "http://localhost/ingest", &why), "it is locked");
	push_queue__close(queue);
	queue = push_queue__open(folder, "http://localhost/ingest", &why);
	cr_assert_not_null(queue, "%s", why.text);
	cr_assert_eq(push_queue__scan(queue, &vanished, &why), 0, "%s", why.text);
	cr_expect_eq(push_queue__nr(queue), 0, "what is there was pushed before");
	push_queue__close(queue);
	snprintf(path, sizeof(path), "rm -r %s", folder);
	cr_expect_eq(system(path), 0);
}

static void write_file_at(const char *folder, const char *name, time_t written)
{
	const struct timespec times[] = { { written, 0 }, { written, 0 } };
	char path[128];

	write_file(folder, name, "");
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* The head is given up if too many wait: after the clock was set back by an hour it must not be what is newest. */
Test(pushing, the_oldest_by_the_monotonic_clock_is_first)
{
	static const struct {
		const char *name;
		time_t written; /* of 2026-11-21 */
	} file[] = {
		{ "20261121T020000.000Z.0b00b001.900000.snap", 7200 + 3000 }, /* another boot; it was copied later */
		{ "20261121T031500.000Z.6f3c21aa.1000000.snap", 11700 },
		{ "20261121T021530.000Z.snap", 0 },
		{ "other.snap", 8145 }, /* 02:15:45 */
		{ "20261121T021600.000Z.6f3c21aa.1060000.snap", 8160 },
		{ "20261121T021600.000Z.6f3c21aa.1060000-2.snap", 8160 },
		{ "20261121T021602.000Z.6f3c21aa.1062000.snap", 8162 },
		{ "later.snap", 8163 },
	};
	char folder[] = "/tmp/allocsnap-push-XXXXXX", path[128];
	struct reason why = { "" };
	struct push_queue *queue;
	uint64_t vanished;

	cr_assert_not_null(mkdtemp(folder));
	for (size_t i = ARRAY_SIZE(file); i-- > 0;)
		write_file_at(folder, file[i].name, 1795219200 + file[i].written);
	queue = push_queue__open(folder, "http://localhost/ingest", &why);
	cr_assert_not_null(queue, "%s", why.text);
	cr_assert_eq(push_queue__scan(queue, &vanished, &why), 0, "%s", why.text);
	cr_assert_eq(push_queue__nr(queue), ARRAY_SIZE(file));
	for (size_t i = 0; i < ARRAY_SIZE(file); i++)
		cr_expect_str_eq(strrchr(push_queue__path(queue, i), '/') + 1, file[i].name, "%zu", i);
	push_queue__close(queue);
	snprintf(path, sizeof(path), "rm -r %s", folder);
	cr_expect_eq(system(path), 0);
}

/* A name that is used again is of another snapshot, however few notes there are. */
Test(pushing, a_file_that_comes_back_is_pushed_again)
{
	char folder[] = "/tmp/allocsnap-push-XXXXXX", path[128];
	struct reason why = { "" };
	struct push_queue *queue;
	uint64_t vanished;

	cr_assert_not_null(mkdtemp(folder));
	write_file(folder, "stays.snap", "");
	write_file(folder, "comes-back.snap", "");
	for (int round = 0; round < 2; round++) {
		queue = push_queue__open(folder, "http://localhost/ingest", &why);
		cr_assert_not_null(queue, "%s", why.text);
		cr_assert_eq(push_queue__scan(queue, &vanished, &why), 0, "%s", why.text);
		cr_expect_eq(push_queue__nr(queue), round ? 1 : 2);
		while (push_queue__nr(queue))
			cr_assert_eq(push_queue__note(queue, 0, OUTCOME_PUSHED, &why), 0, "%s", why.text);
		push_queue__close(queue);
		snprintf(path, sizeof(path), "%s/comes-back.snap", folder);
		unlink(path);
		queue = push_queue__open(folder, "http://localhost/ingest", &why);
		cr_assert_not_null(queue, "%s", why.text);
		push_queue__close(queue);
		cr_expect_eq(notes_size(folder), (off_t)strlen("pushed stays.snap\n"));
		write_file(folder, "comes-back.snap", "");
	}
	snprintf(path, sizeof(path), "rm -r %s", folder);
	cr_expect_eq(system(path), 0);
}
