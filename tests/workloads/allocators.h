/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_WORKLOAD_ALLOCATORS_H
#define ALLOCSNAP_WORKLOAD_ALLOCATORS_H

/*
 * Functions that allocators have in addition to the C library's. They are weak: NULL if the program has no
 * such allocator, so that one source can be built with each allocator, in each way of linking.
 */

#include <stddef.h>

#define WEAK __attribute__((weak))
#ifdef ONLY_GLIBC /* which a static link would leave out */
#define NOT_ONLY_GLIBC
#else
#define NOT_ONLY_GLIBC WEAK
#endif

typedef struct {
	char none;
} nothrow;

/* operator new and new[]; with std::nothrow; aligned; both */
NOT_ONLY_GLIBC void *_Znwm(size_t size);
NOT_ONLY_GLIBC void *_Znam(size_t size);
NOT_ONLY_GLIBC void *_ZnwmRKSt9nothrow_t(size_t size, const nothrow *);
NOT_ONLY_GLIBC void *_ZnamRKSt9nothrow_t(size_t size, const nothrow *);
NOT_ONLY_GLIBC void *_ZnwmSt11align_val_t(size_t size, size_t alignment);
NOT_ONLY_GLIBC void *_ZnamSt11align_val_t(size_t size, size_t alignment);
NOT_ONLY_GLIBC void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const nothrow *);
NOT_ONLY_GLIBC void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const nothrow *);
/* operator delete and delete[]; sized; with std::nothrow; aligned; sized and aligned; ... */
NOT_ONLY_GLIBC void _ZdlPv(void *);
NOT_ONLY_GLIBC void _ZdaPv(void *);
NOT_ONLY_GLIBC void _ZdlPvm(void *, size_t size);
NOT_ONLY_GLIBC void _ZdaPvm(void *, size_t size);
NOT_ONLY_GLIBC void _ZdlPvRKSt9nothrow_t(void *, const nothrow *);
NOT_ONLY_GLIBC void _ZdaPvRKSt9nothrow_t(void *, const nothrow *);
NOT_ONLY_GLIBC void _ZdlPvSt11align_val_t(void *, size_t alignment);
NOT_ONLY_GLIBC void _ZdaPvSt11align_val_t(void *, size_t alignment);
NOT_ONLY_GLIBC void _ZdlPvmSt11align_val_t(void *, size_t size, size_t alignment);
NOT_ONLY_GLIBC void _ZdaPvmSt11align_val_t(void *, size_t size, size_t alignment);
NOT_ONLY_GLIBC void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *, size_t alignment, const nothrow *);
NOT_ONLY_GLIBC void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *, size_t alignment, const nothrow *);

/* jemalloc's; the last argument is the logarithm of the alignment, among other things */
WEAK void *mallocx(size_t size, int flags);
WEAK void *rallocx(void *, size_t size, int flags);
WEAK size_t xallocx(void *, size_t size, size_t extra, int flags);
WEAK size_t sallocx(const void *, int flags);
WEAK void dallocx(void *, int flags);
WEAK void sdallocx(void *, size_t size, int flags);

/* gperftools' */
WEAK void *tc_malloc(size_t size);
WEAK void *tc_malloc_skip_new_handler(size_t size);
WEAK void *tc_calloc(size_t n, size_t size);
WEAK void *tc_realloc(void *, size_t size);
WEAK void *tc_memalign(size_t alignment, size_t size);
WEAK int tc_posix_memalign(void **, size_t alignment, size_t size);
WEAK void *tc_valloc(size_t size);
WEAK void *tc_pvalloc(size_t size);
WEAK void *tc_new(size_t size);
WEAK void *tc_newarray_nothrow(size_t size, const nothrow *);
WEAK void *tc_new_aligned(size_t size, size_t alignment);
WEAK void tc_free(void *);
WEAK void tc_cfree(void *);
WEAK void tc_free_sized(void *, size_t size);
WEAK void tc_delete(void *);
WEAK void tc_deletearray_sized_aligned(void *, size_t size, size_t alignment);

/* mimalloc's */
struct mi_heap;
WEAK void *mi_malloc(size_t size);
WEAK void *mi_zalloc(size_t size);
WEAK void *mi_malloc_small(size_t size);
WEAK void *mi_zalloc_small(size_t size);
WEAK void *mi_calloc(size_t n, size_t size);
WEAK void *mi_mallocn(size_t n, size_t size);
WEAK void *mi_realloc(void *, size_t size);
WEAK void *mi_rezalloc(void *, size_t size);
WEAK void *mi_reallocf(void *, size_t size);
WEAK void *mi_reallocn(void *, size_t n, size_t size);
WEAK void *mi_reallocarray(void *, size_t n, size_t size);
WEAK void *mi_recalloc(void *, size_t n, size_t size);
WEAK void *mi_expand(void *, size_t size);
WEAK void *mi_malloc_aligned(size_t size, size_t alignment);
WEAK void *mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset);
WEAK void *mi_zalloc_aligned(size_t size, size_t alignment);
WEAK void *mi_calloc_aligned(size_t n, size_t size, size_t alignment);
WEAK void *mi_realloc_aligned(void *, size_t size, size_t alignment);
WEAK void *mi_memalign(size_t alignment, size_t size);
WEAK void *mi_aligned_alloc(size_t alignment, size_t size);
WEAK int mi_posix_memalign(void **, size_t alignment, size_t size);
WEAK void *mi_valloc(size_t size);
WEAK void *mi_pvalloc(size_t size);
WEAK void *mi_new(size_t size);
WEAK void *mi_new_n(size_t n, size_t size);
WEAK void *mi_new_nothrow(size_t size);
WEAK void *mi_new_aligned(size_t size, size_t alignment);
WEAK void *mi_new_realloc(void *, size_t size);
WEAK void *mi_new_reallocn(void *, size_t n, size_t size);
WEAK void mi_free(void *);
WEAK void mi_cfree(void *);
WEAK void mi_free_size(void *, size_t size);
WEAK void mi_free_aligned(void *, size_t alignment);
WEAK void mi_free_size_aligned(void *, size_t size, size_t alignment);
WEAK struct mi_heap *mi_heap_new(void);
WEAK void *mi_heap_malloc(struct mi_heap *, size_t size);
WEAK void *mi_heap_zalloc(struct mi_heap *, size_t size);
WEAK void *mi_heap_calloc(struct mi_heap *, size_t n, size_t size);
WEAK void *mi_heap_mallocn(struct mi_heap *, size_t n, size_t size);
WEAK void *mi_heap_realloc(struct mi_heap *, void *, size_t size);
WEAK void *mi_heap_reallocn(struct mi_heap *, void *, size_t n, size_t size);
WEAK void *mi_heap_malloc_aligned(struct mi_heap *, size_t size, size_t alignment);

/* not in every C library's headers */
WEAK void cfree(void *);
NOT_ONLY_GLIBC void *pvalloc(size_t size);

#endif
