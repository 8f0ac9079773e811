/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_WORKLOAD_H
#define ALLOCSNAP_WORKLOAD_H

/*
 * Shared by the programs with known answers. Each prints {"ready": PID} when it stands still and can be
 * attached to, then obeys one command a line on stdin and answers with JSON, one object a line, the last
 * of them {"done": …}. The end of stdin is "quit".
 *
 * Nothing here allocates, so all allocations after "ready" are in the program's answers.
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A function that stays one, under its own name: its line is a known call site. */
#define SITE __attribute__((noipa))

__attribute__((format(printf, 1, 2))) static inline void answer(const char *fmt, ...)
{
	static char text[4096];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(text, sizeof(text) - 1, fmt, args);
	va_end(args);
	text[len++] = '\n';
	if (write(STDOUT_FILENO, text, len) != len)
		_exit(1);
}

static inline const char *next_command(void)
{
	static char line[4096];
	size_t len = 0;

	while (len < sizeof(line) - 1) {
		if (read(STDIN_FILENO, &line[len], 1) != 1)
			return "quit";
		if (line[len] == '\n')
			break;
		len++;
	}
	line[len] = '\0';
	return line;
}

static inline void ready(void)
{
	answer("{\"ready\": %d}", (int)getpid());
}

/* Obeys crash, abort, _exit, exec PATH: ends without notice to other threads. Returns for any other command. */
static inline void end_at_once(const char *command)
{
	static int *volatile nowhere;

	if (!strcmp(command, "crash"))
		*nowhere = 1;
	if (!strcmp(command, "abort"))
		abort();
	if (!strcmp(command, "_exit"))
		_exit(3);
	if (!strncmp(command, "exec ", 5))
		execl(command + 5, command + 5, NULL);
}

#endif
