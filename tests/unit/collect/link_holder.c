// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The link holder of links as a process: what ends it, and what does not. It gets no links to keep. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/reason.h"
#include "collect/probe/feature_probes.h"
#include "collect/probe/link_holder.h"
#include "collect/probe/uprobe_multi.h"
#include "collect/probe/hazards.h"
#include "process/mapped_file.h"
#include "process/mappings.h"
#include "elf/probe_info.h"
#include "helper/channel.h"
#include "helper/helper.h"
#include "sandbox_fixture.h"
#include "skip.h"

#define PATIENCE_MS 120000

static struct link_holder *begin(void)
{
	struct link_holder *link_holder = link_holder__open(false);

	cr_assert(link_holder);
	return link_holder;
}

/* A program that is none. */
static int attach(struct link_holder *link_holder, uint32_t nr)
{
	uint64_t *places = calloc(nr, sizeof(*places));
	const struct uprobe_multi uprobes = { .nr = nr, .offset = places, .cookie = places, .semaphore = places };
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), link;
	struct file_identity file;

	cr_assert(places && null >= 0);
	cr_assert_eq(file_identity_read(null, &file), 0);
	link = link_holder__attach(link_holder, null, null, &file, &uprobes);
	close(null);
	free(places);
	return link;
}

static bool ends(int pidfd)
{
	return poll(&(struct pollfd){ .fd = pidfd, .events = POLLIN }, 1, PATIENCE_MS) == 1;
}

Test(collect_link_holder, continues_after_requests_that_fail)
{
	struct link_holder *link_holder = begin();

	for (int i = 0; i < 100; i++) {
		int link = attach(link_holder, 1 + i);

		cr_assert(link < 0 && link != -EPIPE, "%d", link);
	}
	cr_assert_eq(attach(link_holder, 1 << 16), -EMSGSIZE);
	link_holder__detach(link_holder, 3); /* its socket is no link */
	cr_assert_eq(link_holder__detaching_nr(link_holder), 0);
	link_holder__settle(link_holder);
	cr_assert_neq(attach(link_holder, 1), -EPIPE);
	cr_assert(!helper__has_ended(link_holder__helper(link_holder)));
	link_holder__close(link_holder);
	cr_assert(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "it is there still");
}

Test(collect_link_holder, that_was_killed_is_detected)
{
	struct link_holder *link_holder = begin();

	kill(only_child_of(getpid()), SIGKILL);
	cr_assert(ends(link_holder__helper(link_holder)->end_fd));
	cr_assert(helper__has_ended(link_holder__helper(link_holder)));
	cr_assert_eq(attach(link_holder, 1), -EPIPE);
	link_holder__detach(link_holder, 7);
	link_holder__settle(link_holder);
	cr_assert_eq(link_holder__detaching_nr(link_holder), 0);
	link_holder__close(link_holder);
}

Test(collect_link_holder, that_was_stopped_can_be_closed)
{
	struct link_holder *link_holder = begin();

	kill(only_child_of(getpid()), SIGSTOP);
	link_holder__close(link_holder);
	cr_assert(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

/* The recording forks a child that calls no exec, so the child inherits the link holder's socket. */
static void record_and_fork(int ready[2], bool is_in_order)
{
	struct link_holder *link_holder = begin();
	pid_t said[2] = { only_child_of(getpid()) };
	const struct message part = { .bytes = 4096 };

	cr_assert(!helper__has_ended(link_holder__helper(link_holder)));
	if (is_in_order)
		cr_assert(write(link_holder__news_fd(link_holder), &part, sizeof(part)) == sizeof(part));
	wait_until_in_call(said[0], is_in_order ? SYS_recvmsg : SYS_poll);
	said[1] = fork();
	if (said[1])
		cr_assert(write(ready[1], said, sizeof(said)) == sizeof(said));
	pause();
	_exit(0);
}

static void expect_end_with_recording(bool is_in_order)
{
	pid_t said[2], recording;
	int ready[2], pidfd;

	cr_assert(!pipe(ready));
	recording = fork();
	if (!recording)
		record_and_fork(ready, is_in_order);
	cr_assert(read(ready[0], said, sizeof(said)) == sizeof(said));
	pidfd = syscall(SYS_pidfd_open, said[0], 0);
	cr_assert(pidfd >= 0);
	kill(recording, SIGKILL);
	waitpid(recording, NULL, 0);
	cr_expect(ends(pidfd));
	kill(said[1], SIGKILL);
}

Test(collect_link_holder, ends_with_the_recording)
{
	expect_end_with_recording(false);
}

Test(collect_link_holder, ends_with_a_recording_that_was_killed_in_the_middle_of_an_order)
{
	expect_end_with_recording(true);
}

/* ---- hazards ---- */

/* Which files say that their process switches stacks. */

/* The reference to swapcontext makes this program itself hazardous. */
int (*switch_stacks)(ucontext_t *, const ucontext_t *) = swapcontext;

static int find(const char *file, const char *path, struct reason *ret)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC), found;
	struct probe_info probe_info = {};
	struct object object = { .path = (char *)path, .fd = fd, .probe_info = &probe_info };
	struct sandbox *sandbox;

	if (fd < 0)
		skip_because("no %s", file);
	sandbox = parser_with(NULL, 0);
	found = hazard_of_object(sandbox, &object, ret);
	sandbox__close(sandbox);
	close(fd);
	return found;
}

Test(hazards, include_a_program_that_uses_swapcontext)
{
	struct reason why = {};

	cr_expect_eq(find("/proc/self/exe", "/opt/unit", &why), 1);
	cr_expect_str_eq(why.text, "/opt/unit switches stacks (swapcontext)");
}

Test(hazards, do_not_include_the_c_library_that_defines_swapcontext)
{
	struct reason why = {};

	cr_expect_eq(find("/usr/lib/x86_64-linux-gnu/libc.so.6", "/lib/libc.so.6", &why), 0);
	cr_expect_eq(find("/usr/lib/x86_64-linux-gnu/libc.so.6", "/opt/program", &why), 1);
}

Test(hazards, do_not_include_openssl)
{
	cr_expect_eq(find("/proc/self/exe", "/usr/lib/libcrypto.so.3", NULL), 0);
}

Test(hazards, do_not_include_other_files)
{
	struct object vdso = { .path = (char *)"[vdso]" };

	cr_expect_eq(find("/usr/lib/x86_64-linux-gnu/libz.so.1", "/lib/libz.so.1", NULL), 0);
	cr_expect_eq(find("/usr/bin/env", "/usr/bin/env", NULL), 0);
	cr_expect_eq(hazard_of_object(NULL, &vdso, NULL), 0);
}

/* ---- trials ---- */

/* Trials run in a child: the results if the child does not survive them. */

#define NO_CALL 100000

Test(trials, of_filters_show_whether_a_filtered_call_kills)
{
	cr_expect_eq(trial_filtered_call(SYS_getpid), -EFAULT);
	cr_expect_eq(trial_filtered_call(NO_CALL), -ENOSYS);
}

/* As a service manager does: from here on the calls that it does not know fail. */
static void hide_unknown_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NO_CALL, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

Test(trials, of_filters_are_inconclusive_under_our_own_filter)
{
	hide_unknown_calls();
	cr_expect_eq(trial_filtered_call(NO_CALL), -EACCES);
	cr_expect_eq(trial_filtered_call(SYS_getpid), -EFAULT);
}

Test(trials, of_return_calls_give_a_known_result)
{
	int err = trial_return_call();

	cr_expect(!err || err == -ENOSYS || err == -EFAULT, "%d", err);
}
