// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "push/push_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helper/helper.h"
#include "base/log.h"
#include "base/privileges.h"
#include "base/reason.h"

#define STOP_MS 4000   /* for the last attempt, if the endpoint answers */

struct push_helper {
	struct push_counts *counts; /* shared */
	pid_t pid;
	int end_fd; /* closing it ends the helper */
	bool has_ended;
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
	copy.endpoint.database = copy_argument(options->endpoint.database);
	copy.service = copy_argument(options->service);
	return copy;
}

static _Noreturn void push_in_child(const struct pusher_options *options, const char *argument, int end_fd,
				    struct push_counts *counts)
{
	const struct pusher_options own = copy_options(options);
	const char *folder = copy_argument(argument);
	struct reason why = { "out of memory" };
	struct push_endpoint *endpoint;

	child_ignore_signals();
	child_show_as("allocsnap: pushes snapshots");
	nice(10);
	endpoint = push_endpoint__new(&own.endpoint, &why); /* reads files that may be root's alone */
	if (!endpoint || privileges__drop(privileges__to_write(folder), &why)) {
		log_line(LOG_ERR, "push: %s", why.text);
		_exit(EXIT_FAILURE);
	}
	_exit(push_while_open(endpoint, &own, folder, end_fd, counts) ? EXIT_FAILURE : EXIT_SUCCESS);
}

static int fork_helper(struct push_helper *helper, const struct pusher_options *options, const char *folder,
		       struct reason *why)
{
	int end[2];

	if (pipe2(end, O_CLOEXEC))
		return reason_set(why, -errno, "pipe: %s", strerror(errno));
	helper->counts->is_up = true;
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

static void log_early_end(int status)
{
	const char *how = WIFSIGNALED(status) ? "signal" : "exit status";

	log_line(LOG_ERR, "push: the process that pushes has ended (%s %d): nothing is pushed any more", how,
		 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* Looks whether it has ended by itself, and logs that once. */
static void check_helper(struct push_helper *helper)
{
	int status;

	if (helper->has_ended || waitpid(helper->pid, &status, WNOHANG) != helper->pid)
		return;
	helper->has_ended = true;
	helper->counts->is_up = false;
	log_early_end(status);
}

const struct push_counts *push_helper__counts(struct push_helper *helper)
{
	check_helper(helper);
	return helper->counts;
}

/* A dead endpoint is not waited for. Returns its status. */
static int wait_for_helper(const struct push_helper *helper)
{
	int pidfd = syscall(SYS_pidfd_open, helper->pid, 0);
	int status = 0;
	struct pollfd ended = { .fd = pidfd, .events = POLLIN };

	if (pidfd < 0 || poll(&ended, 1, helper->counts->is_failing ? 0 : STOP_MS) <= 0)
		kill(helper->pid, SIGKILL);
	if (pidfd >= 0)
		close(pidfd);
	while (waitpid(helper->pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

uint64_t push_helper__stop(struct push_helper *helper, bool *ret_has_failed)
{
	uint64_t waiting;
	int status;

	check_helper(helper);
	close(helper->end_fd);
	status = helper->has_ended ? 0 : wait_for_helper(helper);
	*ret_has_failed = helper->has_ended || (WIFEXITED(status) && WEXITSTATUS(status));
	waiting = helper->counts->waiting;
	munmap(helper->counts, sizeof(*helper->counts));
	free(helper);
	return waiting;
}
