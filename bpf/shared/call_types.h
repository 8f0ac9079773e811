/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CALL_TYPES_H
#define ALLOCSNAP_CALL_TYPES_H

/*
 * The shape of the call that a probe sees, and the places of its values. The cookie of the probe passes them to the
 * kernel side.
 */

#include "shared/argument_types.h"
#include "shared/fixed_width.h"

/* How to read the arguments and the result of an allocator function. */
enum call_shape {
	SHAPE_MALLOC = 0,     /* p = f(size) */
	SHAPE_CALLOC,	      /* p = f(n, size) */
	SHAPE_REALLOC,	      /* p = f(p, size) */
	SHAPE_REALLOCARRAY,   /* p = f(p, n, size) */
	SHAPE_MEMALIGN,	      /* p = f(alignment, size) */
	SHAPE_POSIX_MEMALIGN, /* error = f(&p, alignment, size) */
	SHAPE_FREE,	      /* f(p) */
	SHAPE_MMAP,	      /* p = f(any, size, …), -1: failed */
	SHAPE_MUNMAP,	      /* f(p, size): frees the pages from p on, whatever blocks they belong to */
	SHAPE_MREMAP,	      /* p = f(p, old size, size, flags, …), -1: failed */
	SHAPE_REALLOCF,	      /* p = f(p, size), frees p even if it fails */
	SHAPE_XALLOCX,	      /* size = f(p, size, more), in place; a smaller result is a failure */

	/* User allocators: struct user_call says where their arguments are. */
	SHAPE_USER_ALLOC,   /* p = f(…size…) */
	SHAPE_USER_OUT,     /* error = f(…&p…size…) */
	SHAPE_USER_REALLOC, /* p = f(…p…size…) */
	SHAPE_USER_FREE,    /* f(…p…) */

	/* USDT probes of the process's own sampler: struct usdt_call says where they have their values. */
	SHAPE_SAMPLE,	   /* p, size, weight */
	SHAPE_SAMPLE_FREE, /* p */
	SHAPE_SAMPLE_LOST, /* p, size, weight; its free is not reported */

	/* USDT probes of a user allocator, likewise. */
	SHAPE_REPORTED,	 /* p, size, count */
	SHAPE_REPORTED_FREE, /* p */

	/* Places where CPython's allocators are called: struct python_call says where they have their values. */
	SHAPE_PYTHON,	   /* malloc, calloc, realloc */
	SHAPE_PYTHON_FREE,
	SHAPE_PYTHON_CREATION, /* an object begins */
	SHAPE_NR,
};

/* Whether a call of this shape only frees. The programs do not need its return. */
static inline __attribute__((always_inline)) int shape_is_free(bpf_u32 shape)
{
	return shape == SHAPE_FREE || shape == SHAPE_MUNMAP || shape == SHAPE_USER_FREE ||
	       shape == SHAPE_SAMPLE_FREE || shape == SHAPE_REPORTED_FREE || shape == SHAPE_PYTHON_FREE;
}

/* Whether it is no call of a function, but a point that the process's own sampler passes. */
static inline __attribute__((always_inline)) int shape_is_sampler(bpf_u32 shape)
{
	return shape == SHAPE_SAMPLE || shape == SHAPE_SAMPLE_FREE || shape == SHAPE_SAMPLE_LOST;
}

/* Whether it is no call of a function, but a place where one of CPython's allocators is called, or an object begins. */
/* Whether the process reports a block at one place, so that there is no return to see. */
static inline __attribute__((always_inline)) int shape_is_reported(bpf_u32 shape)
{
	return shape_is_sampler(shape) || shape == SHAPE_REPORTED || shape == SHAPE_REPORTED_FREE;
}

static inline __attribute__((always_inline)) int shape_is_python(bpf_u32 shape)
{
	return shape == SHAPE_PYTHON || shape == SHAPE_PYTHON_FREE || shape == SHAPE_PYTHON_CREATION;
}

static inline __attribute__((always_inline)) int shape_is_mapping(bpf_u32 shape)
{
	return shape == SHAPE_MMAP || shape == SHAPE_MUNMAP || shape == SHAPE_MREMAP;
}

/* The domains of blocks; domain_name() in elf/allocators.c names them. 0: the heap of the C library or of the program. */
#define DOMAIN_MAPPING 1
#define DOMAIN_JEMALLOC 2
#define DOMAIN_TCMALLOC 3
#define DOMAIN_MIMALLOC 4
#define DOMAIN_PYTHON 5
#define DOMAIN_GO 6
#define DOMAIN_JAVA 7
#define DOMAIN_PAGES 9 /* resident memory, in place of an allocator's */
#define DOMAIN_USER 16 /* the first domain of --probe */
#define DOMAIN_MAX 255

/*
 * The attach cookie of a probe: its site, its call shape, and the layer and domain of its blocks. by_ret: probes
 * on `ret` instructions see its returns, even in a process that has return probes. user_call: the row of
 * user_calls[] with the arguments of a user function; for a USDT probe the row of usdt_calls[], for a
 * place in CPython the row of python_calls[]. A return probe has the slot of its process there, and 1; 0: any process.
 *
 *	site:24 | by_ret:1 | shape:7 | of_heap:1 | stepped:1 | restarts:1 | in_session:1 | own_link:1 |
 *	user_call:17 | layer:2 | domain:8
 */
#define SITE_COOKIE(site, shape, layer, domain) \
	((bpf_u64)(site) << 40 | (bpf_u64)(shape) << 32 | (bpf_u64)(layer) << 8 | (domain))
#define COOKIE_SITE(cookie) ((bpf_u32)((cookie) >> 40))
#define COOKIE_BY_RET (1ULL << 39)
#define COOKIE_OF_HEAP (1ULL << 31) /* the first argument is a heap; the arguments of the shape follow it */
#define COOKIE_STEPPED (1ULL << 30) /* the kernel single-steps the probed instruction */
#define COOKIE_RESTARTS (1ULL << 29) /* the function may jump to its own start, so one call may hit the probe again */
#define COOKIE_IN_SESSION (1ULL << 28) /* the session program sets it, not the loader */
#define COOKIE_OWN_LINK (1ULL << 27) /* of one process, where others have shared links (enum links_phase) */
#define COOKIE_SHAPE(cookie) ((bpf_u32)((cookie) >> 32) & 0x7f)
#define USER_CALL_COOKIE(index) ((bpf_u64)(index) << 10)
#define COOKIE_USER_CALL(cookie) ((bpf_u32)((cookie) >> 10) & 0x1ffff)
#define COOKIE_LAYER(cookie) ((bpf_u32)((cookie) >> 8) & 3)
#define COOKIE_DOMAIN(cookie) ((bpf_u32)(cookie) & 0xff)

/* Where a function of a user allocator has its arguments. A constant stands for one that it does not have. */
struct user_call {
	struct argument_source size, count; /* a block has count * size bytes */
	struct argument_source pointer; /* the block that it takes, or where it stores the address of the new block; 0: neither */
};
_Static_assert(sizeof(struct user_call) == 48, "no padding");

#define USDT_CALLS_MAX 128 /* different ones, of all files */
#define USDT_ARGUMENTS 3

/* Where a USDT probe has its values: pointer, size, and weight (of a sampler) or count. */
struct usdt_call {
	struct argument_source argument[USDT_ARGUMENTS];
};
_Static_assert(sizeof(struct usdt_call) == 48, "no padding");

#define USER_ARGUMENT_MAX 6
#define USER_CALLS_MAX 128 /* for all user allocators together */
#define USER_ALLOCATORS_MAX 64

/* The cookie of a probe at a `ret` or a jump out of a function has this, COOKIE_STEPPED and COOKIE_OWN_LINK. */
#define RESULT_IS_RETURNED 0ULL
#define RESULT_IS_ARGUMENT 1ULL /* the first one: the jump's target returns it */

#endif
