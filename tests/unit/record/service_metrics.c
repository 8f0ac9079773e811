// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Contents of the metrics file, and how it is written; tests/live/test_service.py has other programs read it. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "record/metrics.h"

static char folder[] = "/tmp/allocsnap-metrics.XXXXXX";

static char *printed(const struct metrics *metrics)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	cr_assert_eq(metrics__print(out, metrics), 0);
	fclose(out);
	return text;
}

static void expect(const struct metrics *metrics, const char *line, bool is_there)
{
	char *text = printed(metrics), whole[512];

	snprintf(whole, sizeof(whole), "\n%s\n", line);
	cr_expect_eq(strstr(text, whole) != NULL, is_there, "%s in:\n%s", line, text);
	free(text);
}

static size_t count(const char *text, const char *word)
{
	size_t nr = 0;

	for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
		nr++;
	return nr;
}

Test(service_metrics, have_times_in_seconds)
{
	const struct metrics metrics = {
		.began_ns = 1795391728000000005, .drain_ns = 999999999, .cost_ns = 1000000000,
	};

	expect(&metrics, "allocsnap_start_time_seconds 1795391728.000000005", true);
	expect(&metrics, "allocsnap_drain_seconds_total 0.999999999", true);
	expect(&metrics, "allocsnap_recording_cpu_seconds_total 1.000000000", true);
}

Test(service_metrics, are_whole_numbers)
{
	const struct metrics metrics = { .allocations = UINT64_MAX, .disk_bytes = 1 };

	expect(&metrics, "allocsnap_allocations_total 18446744073709551615", true);
	expect(&metrics, "allocsnap_disk_bytes 1", true);
	expect(&metrics, "allocsnap_snapshots_failed_total 0", true);
}

Test(service_metrics, leave_out_absent_values)
{
	struct metrics metrics = {};
	char *text = printed(&metrics);

	cr_expect_null(strstr(text, "allocsnap_last_pass_time_seconds"));
	cr_expect_null(strstr(text, "allocsnap_disk_limit_bytes"));
	cr_expect_null(strstr(text, "allocsnap_losses_total"));
	cr_expect_null(strstr(text, "allocsnap_process_traced_bytes"));
	free(text);
	metrics.disk_most_bytes = 7;
	expect(&metrics, "allocsnap_disk_limit_bytes 7", true);
}

Test(service_metrics, count_processes_that_left_no_snapshot)
{
	const struct metrics metrics = {
		.process_all_nr = 9, .process_small_nr = 4, .process_unprobed_nr = 3, .process_dropped_nr = 2,
	};

	expect(&metrics, "allocsnap_processes_total 9", true);
	expect(&metrics, "allocsnap_processes_small_total 4", true);
	expect(&metrics, "allocsnap_processes_unprobed_total 3", true);
	expect(&metrics, "allocsnap_processes_dropped_total 2", true);
}

Test(service_metrics, name_losses_and_traps)
{
	const struct metrics_named loss[] = { { "blocks_dropped", 3 }, { "stale_calls", 0 } };
	const struct metrics_named traps[] = { { "entry", 12 } };
	const struct metrics metrics = {
		.loss = loss, .loss_nr = 2, .bystander_traps = traps, .bystander_traps_nr = 1,
	};

	expect(&metrics, "allocsnap_losses_total{loss=\"blocks_dropped\"} 3", true);
	expect(&metrics, "allocsnap_losses_total{loss=\"stale_calls\"} 0", true);
	expect(&metrics, "allocsnap_bystander_traps_total{kind=\"entry\"} 12", true);
}

Test(service_metrics, escape_names)
{
	const struct metrics_process process[] = {
		{ .pid = 1, .comm = "a\"b\\c", .traced_bytes = 1 },
		{ .pid = 2, .comm = "a\nb\xff", .traced_bytes = 2 },
		{ .pid = 3, .comm = "", .traced_bytes = 3 },
		{ .pid = 4, .comm = "\xc3\xa4{},=", .traced_bytes = 4 },
	};
	const struct metrics metrics = { .process = process, .process_nr = 4 };

	expect(&metrics, "allocsnap_process_traced_bytes{comm=\"a\\\"b\\\\c\",pid=\"1\"} 1", true);
	expect(&metrics, "allocsnap_process_traced_bytes{comm=\"a\\\\x0ab\\\\xff\",pid=\"2\"} 2", true);
	expect(&metrics, "allocsnap_process_traced_bytes{comm=\"\",pid=\"3\"} 3", true);
	expect(&metrics, "allocsnap_process_traced_bytes{comm=\"\xc3\xa4{},=\",pid=\"4\"} 4", true);
}

/* The kernel's names have at most 15 bytes; the code must be safe with longer names, too. */
Test(service_metrics, limit_the_length_of_names)
{
	struct metrics_process process = { .pid = 1 };
	const struct metrics metrics = { .process = &process, .process_nr = 1 };
	char comm[1000], *text;

	memset(comm, '\\', sizeof(comm));
	comm[sizeof(comm) - 1] = '\0';
	process.comm = comm;
	text = printed(&metrics);
	cr_expect_not_null(strstr(text, "\\\\\",pid=\"1\"} 0\n"));
	free(text);
}

Test(service_metrics, include_only_the_largest_processes)
{
	struct metrics_process process[METRICS_PROCESS_MAX + 5];
	const struct metrics metrics = { .process = process, .process_nr = ARRAY_SIZE(process) };
	char *text;

	for (size_t i = 0; i < ARRAY_SIZE(process); i++)
		process[i] = (struct metrics_process){ .pid = 1 + i, .comm = "x", .traced_bytes = 7 + i };
	text = printed(&metrics);
	cr_expect_eq(count(text, "\nallocsnap_process_traced_bytes{"), METRICS_PROCESS_MAX);
	cr_expect_eq(count(text, "\nallocsnap_process_cpu_seconds_total{"), METRICS_PROCESS_MAX);
	cr_expect_null(strstr(text, ",pid=\"5\"} 11\n"), "one of the smallest");
	cr_expect_not_null(strstr(text, ",pid=\"6\"} 12\n"));
	free(text);
	expect(&metrics, "allocsnap_processes_omitted 5", true);
}

/* One waits for its last snapshot, another one has its PID: the same labels must not come twice. */
Test(service_metrics, include_each_pid_once)
{
	const struct metrics_process process[] = {
		{ .pid = 9, .comm = "sh", .traced_bytes = 10 },
		{ .pid = 8, .comm = "sh", .traced_bytes = 5 },
		{ .pid = 9, .comm = "sh", .traced_bytes = 20 },
	};
	const struct metrics metrics = { .process = process, .process_nr = 3 };

	expect(&metrics, "allocsnap_process_traced_bytes{comm=\"sh\",pid=\"9\"} 20", true);
	expect(&metrics, "allocsnap_process_traced_bytes{comm=\"sh\",pid=\"9\"} 10", false);
	expect(&metrics, "allocsnap_process_traced_bytes{comm=\"sh\",pid=\"8\"} 5", true);
	expect(&metrics, "allocsnap_processes_omitted 1", true);
}

/* ---- the file ---- */

static void make_folder(void)
{
	cr_assert(mkdtemp(folder));
	cr_assert_eq(chdir(folder), 0);
}

static size_t files_in_folder(void)
{
	DIR *dir = opendir(".");
	struct dirent *entry;
	size_t nr = 0;

	while ((entry = readdir(dir)))
		nr += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
	closedir(dir);
	return nr;
}

static void remove_folder(void)
{
	unlink("a.prom");
	unlink("link.prom");
	rmdir("folder.prom");
	cr_expect_eq(rmdir(folder), 0, "something was left");
}

TestSuite(service_metrics_file, .init = make_folder, .fini = remove_folder);

Test(service_metrics_file, is_replaced_atomically)
{
	struct metrics metrics = { .disk_bytes = 1 };
	struct reason why = {};
	struct stat first, second;
	FILE *before;
	char line[256];

	umask(077);
	cr_assert_eq(metrics__write("a.prom", &metrics, &why), 0, "%s", why.text);
	cr_assert_eq(stat("a.prom", &first), 0);
	cr_expect_eq(first.st_mode & 07777, 0644);
	before = fopen("a.prom", "r"); /* a reader that has the file open goes on with the old one */
	metrics.disk_bytes = 2;
	cr_assert_eq(metrics__write("a.prom", &metrics, &why), 0);
	cr_assert_eq(stat("a.prom", &second), 0);
	cr_expect_neq(first.st_ino, second.st_ino);
	while (fgets(line, sizeof(line), before))
		cr_expect_str_neq(line, "allocsnap_disk_bytes 2\n");
	fclose(before);
	cr_expect_eq(files_in_folder(), 1);
}

Test(service_metrics_file, reports_why_it_cannot_be_written)
{
	const struct rlimit small = { .rlim_cur = 512, .rlim_max = RLIM_INFINITY };
	const struct metrics metrics = {};
	struct reason why = {};

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	cr_expect_eq(metrics__write("a.prom", &metrics, &why), -EFBIG);
	cr_expect_str_eq(why.text, "a.prom: cannot write: File too large");
	cr_expect_eq(files_in_folder(), 0);
}

/* The error comes in the middle; later writes succeed. */
Test(service_metrics, return_the_first_write_error)
{
	struct metrics_process process[100] = {};
	const struct metrics metrics = { .process = process, .process_nr = ARRAY_SIZE(process) };
	FILE *out = fopen("/dev/full", "w");

	for (size_t i = 0; i < ARRAY_SIZE(process); i++)
		process[i] = (struct metrics_process){ .pid = 1 + i, .comm = "x" };
	cr_assert(out);
	cr_expect_eq(metrics__print(out, &metrics), -ENOSPC);
	fclose(out);
}

/* A link is replaced by the file, and its target does not change. */
Test(service_metrics_file, replaces_a_link)
{
	const struct metrics metrics = {};
	struct stat st;

	cr_assert_eq(symlink("a.prom", "link.prom"), 0);
	cr_assert_eq(metrics__write("link.prom", &metrics, NULL), 0);
	cr_assert_eq(lstat("link.prom", &st), 0);
	cr_expect(S_ISREG(st.st_mode));
	cr_expect_eq(access("a.prom", F_OK), -1);
}

Test(service_metrics_file, reports_the_path_that_cannot_be_written)
{
	const struct metrics metrics = {};
	struct reason why = {};

	cr_expect_eq(metrics__write("none/a.prom", &metrics, &why), -ENOENT);
	cr_expect_str_eq(why.text, "none/a.prom: cannot write: No such file or directory");
	cr_expect_eq(metrics__write("folder/", &metrics, &why), -EISDIR);
	cr_assert_eq(mkdir("folder.prom", 0700), 0);
	cr_expect_eq(metrics__write("folder.prom", &metrics, &why), -EISDIR);
	cr_expect_eq(files_in_folder(), 1);
}
