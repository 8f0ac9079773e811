// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/page_events.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "process/proc.h"

/* of_children: processes that the thread starts have the event, too, and not only threads. */
static int open_fault_event(pid_t tid, int cpu, bool of_children)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.sample_period = 1,
		.inherit = tid >= 0,
		.inherit_thread = tid >= 0 && !of_children,
	};
	int fd = syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_event(struct page_events *events, pid_t tid, int cpu, bool of_children, int program_fd)
{
	int fd = open_fault_event(tid, cpu, of_children), err;

	if (fd < 0)
		return fd;
	err = ioctl(fd, PERF_EVENT_IOC_SET_BPF, program_fd) ? -errno : array_push(events, fd, fd);
	if (err)
		close(fd);
	return err;
}

/* The threads that have an event, sorted. */
struct seen_threads {
	uint64_t *tid;
	size_t tid_nr, tid_alloc;
	bool of_children; /* open_fault_event() */
};

/* Opens the events of the threads that have none. Returns how many threads there were, or a negative errno. */
static int open_new_threads(struct page_events *events, pid_t pid, int program_fd, struct seen_threads *seen)
{
	size_t known_nr = seen->tid_nr;
	DIR *dir = proc_open_threads(pid);
	int err = dir ? 0 : -ESRCH;
	uint64_t tid;

	while (!err && (tid = proc_next_thread(dir))) {
		if (known_nr && bsearch(&tid, seen->tid, known_nr, sizeof(tid), array_by_number))
			continue;
		err = open_event(events, tid, -1, seen->of_children, program_fd);
		if (err == -ESRCH) /* the thread has ended */
			err = 0;
		err = err ?: array_push(seen, tid, tid);
	}
	if (dir)
		closedir(dir);
	return err ?: (int)(seen->tid_nr - known_nr);
}

int page_events_open(struct page_events *events, pid_t pid, bool of_children, int program_fd)
{
	struct seen_threads seen = { .of_children = of_children };
	int nr;

	do {
		nr = open_new_threads(events, pid, program_fd, &seen);
		if (seen.tid_nr)
			qsort(seen.tid, seen.tid_nr, sizeof(*seen.tid), array_by_number);
	} while (nr > 0);
	free(seen.tid);
	return nr;
}

/* A processor that is off has no event. */
int page_events_open_all(struct page_events *events, int program_fd)
{
	int nr = libbpf_num_possible_cpus(), err = 0;

	for (int cpu = 0; cpu < nr && !err; cpu++) {
		err = open_event(events, -1, cpu, false, program_fd);
		if (err == -ENODEV)
			err = 0;
	}
	return err;
}

int trial_page_events(void)
{
	int fd = open_fault_event(0, -1, true);

	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

void page_events_close(struct page_events *events)
{
	for (size_t i = 0; i < events->fd_nr; i++)
		close(events->fd[i]);
	free(events->fd);
	*events = (struct page_events){};
}
