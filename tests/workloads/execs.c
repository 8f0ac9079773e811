// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * execs N OTHER: becomes OTHER N times, which becomes this one again, each time at the same
 * addresses but with other code there. Each image has the same blocks, all of one function.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/personality.h>
#include <unistd.h>

#ifndef SITE
#define SITE the_site
#endif

__attribute__((noinline)) void *SITE(size_t size)
{
	char *volatile block = malloc(size);

	return block;
}

int main(int argc, char **argv)
{
	int left = argc == 3 ? atoi(argv[1]) : 0;
	char text[16];

	personality(ADDR_NO_RANDOMIZE);
	for (size_t i = 0; i < 200; i++)
		if (!SITE(100 + i))
			return 1;
	if (!left)
		return 0;
	usleep(300); /* long enough to be found, too short to be looked at twice */
	snprintf(text, sizeof(text), "%d", left - 1);
	execl(argv[2], argv[2], text, argv[0], NULL);
	return 1;
}
