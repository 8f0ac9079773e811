/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_ARRAY_H
#define ALLOCSNAP_BASE_ARRAY_H

#include <errno.h>
#include <stddef.h>

/*
 * A growing array is three variables: `type *item; size_t item_nr, item_alloc;`, all zero at first.
 * array_reserve() makes room for `want` elements in all and returns 0 or -ENOMEM; after a failure
 * nothing has changed. free(item) ends the array.
 *
 *	err = array_reserve(&t->frame, &t->frame_alloc, t->frame_nr + 1);
 */
int array_reserve_bytes(void **items, size_t *alloc, size_t want, size_t item_size);

#define array_reserve(items, alloc, want) \
	array_reserve_bytes((void **)(items), (alloc), (want), sizeof(**(items)))

/* Appends `value` to the array whose parts are named item, item##_nr and item##_alloc. */
#define array_push(owner, item, value) \
	({ \
		int push_err_ = array_reserve(&(owner)->item, &(owner)->item##_alloc, \
					      (owner)->item##_nr + 1); \
		if (!push_err_) \
			(owner)->item[(owner)->item##_nr++] = (value); \
		push_err_; \
	})

/* Appends `value`, which may use the element's index `at`, until there are `want` elements. 0 or -ENOMEM. */
#define array_fill(owner, item, want, at, value) \
	({ \
		int fill_err_ = 0; \
		while (!fill_err_ && (owner)->item##_nr < (want)) { \
			size_t at __attribute__((unused)) = (owner)->item##_nr; \
			fill_err_ = array_push(owner, item, value); \
		} \
		fill_err_; \
	})

/* Whether is_it is true for an i below nr. */
#define array_any(nr, i, is_it) \
	({ \
		size_t any_nr_ = (nr), i = 0; \
		while (i < any_nr_ && !(is_it)) \
			i++; \
		i < any_nr_; \
	})

/* The number of those i below nr for which is_it is true. */
#define array_count(nr, i, is_it) \
	({ \
		size_t count_ = 0, count_nr_ = (nr); \
		for (size_t i = 0; i < count_nr_; i++) \
			count_ += !!(is_it); \
		count_; \
	})

/* The first element for whose index i is_it is true, or NULL. */
#define array_find(owner, item, i, is_it) \
	({ \
		size_t i = 0; \
		while (i < (owner)->item##_nr && !(is_it)) \
			i++; \
		i < (owner)->item##_nr ? &(owner)->item[i] : NULL; \
	})

/* Keeps the elements for whose index i is_kept is true, in their order. */
#define array_keep(owner, item, i, is_kept) \
	({ \
		size_t kept_ = 0; \
		for (size_t i = 0; i < (owner)->item##_nr; i++) \
			if (is_kept) \
				(owner)->item[kept_++] = (owner)->item[i]; \
		(owner)->item##_nr = kept_; \
	})

/* The first i below nr for which is_it is true, or nr. It must be true for all behind it, too. */
#define array_first(nr, i, is_it) \
	({ \
		size_t low_ = 0, high_ = (nr); \
		while (low_ < high_) { \
			size_t i = low_ + (high_ - low_) / 2; \
			if (is_it) \
				high_ = i; \
			else \
				low_ = i + 1; \
		} \
		low_; \
	})

/* For qsort() and bsearch(): rows that begin with a uint64_t, the lowest first. */
int array_by_number(const void *a, const void *b);

#undef ARRAY_SIZE /* <libiberty.h> has one, too */
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/*
 * Allocates zeroed memory for large data, on huge pages if the system has them. Memory that is not
 * touched takes no pages. len may be 0. NULL with errno ENOMEM.
 */
void *huge_pages_new(size_t len);

/* len is the length that was allocated; 0 for memory from malloc(). pages may be NULL. */
void huge_pages_free(void *pages, size_t len);

/* Requests huge pages for large memory from any allocator that will soon be written to. */
void huge_pages_will_be_used(void *bytes, size_t len);

/* Gives back the pages of bytes that are no longer needed; their content is undefined from now on. */
void huge_pages_drop(void *pages, size_t len, size_t from, size_t to);

#endif
