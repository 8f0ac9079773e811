// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * heapwatch PID: each time Enter is pressed, what the process has allocated since the last time and
 * still holds, by line, and who allocated the first block of it; the end of input ends it. Uses
 * nothing but the installed libraries:
 *
 *	cc heapwatch.c $(pkg-config --cflags --libs allocsnap-collect) -o heapwatch
 */
#define _POSIX_C_SOURCE 200809L
#include <allocsnap/allocsnap.h>
#include <allocsnap/collect.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_traced_memory(const struct collector *collector, pid_t pid)
{
	struct traced_memory memory;

	collector__get_traced_memory(collector, pid, &memory);
	printf("traced: %llu B in %llu blocks, peak %llu B\n",
	       (unsigned long long)memory.current_bytes, (unsigned long long)memory.current_blocks,
	       (unsigned long long)memory.peak_bytes);
}

static int print_lines(const struct snapshot *snapshot, struct reason *why)
{
	const struct engine_options options = { 0 };
	struct statistics *statistics;
	size_t i;
	int err = snapshot_statistics(snapshot, &options, &statistics, why);

	if (err)
		return err;
	for (i = 0; i < statistics->statistic_nr && i < 5; i++) {
		char *text = statistic_text(&statistics->statistic[i], false);

		printf("%s\n", text ? text : "out of memory");
		free(text);
	}
	statistics_free(statistics);
	return 0;
}

/* The process goes on: a block that was in the snapshot may be gone, which is no failure. */
static void print_owner(struct collector *collector, pid_t pid, uint64_t address)
{
	uint32_t nframe, total_nframe;
	struct reason why = { "" };
	struct frame_view *frame;
	struct snapshot *one;
	char *text = NULL;

	if (collector__get_object_traceback(collector, pid, address, &one, &why)) {
		printf("%s\n", why.text);
		return;
	}
	if (!traceback_read(one, snapshot__trace(one, 0).traceback, &frame, &nframe, &total_nframe)) {
		text = traceback_format(frame, nframe, NULL);
		free(frame);
	}
	printf("0x%llx:\n%s", (unsigned long long)address, text ? text : "out of memory\n");
	free(text);
	snapshot__close(one);
}

static int report(struct collector *collector, pid_t pid, struct reason *why)
{
	struct snapshot *snapshot;
	int err = collector__take_snapshot(collector, pid, &snapshot, why);

	if (err)
		return err;
	print_traced_memory(collector, pid);
	err = print_lines(snapshot, why);
	if (!err && snapshot__tables(snapshot)->trace_nr)
		print_owner(collector, pid, snapshot__trace(snapshot, 0).address);
	snapshot__close(snapshot);
	printf("%s\n", collector__clear_traces(collector, pid) ? "it has ended" : "cleared");
	return err;
}

/* Whether Enter is pressed or not, the collector looks at its processes once a second at least. */
static int watch(struct collector *collector, pid_t pid, struct reason *why)
{
	struct pollfd wait[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
				  { .fd = collector__event_fd(collector), .events = POLLIN } };
	char line[256];
	int err = 0;

	while (!err && poll(wait, 2, 1000) >= 0) {
		collector__refresh(collector);
		if (wait[0].revents && read(STDIN_FILENO, line, sizeof(line)) <= 0)
			break;
		err = wait[0].revents ? report(collector, pid, why) : 0;
	}
	return err;
}

int main(int argc, char **argv)
{
	pid_t pid = argc == 2 ? (pid_t)atoi(argv[1]) : 0;
	struct reason why = { "which PID?" };
	struct collector *collector = pid ? collector__open(NULL, &why) : NULL;
	int err = collector ? collector__start(collector, pid, &why) : -1;

	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	if (!err) {
		printf("tracing %d\n", (int)pid);
		err = watch(collector, pid, &why);
		collector__stop(collector, pid);
		print_traced_memory(collector, pid);
	}
	if (err)
		fprintf(stderr, "heapwatch: %s\n", *why.text ? why.text : strerror(-err));
	collector__close(collector);
	return err ? 1 : 0;
}
