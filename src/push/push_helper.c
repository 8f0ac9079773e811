// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "push/push_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/child.h"
#include "base/log.h"
#include "base/privileges.h"
#include "base/reason.h"

#define STOP_MS 4000   /* for the last attempt, if the endpoint answers */

struct push_helper {
	struct push_counts *counts; /* shared */
	pid_t pid;
	int end_fd; /* closing it ends the helper */
};

/* The texts are on the command line, which the child overwrites. Without memory the child ends. */
static const char *copy_argument(const char *text)
{
	char *copy = text ? strdup(text) : NULL;

	if (text && !copy)
		_exit(EXIT_FAILURE);
	return copy;
}

static struct pusher_options copy_options(const struct pusher_options *options)
{
	struct pusher_options copy = *options;

	copy.endpoint.url = copy_argument(options->endpoint.url);
	copy.endpoint.credentials = copy_argument(options->endpoint.credentials);
	copy.endpoint.tenant = copy_argument(options->endpoint.tenant);
	copy.endpoint.ca_file = copy_argument(options->endpoint.ca_file);
	copy.service = copy_argument(options->service);
	return copy;
}

static _Noreturn void push_in_child(const struct pusher_options *options, const char *argument, int end_fd,
				    struct push_counts *counts)
{
	const struct pusher_options own = copy_options(options);
	const char *folder = copy_argument(argument);
	struct reason why = { "out of memory" };

	child_ignore_signals();
	child_show_as("allocsnap: pushes snapshots");
	nice(10);
	if (privileges__drop(privileges__to_write(folder), &why) || push_while_open(&own, folder, end_fd, counts, &why))
		log_line(LOG_ERR, "push: %s; nothing is pushed any more", why.text);
	_exit(EXIT_SUCCESS);
}

static int fork_helper(struct push_helper *helper, const struct pusher_options *options, const char *folder,
		       struct reason *why)
{
	int end[2];

	if (pipe2(end, O_CLOEXEC))
		return reason_set(why, -errno, "pipe: %s", strerror(errno));
	helper->pid = fork();
	if (!helper->pid) {
		close(end[1]);
		push_in_child(options, folder, end[0], helper->counts);
	}
	close(end[0]);
	helper->end_fd = end[1];
	if (helper->pid > 0)
		return 0;
	close(end[1]);
	return reason_set(why, -errno, "fork: %s", strerror(errno));
}

struct push_helper *push_helper__start(const struct pusher_options *options, const char *folder, struct reason *why)
{
	struct push_helper *helper = calloc(1, sizeof(*helper));
	void *shared = mmap(NULL, sizeof(*helper->counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (helper && shared != MAP_FAILED) {
		helper->counts = shared;
		if (!fork_helper(helper, options, folder, why))
			return helper;
	} else {
		reason_set(why, -ENOMEM, "out of memory");
	}
	if (shared != MAP_FAILED)
		munmap(shared, sizeof(*helper->counts));
	free(helper);
	return NULL;
}

const struct push_counts *push_helper__counts(const struct push_helper *helper)
{
	return helper->counts;
}

/* A dead endpoint is not waited for. */
static void wait_for_helper(const struct push_helper *helper)
{
	int pidfd = syscall(SYS_pidfd_open, helper->pid, 0);
	struct pollfd ended = { .fd = pidfd, .events = POLLIN };

	if (pidfd < 0 || poll(&ended, 1, helper->counts->is_failing ? 0 : STOP_MS) <= 0)
		kill(helper->pid, SIGKILL);
	if (pidfd >= 0)
		close(pidfd);
	while (waitpid(helper->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

uint64_t push_helper__stop(struct push_helper *helper)
{
	uint64_t waiting;

	if (!helper)
		return 0;
	close(helper->end_fd);
	wait_for_helper(helper);
	waiting = helper->counts->waiting;
	munmap(helper->counts, sizeof(*helper->counts));
	free(helper);
	return waiting;
}
