// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Messages to the service manager: the test plays the manager with a socket of its own. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "record/metrics.h"
#include "record/notify.h"

static char folder[] = "/tmp/allocsnap-notify.XXXXXX";
static int manager = -1;

/* As NOTIFY_SOCKET has it: a path, or @NAME. */
static void listen_at(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t len = strlen(name);

	memcpy(address.sun_path, name, len);
	if (*name == '@')
		address.sun_path[0] = '\0';
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(manager, (struct sockaddr *)&address,
			  offsetof(struct sockaddr_un, sun_path) + len), 0, "%s", strerror(errno));
	setenv("NOTIFY_SOCKET", name, 1);
}

static void listen_below_folder(void)
{
	char name[64];

	cr_assert(mkdtemp(folder));
	snprintf(name, sizeof(name), "%s/socket", folder);
	listen_at(name);
}

static void end(void)
{
	char name[64];

	snprintf(name, sizeof(name), "%s/socket", folder);
	unlink(name);
	rmdir(folder);
}

/* The next message, or "". */
static const char *heard(void)
{
	static char text[4096];
	ssize_t got = recv(manager, text, sizeof(text) - 1, 0);

	text[got > 0 ? got : 0] = '\0';
	return text;
}

TestSuite(service_notify, .fini = end);

Test(service_notify, sends_to_a_path)
{
	struct notify notify;

	listen_below_folder();
	cr_assert_eq(notify__open(&notify), 0);
	cr_assert_eq(notify__send_ready(&notify, "records 3 processes"), 0);
	cr_expect_str_eq(heard(), "READY=1\nWATCHDOG=1\nSTATUS=records 3 processes");
	notify__send_status(&notify, "records 4 processes");
	cr_expect_str_eq(heard(), "STATUS=records 4 processes");
	notify__send_stopping(&notify, "takes the last snapshots");
	cr_expect_str_eq(heard(), "STOPPING=1\nSTATUS=takes the last snapshots");
	notify__close(&notify);
	notify__send_status(&notify, "is gone");
	cr_expect_str_eq(heard(), "");
}

Test(service_notify, sends_to_an_abstract_name)
{
	struct notify notify;
	char name[64];

	snprintf(name, sizeof(name), "@allocsnap-notify.%d", getpid());
	listen_at(name);
	cr_assert_eq(notify__open(&notify), 0);
	cr_assert_eq(notify__send_ready(&notify, NULL), 0);
	cr_expect_str_eq(heard(), "READY=1\nWATCHDOG=1\n");
	notify__close(&notify);
}

/* The name is as long as an address can be. */
Test(service_notify, sends_to_the_longest_name)
{
	char name[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct notify notify;

	memset(name, 'x', sizeof(name));
	name[snprintf(name, sizeof(name), "@allocsnap.%d", getpid())] = 'x';
	name[sizeof(name) - 1] = '\0';
	listen_at(name);
	cr_assert_eq(notify__open(&notify), 0);
	cr_assert_eq(notify__send_ready(&notify, NULL), 0);
	cr_expect_str_eq(heard(), "READY=1\nWATCHDOG=1\n");
	notify__close(&notify);
}

Test(service_notify, sends_nothing_without_a_socket)
{
	struct notify notify;

	unsetenv("NOTIFY_SOCKET");
	setenv("WATCHDOG_USEC", "1000000", 1);
	cr_assert_eq(notify__open(&notify), 0);
	cr_expect_eq(notify.fd, -1);
	cr_expect_eq(notify__due_ns(&notify), UINT64_MAX);
	cr_expect_eq(notify__send_ready(&notify, "x"), 0);
	notify__send_alive(&notify);
	notify__send_stopping(&notify, "x");
	notify__close(&notify);
}

Test(service_notify, refuses_invalid_addresses)
{
	static const char *const wrong[] = { "socket", "vsock:2:1234", "/", "@" };
	char name[200];
	struct notify notify;

	for (size_t i = 0; i < 4; i++) {
		setenv("NOTIFY_SOCKET", wrong[i], 1);
		cr_expect_eq(notify__open(&notify), -EAFNOSUPPORT, "%s", wrong[i]);
		cr_expect_eq(notify__send_ready(&notify, "x"), 0);
		notify__close(&notify);
	}
	memset(name, 'x', sizeof(name));
	name[0] = '/';
	name[108] = '\0'; /* one more than there is room for */
	setenv("NOTIFY_SOCKET", name, 1);
	cr_expect_eq(notify__open(&notify), -ENAMETOOLONG);
	notify__close(&notify);
	cr_expect_eq(notify.fd, -1);
}

Test(service_notify, reports_that_the_manager_is_gone)
{
	struct notify notify;

	setenv("NOTIFY_SOCKET", "/tmp/allocsnap-notify.none/socket", 1);
	cr_assert_eq(notify__open(&notify), 0);
	cr_expect_eq(notify__send_ready(&notify, "x"), -ENOENT);
	notify__close(&notify);
}

Test(service_notify, removes_its_variables_from_the_environment)
{
	struct notify notify;
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", getpid());
	listen_below_folder();
	setenv("WATCHDOG_USEC", "30000000", 1);
	setenv("WATCHDOG_PID", pid, 1);
	cr_assert_eq(notify__open(&notify), 0);
	cr_expect_eq(notify.watchdog_ns, 30000000000);
	cr_expect_null(getenv("NOTIFY_SOCKET"));
	cr_expect_null(getenv("WATCHDOG_USEC"));
	cr_expect_null(getenv("WATCHDOG_PID"));
	notify__close(&notify);
}

Test(service_notify, ignores_the_watchdog_of_another_process)
{
	struct notify notify;

	listen_below_folder();
	setenv("WATCHDOG_USEC", "30000000", 1);
	setenv("WATCHDOG_PID", "1", 1);
	cr_assert_eq(notify__open(&notify), 0);
	cr_expect_eq(notify.watchdog_ns, 0);
	cr_expect_eq(notify__due_ns(&notify), UINT64_MAX);
	notify__close(&notify);
}

Test(service_notify, sends_a_watchdog_signal_at_half_of_the_time)
{
	struct notify notify;

	listen_below_folder();
	setenv("WATCHDOG_USEC", "3600000000", 1);
	cr_assert_eq(notify__open(&notify), 0);
	cr_assert_eq(notify__send_ready(&notify, NULL), 0);
	heard();
	notify__send_alive(&notify);
	cr_expect_str_eq(heard(), "", "an hour's half is not over");
	cr_expect_eq(notify__due_ns(&notify), notify.alive_ns + 1800000000000);
	notify.alive_ns -= 1800000000000;
	notify__send_alive(&notify);
	cr_expect_str_eq(heard(), "WATCHDOG=1\n");
	notify__send_alive(&notify);
	cr_expect_str_eq(heard(), "", "it has just been told");
	notify__close(&notify);
}

/* First the manager does not read and its queue is full; then the queue has room again. */
Test(service_notify, sends_the_watchdog_signal_again_after_the_manager_was_busy)
{
	struct notify notify;

	listen_below_folder();
	setenv("WATCHDOG_USEC", "1", 1);
	cr_assert_eq(notify__open(&notify), 0);
	for (int i = 0; i < 100000 && notify.alive_ns != 1; i++) {
		notify.alive_ns = 1;
		notify__send_alive(&notify);
	}
	cr_expect_eq(notify.alive_ns, 1, "what was not told is not over");
	cr_expect_str_eq(heard(), "WATCHDOG=1\n");
	notify__send_alive(&notify);
	cr_expect_gt(notify.alive_ns, 1);
	notify__close(&notify);
}

Test(service_notify, escapes_line_breaks_in_the_status)
{
	struct notify notify;
	char status[2000];
	const char *text;

	listen_below_folder();
	cr_assert_eq(notify__open(&notify), 0);
	notify__send_status(&notify, "records a\nREADY=0\nb");
	cr_expect_str_eq(heard(), "STATUS=records a\\x0aREADY=0\\x0ab");
	memset(status, 'y', sizeof(status));
	status[sizeof(status) - 1] = '\0';
	cr_assert_eq(notify__send_ready(&notify, status), 0);
	text = heard();
	cr_expect_eq(strncmp(text, "READY=1\nWATCHDOG=1\nSTATUS=yyyy", 30), 0, "%.60s", text);
	notify__close(&notify);
}

/* ---- service metrics ---- */

/* Contents of the metrics file, and how it is written; tests/live/test_service.py has other programs read it. */

static char metrics_folder[] = "/tmp/allocsnap-metrics.XXXXXX";

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
	cr_assert(mkdtemp(metrics_folder));
	cr_assert_eq(chdir(metrics_folder), 0);
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
	cr_expect_eq(rmdir(metrics_folder), 0, "something was left");
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
