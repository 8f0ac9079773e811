/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_WORKLOAD_ALLOCATORS_FREE_H
#define ALLOCSNAP_WORKLOAD_ALLOCATORS_FREE_H

/* How a kept block may be freed, with each allocator's own functions, and what fits which of them. */

#include "allocators.h"
#include "account.h"

static const nothrow no_throw;

typedef void free_function(struct kept *kept);

#define FREE_BY(name, call) \
	[[gnu::unused]] static void name(struct kept *kept) \
	{ \
		call; \
	}

FREE_BY(by_free, free(kept->pointer))
FREE_BY(by_cfree, cfree(kept->pointer))
FREE_BY(by_delete, _ZdlPv(kept->pointer))
FREE_BY(by_delete_sized, _ZdlPvm(kept->pointer, kept->size))
FREE_BY(by_delete_nothrow, _ZdlPvRKSt9nothrow_t(kept->pointer, &no_throw))
FREE_BY(by_delete_array, _ZdaPv(kept->pointer))
FREE_BY(by_delete_array_sized, _ZdaPvm(kept->pointer, kept->size))
FREE_BY(by_delete_array_nothrow, _ZdaPvRKSt9nothrow_t(kept->pointer, &no_throw))
FREE_BY(by_delete_aligned, _ZdlPvSt11align_val_t(kept->pointer, 64))
FREE_BY(by_delete_sized_aligned, _ZdlPvmSt11align_val_t(kept->pointer, kept->size, 64))
FREE_BY(by_delete_aligned_nothrow, _ZdlPvSt11align_val_tRKSt9nothrow_t(kept->pointer, 64, &no_throw))
FREE_BY(by_delete_array_aligned, _ZdaPvSt11align_val_t(kept->pointer, 64))
FREE_BY(by_delete_array_sized_aligned, _ZdaPvmSt11align_val_t(kept->pointer, kept->size, 64))
FREE_BY(by_delete_array_aligned_nothrow, _ZdaPvSt11align_val_tRKSt9nothrow_t(kept->pointer, 64, &no_throw))
FREE_BY(by_dallocx, dallocx(kept->pointer, 0))
FREE_BY(by_sdallocx, sdallocx(kept->pointer, kept->size, 0))
FREE_BY(by_tc_free, tc_free(kept->pointer))
FREE_BY(by_tc_cfree, tc_cfree(kept->pointer))
FREE_BY(by_tc_free_sized, tc_free_sized(kept->pointer, kept->size))
FREE_BY(by_tc_delete, tc_delete(kept->pointer))
FREE_BY(by_tc_delete_aligned, tc_deletearray_sized_aligned(kept->pointer, kept->size, 64))
FREE_BY(by_mi_free, mi_free(kept->pointer))
FREE_BY(by_mi_cfree, mi_cfree(kept->pointer))
FREE_BY(by_mi_free_size, mi_free_size(kept->pointer, kept->size))
FREE_BY(by_mi_free_aligned, mi_free_aligned(kept->pointer, 64))
FREE_BY(by_mi_free_size_aligned, mi_free_size_aligned(kept->pointer, kept->size, 64))

#define NEW by_delete, by_delete_sized, by_delete_nothrow
#define NEW_ARRAY by_delete_array, by_delete_array_sized, by_delete_array_nothrow
#define NEW_ALIGNED by_delete_aligned, by_delete_sized_aligned, by_delete_aligned_nothrow
#define NEW_ARRAY_ALIGNED \
	by_delete_array_aligned, by_delete_array_sized_aligned, by_delete_array_aligned_nothrow
#define MI by_mi_free, by_mi_cfree, by_mi_free_size
#define MI_ALIGNED by_mi_free_aligned, by_mi_free_size_aligned

#endif
