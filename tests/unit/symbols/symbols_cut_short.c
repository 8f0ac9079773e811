// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A file that shrinks while it is mapped: `cp new.so old.so` under a running program. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

#include "symbols_fixture.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAS_SANITIZER 1
#else
#define HAS_SANITIZER 0
#endif

/* Memory that libdw allocates for such a file cannot be freed. */
static void expect_leak(void)
{
#ifdef __SANITIZE_ADDRESS__
	__lsan_disable();
#endif
}

static int copy_of_ourselves(void)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char path[] = "/tmp/allocsnap-unit-XXXXXX";
	int to = mkstemp(path);
	ssize_t nr;

	cr_assert(from >= 0 && to >= 0);
	unlink(path);
	do {
		nr = sendfile(to, from, NULL, 1 << 20);
	} while (nr > 0);
	close(from);
	return to;
}

Test(symbols_cut_short, loses_only_names)
{
	struct symbol frame[SYMBOL_INLINE_MAX] = {};
	int fd = copy_of_ourselves();
	struct symbols *symbols;
	const char *path, *why;
	uint32_t object;

	expect_leak();
	symbols = names_new(NULL);
	cr_assert_eq(symbols__object(symbols, "/x", "ab", fd, &object), 0);
	/* Opens it. Nothing more is read before an offset in code is asked for. */
	cr_assert_eq(symbols__lookup(symbols, object, 0, frame), 1);
	cr_assert_eq(ftruncate(fd, 4096), 0);
	for (uint64_t offset = 0x1000; offset < 0x1000000; offset += 0x1000) {
		cr_assert_eq(symbols__lookup(symbols, object, offset, frame), 1);
		cr_assert_null(frame[0].function);
	}
	why = symbols__unreadable(symbols, object);
	cr_assert_not_null(why);
	/* AddressSanitizer looks into /proc at a siglongjmp(), and cannot where we are confined. */
	if (!HAS_SANITIZER || !getenv("SYMBOLS_PARSER"))
		cr_expect_str_eq(why, "it was cut short while it was being read");
	cr_expect(symbols__next_unreadable(symbols, &path, &why));
	cr_expect_str_eq(path, "/x");
	cr_expect(!symbols__next_unreadable(symbols, &path, &why), "it is told once");
	names_free(symbols);
	close(fd);
}
