/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SAMPLER_POISSON_H
#define ALLOCSNAP_SAMPLER_POISSON_H

/*
 * Distances between samples and what a sample stands for, in integers: no floating point, no C library. Samples lie on
 * the allocated bytes like the points of a Poisson process of mean distance `interval` (1 to SAMPLER_INTERVAL_MAX).
 */

#include <stdint.h>

typedef unsigned __int128 uint128_t;

#define POISSON_GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* A bijection without pattern, as in splitmix64. */
static inline uint64_t poisson_mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* floor(-ln(random / 2^64) × interval): the logarithm to base 2, 28 bits behind the point, one by one. Some 100 ns. */
static inline uint64_t poisson_distance(uint64_t random, uint64_t interval)
{
	int zeros = __builtin_clzl(random | 1);
	uint64_t x = (random | 1) << zeros, fraction = 0, logarithm;

	for (int i = 0; i < 28; i++) {
		uint128_t square = (uint128_t)x * x;
		int is_above = square >> 127;

		x = square >> (63 + is_above);
		fraction = fraction << 1 | is_above;
	}
	logarithm = (UINT64_C(64) << 32) - ((uint64_t)(63 - zeros) << 32 | fraction << 4); /* -log2(u) × 2^32 */
	return (uint128_t)logarithm * (uint64_t)((uint128_t)interval * UINT64_C(2977044472) >> 16) >> 48; /* ln 2 × 2^32 */
}

/*
 * dividend × 2^32 / divisor, which must fit; the divisor is at most 2^48. For a division of 128 bits the compiler would call
 * its library.
 */
static inline uint64_t divide_q32(uint64_t dividend, uint64_t divisor)
{
	uint64_t quotient = dividend / divisor, rest = dividend % divisor;

	for (int i = 0; i < 2; i++) {
		rest <<= 16;
		quotient = quotient << 16 | rest / divisor;
		rest %= divisor;
	}
	return quotient;
}

static inline uint64_t multiply_q32(uint64_t a, uint64_t b)
{
	return (uint128_t)a * b >> 32;
}

/* exp(-x), x < 44, both × 2^32: the series for x / 64, six times squared */
static inline uint64_t exponential_q32(uint64_t x)
{
	uint64_t y = x >> 6, y2 = multiply_q32(y, y), y3 = multiply_q32(y2, y), y4 = multiply_q32(y2, y2);
	uint64_t e = (UINT64_C(1) << 32) - y + y2 / 2 - y3 / 6 + y4 / 24;

	for (int i = 0; i < 6; i++)
		e = multiply_q32(e, e);
	return e;
}

/*
 * size / (1 - exp(-size / interval)): the bytes that a sampled block of this size stands for, to the nearest byte or
 * 1e-6 of it; never below size.
 */
static inline uint64_t poisson_weight(uint64_t size, uint64_t interval)
{
	uint64_t x, x2, x4, x6, series;

	if (size / interval >= 44)
		return size;
	x = divide_q32(size, interval);
	if (size >= interval)
		return divide_q32(size, (UINT64_C(1) << 32) - exponential_q32(x));
	x2 = multiply_q32(x, x);
	x4 = multiply_q32(x2, x2);
	x6 = multiply_q32(x4, x2);
	series = (UINT64_C(1) << 32) + x / 2 + x2 / 12 - x4 / 720 + x6 / 30240;
	return ((uint128_t)interval * series + (UINT64_C(1) << 31)) >> 32;
}

#endif
