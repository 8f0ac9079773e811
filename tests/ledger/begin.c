// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The ledger's beginning: it finds the next allocator, and makes its file. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "own.h"

#define SLOT_NR (1ULL << 20)
#define ENVIRONMENT_MAX (1 << 20)

struct allocator next;
struct books *books;
bool has_vforked;
uint64_t stop_after[STOPS_MAX + 1];

void die(const char *what)
{
	static const char who[] = "ledger: ";

	if (write(STDERR_FILENO, who, sizeof(who) - 1) >= 0 &&
	    write(STDERR_FILENO, what, strlen(what)) >= 0)
		_exit(99);
	_exit(98);
}

/* NAME,ALLOCATIONS…: if this program has the name, it stops itself each time when it has made that many. */
static void find_stops(const char *text)
{
	char name[16] = "";
	size_t len;

	prctl(PR_GET_NAME, name);
	len = strlen(name);
	if (strncmp(text, name, len) || text[len] != ',')
		return;
	text += len;
	for (int i = 0; i < STOPS_MAX && *text == ','; i++)
		stop_after[i] = strtoull(text + 1, (char **)&text, 10);
}

/* From the kernel: this may run before the C library has its own environment. */
static void read_environment(char *folder, size_t size)
{
	static char text[ENVIRONMENT_MAX];
	int fd = open("/proc/self/environ", O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t got;

	while (fd >= 0 && len < sizeof(text) - 1 &&
	       (got = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += got;
	if (fd >= 0)
		close(fd);
	for (char *line = text; line < text + len; line += strlen(line) + 1) {
		has_vforked |= !strcmp(line, "LEDGER_VFORK=");
		if (!strncmp(line, "LEDGER=", 7) && strlen(line + 7) < size)
			strcpy(folder, line + 7);
		if (!strncmp(line, "LEDGER_STOPS=", 13))
			find_stops(line + 13);
	}
}

static int create_file(const char *folder)
{
	char path[512];
	int fd = -1;

	for (int i = 0; i < 100 && fd < 0; i++) {
		snprintf(path, sizeof(path), "%s/%d.%d", folder, getpid(), i);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

static void open_books(void)
{
	size_t size = sizeof(struct books) + SLOT_NR * sizeof(struct ledger_block);
	char folder[400] = "";
	struct books *map;
	int fd;

	read_environment(folder, sizeof(folder));
	if (!*folder)
		return;
	fd = create_file(folder);
	if (fd < 0 || ftruncate(fd, size))
		die("cannot create its file\n");
	map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		die("cannot map its file\n");
	map->slot_nr = SLOT_NR;
	map->pid = getpid();
	__atomic_store_n(&map->magic, LEDGER_MAGIC, __ATOMIC_RELEASE);
	books = map;
}

#define FIND(name) (next.name = dlsym(RTLD_NEXT, #name))

static void find_next(void)
{
	FIND(calloc);
	FIND(realloc);
	FIND(reallocarray);
	FIND(memalign);
	FIND(aligned_alloc);
	FIND(posix_memalign);
	FIND(valloc);
	FIND(pvalloc);
	FIND(free);
	if (!FIND(malloc))
		die("there is no malloc\n");
}

static volatile char *mark; /* the kernel wipes it in a forked child, and only there */

static void set_mark(void)
{
	void *page = mark ? (void *)mark :
			    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED || madvise(page, 4096, MADV_WIPEONFORK))
		die("cannot know when it is forked\n");
	mark = page;
	*mark = 1;
}

bool is_forked(void)
{
	return !*mark;
}

void begin_fork(void)
{
	books = NULL;
	set_mark();
	open_books();
}

void begin_books(void)
{
	static bool has_begun;

	if (has_begun)
		return;
	has_begun = true;
	find_next();
	set_mark();
	open_books();
}

static char early[1 << 16] __attribute__((aligned(16)));
static size_t early_used;

bool is_early(const void *p)
{
	return (const char *)p >= early && (const char *)p < early + sizeof(early);
}

void *early_malloc(size_t size)
{
	void *p = early + early_used;

	early_used += (size + 15) & ~15UL;
	if (early_used > sizeof(early))
		die("too many calls while it looks for malloc\n");
	return p;
}
