// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Functions for other tools' return probes, which replace return addresses on the stack.
 *
 *	chain		one block of 201 bytes below six functions, one of which is left by a jump
 *	deep		one block of 202 bytes below 40 calls of descend()
 *	storm		500 blocks of 203 bytes, by a signal's handler that interrupts calls of spun()
 */
#include <signal.h>
#include <sys/time.h>

#include "unwind.h"

#define STORM_BLOCKS 500
#define STORM_MICROSECONDS 300

SITE void chain6(void)
{
	KEEP_BLOCK(201);
}

/* A tail call: chain6() returns directly to the caller of this function. */
void chain5(void);
__asm__("\t.globl chain5\n"
	"\t.type chain5, @function\n"
	"chain5:\n"
	"\t.cfi_startproc\n"
	"\tjmp chain6\n"
	"\t.cfi_endproc\n"
	"\t.size chain5, . - chain5\n");

SITE void chain4(void)
{
	chain5();
	STAYS_BEHIND(NULL);
}

SITE void chain3(void)
{
	char buf[3000];

	STAYS_BEHIND(buf);
	chain4();
	STAYS_BEHIND(buf);
}

SITE void chain2(void)
{
	chain3();
	STAYS_BEHIND(NULL);
}

SITE void chain1(void)
{
	chain2();
	STAYS_BEHIND(NULL);
}

SITE int descend(int depth)
{
	if (!depth) {
		KEEP_BLOCK(202);
		return 0;
	}
	return descend(depth - 1) + depth;
}

static void deep(void)
{
	STAYS_BEHIND((long)descend(39));
}

SITE void spun(void)
{
	STAYS_BEHIND(NULL);
}

static volatile int storm_nr;

static void on_alarm(int number)
{
	STAYS_BEHIND(&number);
	KEEP_BLOCK(203);
	storm_nr++;
}

SITE static void storm(void)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct itimerval each = { { 0, STORM_MICROSECONDS }, { 0, STORM_MICROSECONDS } }, never = {};

	storm_nr = 0;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &each, NULL);
	while (storm_nr < STORM_BLOCKS)
		spun();
	setitimer(ITIMER_REAL, &never, NULL);
}

int main(void)
{
	static const struct order orders[] = {
		{ "chain", chain1 },
		{ "deep", deep },
		{ "storm", storm },
		{},
	};

	ready();
	obey_orders(orders);
	return 0;
}
