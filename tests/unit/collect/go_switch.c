// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The store that begins the heap profile of a Go program, into variables of this process. */
#include "collect/sources/go_switch.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <unistd.h>

static uint64_t rate, neighbour[2];
static const uint64_t fixed = 0;
static uint64_t table = 0x1234567;

static int switch_on(const void *address, int *ret_fd)
{
	const struct go_switch_place place = { (uintptr_t)address, (uintptr_t)&table, 0x1234567 };
	struct reason why = {};
	int err = go_switch_on(getpid(), &place, ret_fd, &why);

	cr_expect_eq(!err, !*why.text, "%d: %s", err, why.text);
	return err;
}

Test(go_switch, stores_one_word_and_takes_it_back)
{
	int fd;

	cr_assert_eq(switch_on(&rate, &fd), 0);
	cr_expect_eq(*(volatile uint64_t *)&rate, GO_SWITCHED_RATE);
	go_switch_off(fd, (uintptr_t)&rate);
	cr_expect_eq(*(volatile uint64_t *)&rate, 0);
	cr_expect_eq(neighbour[0] + neighbour[1], 0);
}

Test(go_switch, leaves_a_rate_that_the_program_has_set)
{
	int fd;

	cr_assert_eq(switch_on(&rate, &fd), 0);
	*(volatile uint64_t *)&rate = 4096;
	go_switch_off(fd, (uintptr_t)&rate);
	cr_expect_eq(*(volatile uint64_t *)&rate, 4096);
	cr_expect_eq(switch_on(&rate, &fd), -EEXIST);
	cr_expect_eq(*(volatile uint64_t *)&rate, 4096);
}

Test(go_switch, takes_back_what_a_killed_recording_has_left)
{
	int fd;

	rate = GO_SWITCHED_RATE;
	cr_assert_eq(switch_on(&rate, &fd), 0);
	cr_expect_eq(*(volatile uint64_t *)&rate, GO_SWITCHED_RATE);
	go_switch_off(fd, (uintptr_t)&rate);
	cr_expect_eq(*(volatile uint64_t *)&rate, 0);
}

Test(go_switch, is_refused_where_the_variable_is_not_certain)
{
	int fd;

	cr_expect_eq(switch_on(NULL, &fd), -ENOTSUP);
	cr_expect_eq(switch_on((char *)&rate + 4, &fd), -ENOTSUP);
	cr_expect_eq(switch_on(&fixed, &fd), -ENOTSUP);
	cr_expect_eq(switch_on((void *)0x1000, &fd), -ENOTSUP);
	cr_expect_eq(rate, 0);
}

Test(go_switch, is_refused_where_the_memory_is_of_another_program)
{
	int fd;

	table++;
	cr_expect_eq(switch_on(&rate, &fd), -ENOTSUP);
	cr_expect_eq(*(volatile uint64_t *)&rate, 0);
}
