// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "helper/spawner.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { SPAWN_WORKER, SPAWNED };

struct spawned {
	int32_t pid; /* or a negative errno */
	int32_t status;
};

/* ---- in the spawner ---- */

static __attribute__((noreturn)) void be_worker(const struct spawner_plan *plan, int fd, pid_t parent)
{
	prctl(PR_SET_NAME, plan->name);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || dup2(fd, CHILD_FD) < 0 ||
	    syscall(SYS_close_range, CHILD_FD + 1, ~0u, 0))
		_exit(127);
	_exit(plan->work(plan->self));
}

/* Returns how many. */
static unsigned int reap_workers(void)
{
	unsigned int nr = 0;

	while (waitpid(-1, NULL, WNOHANG) > 0)
		nr++;
	return nr;
}

/* If the worker has ended before, its exit status is still available. */
static unsigned int kill_worker(pid_t worker, int *ret_status)
{
	if (worker <= 0)
		return 0;
	kill(worker, SIGKILL);
	*ret_status = helper_wait(worker);
	return 1;
}

static int spawn_workers(void *self, int recorder)
{
	const struct channel orders = { .fd = CHILD_FD };
	const struct spawner_plan *plan = self;
	struct spawned spawned = { .status = -1 };
	pid_t worker = 0, own = getpid();
	unsigned int worker_nr = 0;
	struct message order;
	int end;

	while (child_has_order(recorder) && !channel__head(&orders, &order, &end)) {
		worker_nr -= plan->worker_most == 1 ? kill_worker(worker, &spawned.status) : reap_workers();
		worker = end < 0 ? -EBADF : worker_nr < plan->worker_most ? fork() : -EAGAIN;
		if (!worker)
			be_worker(plan, end, own);
		close(end);
		worker_nr += worker > 0;
		spawned.pid = worker < 0 ? -EAGAIN : worker;
		if (channel__send(&orders, SPAWNED, &(struct iovec){ &spawned, sizeof(spawned) }, 1, -1))
			break;
	}
	if (plan->worker_most == 1)
		kill_worker(worker, &spawned.status);
	return 0;
}

/* ---- in the recorder ---- */

int spawner__start(struct spawner *spawner, const struct spawner_plan *plan)
{
	struct helper_plan helper = plan->spawner;

	helper.work = spawn_workers;
	helper.self = (void *)plan;
	spawner->owes_answer = false;
	return helper__start(&helper, &spawner->helper);
}

static int receive_spawned(struct spawner *spawner, uint64_t until_ns, struct spawned *ret)
{
	int err;

	spawner->helper.channel.until_ns = until_ns;
	err = channel__answer(&spawner->helper.channel, SPAWNED, ret, sizeof(*ret), NULL);
	spawner->owes_answer = err;
	return err;
}

/*
 * Receives the late answer to an earlier order, which names another process and must not pass for the answer to the next
 * order. If no answer has come yet (another process has stopped the spawner), this costs a short wait for each worker.
 */
static int catch_up(struct spawner *spawner)
{
	struct spawned late;

	return spawner->owes_answer ? receive_spawned(spawner, monotonic_now_ns(), &late) : 0;
}

static int order_worker(struct spawner *spawner, uint64_t until_ns, int end, struct spawned *ret)
{
	struct channel *orders = &spawner->helper.channel;
	int err = orders->fd < 0 ? -EPIPE : catch_up(spawner);

	orders->until_ns = until_ns;
	err = err ?: channel__send(orders, SPAWN_WORKER, NULL, 0, end) ?: receive_spawned(spawner, until_ns, ret);
	return err ?: ret->pid < 0 ? ret->pid : 0;
}

int spawner__hire(struct spawner *spawner, uint64_t until_ns, struct hired *ret)
{
	struct spawned spawned;
	int end[2], err = channel__pair(end);

	if (err)
		return err;
	err = order_worker(spawner, until_ns, end[1], &spawned);
	close(end[1]);
	if (err)
		close(end[0]);
	else
		*ret = (struct hired){ end[0], spawned.pid, spawned.status };
	return err;
}

void spawner__stop(struct spawner *spawner)
{
	helper__end(&spawner->helper, SIGCONT);
}
