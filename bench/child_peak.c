// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * child_peak FILE COMMAND…: runs it, and writes "SECONDS CPU_SECONDS KIB" into FILE: the time, user and system time,
 * and the peak of resident memory. A child of a larger program would get that program's memory from the kernel, if it
 * is more; so this small program starts it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

static double cpu_of(const struct rusage *usage)
{
	return usage->ru_utime.tv_sec + usage->ru_stime.tv_sec +
	       (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
	struct rusage usage;
	double begun = now();
	int status;
	pid_t pid;
	FILE *out;

	if (argc < 3)
		return 2;
	pid = fork();
	if (!pid) {
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &usage) != pid)
		return 1;
	out = fopen(argv[1], "w");
	if (!out || fprintf(out, "%.6f %.6f %ld\n", now() - begun, cpu_of(&usage), usage.ru_maxrss) < 0 || fclose(out))
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
