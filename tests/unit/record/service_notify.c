// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Messages to the service manager: the test plays the manager with a socket of its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
