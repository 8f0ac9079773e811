// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "inject/placing.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reason.h"
#include "exact/books.h"
#include "inject/inject_private.h"
#include "inject/remote_call.h"
#include "inject/sampler_image.h"
#include "inject/stopped_threads.h"
#include "process/proc.h"

/* ---- shared memory ---- */

/* Whether another process uses the memory of one: vfork(), or clone() with CLONE_VM. */

#define SHARED_TRIES 20
#define SHARED_PAUSE_NS 10000000
#define NEW_MAX 4096
#define AGE_MAX_NS (100ull * 1000 * 1000) /* in so short a time the numbers do not begin anew and come back */
#define AMID_CLONE 32 /* a process may have its number for some time before it can be found by it */

/* False if they surely do not: the peak of one and the same memory would lie between two looks at it. */
static bool may_share_memory(pid_t pid, pid_t other)
{
	uint64_t before = 0, peak = 0, after = 0;

	return !proc_status(pid, "VmPeak", &before) && !proc_status(other, "VmPeak", &peak) &&
	       !proc_status(pid, "VmPeak", &after) && before <= peak && peak <= after;
}

/* 1: it does; 0; -errno: it is not known. The kernel compares no process with more privileges than ours. */
static int shares_memory(pid_t pid, pid_t other)
{
	long result = syscall(SYS_kcmp, pid, other, KCMP_VM, 0, 0);
	int err = result < 0 ? -errno : 0;

	if (!err)
		return !result;
	return err == -ESRCH || !may_share_memory(pid, other) ? 0 : err;
}

static bool is_thread_of(pid_t pid, pid_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, tid);
	return !access(path, F_OK);
}

/* Each finds a process with the same memory. 1: *ret is one; 0: no process has it; -errno, with *ret in question. */
static int find_sharer(pid_t pid, pid_t *ret)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int found = dir ? 0 : -errno;

	*ret = 0;
	while (!found && (entry = readdir(dir))) {
		*ret = isdigit((unsigned char)*entry->d_name) ? atoi(entry->d_name) : 0;
		if (*ret && *ret != pid)
			found = shares_memory(pid, *ret);
	}
	if (dir)
		closedir(dir);
	return found;
}

static int find_new_sharer(pid_t pid, pid_t after, pid_t newest, pid_t *ret)
{
	int found = 0;

	for (*ret = after; !found && *ret < newest;) {
		found = shares_memory(pid, ++*ret);
		if (found > 0 && is_thread_of(pid, *ret))
			found = 0;
	}
	return found;
}

static int refuse_sharer(int found, pid_t other, struct reason *why)
{
	if (found > 0)
		return reason_set(why, -EAGAIN, "process %d uses the same memory (vfork, or clone with CLONE_VM)", other);
	if (found < 0)
		return reason_set(why, found, "cannot find out whether process %d uses the same memory: %s", other,
				  strerror(-found));
	return 0;
}

/* A child of vfork() shares it until its exec. If one is there all the time, it may be another one each time. */
int check_shared_memory(pid_t pid, struct reason *why)
{
	pid_t other;
	int found = find_sharer(pid, &other);

	for (int i = 0; i < SHARED_TRIES && found > 0; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = SHARED_PAUSE_NS }, NULL);
		if (!shares_memory(pid, other))
			return 0;
	}
	return refuse_sharer(found, other, why);
}

struct newest_process newest_process(void)
{
	FILE *file = fopen("/proc/loadavg", "re");
	struct newest_process newest = { .seen_ns = monotonic_now_ns() };

	if (file && fscanf(file, "%*s %*s %*s %*s %d", &newest.pid) != 1)
		newest.pid = 0;
	if (file)
		fclose(file);
	return newest;
}

int check_new_sharers(pid_t pid, const struct newest_process *before, struct reason *why)
{
	struct newest_process now = newest_process();
	pid_t other, first = before->pid > AMID_CLONE ? before->pid - AMID_CLONE : 0;
	int found;

	if (!before->pid || now.pid < before->pid || now.pid - before->pid > NEW_MAX ||
	    now.seen_ns - before->seen_ns > AGE_MAX_NS)
		found = find_sharer(pid, &other);
	else
		found = find_new_sharer(pid, first, now.pid, &other);
	return refuse_sharer(found, other, why);
}

/* ---- placing ---- */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8u
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define SEALS_OF_SIZE (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static const char *const file_names[] = { [INJECT_SAMPLER] = INJECT_FILE_NAME, [INJECT_HOOKS] = INJECT_HOOKS_NAME,
					  [INJECT_MALLOC_HOOKS] = INJECT_HOOKS_NAME };
static const char *const things[] = { [INJECT_SAMPLER] = "the sampler", [INJECT_HOOKS] = "the hooks",
				      [INJECT_MALLOC_HOOKS] = "the hooks" };

/* ---- the memory files ---- */

static int undo_by_closing(struct remote_caller *caller, long fd)
{
	return remote_caller_undo(caller, SYS_close, (const uint64_t[6]){ fd });
}

/* An injector that is killed in this call leaves an empty file: its number is not known before. */
static int make_remote_file(struct remote_caller *caller, const char *name, unsigned int flag, long *ret_fd,
			    struct reason *why)
{
	uint64_t at;

	if (remote_caller_put(caller, name, strlen(name) + 1, &at))
		return reason_set(why, -EIO, "its stack cannot be written");
	*ret_fd = REMOTE_CALL(caller, SYS_memfd_create, at, MFD_CLOEXEC | MFD_ALLOW_SEALING | flag);
	if (*ret_fd == -EINVAL) /* before 6.3 */
		*ret_fd = REMOTE_CALL(caller, SYS_memfd_create, at, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*ret_fd < 0)
		return reason_set(why, -ENOTSUP, "it may make no memory file: %s", strerror(-*ret_fd));
	return undo_by_closing(caller, *ret_fd);
}

/*
 * Gets the process's descriptor. Another process may share its descriptors and put another file in its place: so it is
 * not opened anew by its path, and must be an empty memory file that no name leads to.
 */
static int borrow_remote_file(long remote_fd, pid_t pid, struct stat *ret_st)
{
	int pidfd = syscall(SYS_pidfd_open, pid, 0), fd, seals;

	if (pidfd < 0)
		return -errno;
	fd = syscall(SYS_pidfd_getfd, pidfd, remote_fd, 0);
	close(pidfd);
	if (fd < 0)
		return -errno;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals >= 0 && !(seals & F_SEAL_WRITE) && !fstat(fd, ret_st) && !ret_st->st_size && !ret_st->st_nlink)
		return fd;
	close(fd);
	return -EPERM;
}

static int write_to_memory_file(int fd, const uint8_t *byte, size_t bytes)
{
	while (bytes) {
		ssize_t done = write(fd, byte, bytes);

		if (done <= 0)
			return done ? -errno : -EIO;
		byte += done;
		bytes -= done;
	}
	return 0;
}

static int fill_code_file(int fd, const struct placing *placing)
{
	int err = write_to_memory_file(fd, placing->image.byte, placing->image.bytes);

	return err ?: fcntl(fd, F_ADD_SEALS, SEALS_OF_SIZE | F_SEAL_WRITE) ? -errno : 0;
}

/* Sparse. Its size is sealed, so no process can make an access to the books fail. */
static int fill_books_file(int fd, const struct placing *placing)
{
	const struct books_head head = {
		.magic = BOOKS_MAGIC, .version = BOOKS_VERSION,
		.kind = placing->kind == INJECT_MALLOC_HOOKS ? BOOKS_OF_MALLOC : BOOKS_OF_PYTHON,
	};

	if (ftruncate(fd, BOOKS_BYTES))
		return -errno;
	return write_to_memory_file(fd, (const uint8_t *)&head, sizeof(head)) ?:
	       fcntl(fd, F_ADD_SEALS, SEALS_OF_SIZE) ? -errno : 0;
}

static int fill_remote_file(long remote_fd, pid_t pid, int (*fill)(int fd, const struct placing *placing),
			    const struct placing *placing, uint64_t *ret_dev, uint64_t *ret_inode, struct reason *why)
{
	struct stat st;
	int fd = borrow_remote_file(remote_fd, pid, &st), err;

	if (fd < 0)
		return reason_set(why, -EAGAIN, "its memory file cannot be reached: %s", strerror(-fd));
	err = fill(fd, placing);
	*ret_dev = (uint64_t)major(st.st_dev) << 32 | minor(st.st_dev);
	*ret_inode = st.st_ino;
	close(fd);
	return err ? reason_set(why, -EIO, "its memory file cannot be written: %s", strerror(-err)) : 0;
}

/* ---- mapping ---- */

static int expect_address(long result, uint64_t address)
{
	if (result == (long)address)
		return 0;
	return result < 0 ? (int)result : -EIO;
}

static int map_segment(const struct placing *placing, struct remote_caller *caller, const struct injected_segment *segment)
{
	uint64_t at = placing->image.table->start + segment->vaddr;
	uint64_t flags = MAP_PRIVATE | MAP_FIXED | (segment->is_zero ? MAP_ANONYMOUS : 0);

	return expect_address(REMOTE_CALL(caller, SYS_mmap, at, segment->bytes, segment->prot, flags,
					  segment->is_zero ? UINT64_MAX : (uint64_t)placing->code_fd, segment->offset), at);
}

/*
 * All of it is reserved first, with the room for the books, so that nothing that is there is overwritten: from its file, by
 * whose name one who ejects finds it. The memory is unmapped by the undo only when it is known to be ours.
 */
static int map_code(struct placing *placing, struct remote_caller *caller)
{
	const struct injected_table *table = placing->image.table;
	uint64_t bytes = table->end - table->start;
	int err = expect_address(REMOTE_CALL(caller, SYS_mmap, table->start, bytes, PROT_NONE,
					     MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_NORESERVE, placing->code_fd),
				 table->start);

	placing->is_mapped = !err;
	err = err ?: remote_caller_undo(caller, SYS_munmap, (const uint64_t[6]){ table->start, bytes });
	for (uint32_t i = 0; i < placing->file->segment_nr && !err; i++)
		err = map_segment(placing, caller, &placing->file->segment[i]);
	return err;
}

/* check_room_for_mappings() has looked at all limits that can be read from outside. */
static const char *map_error_text(int err)
{
	return err == -EAGAIN ? "it locks its memory, and its limit leaves no room (mlockall, ulimit -l)" :
	       err == -ENOMEM ? "the system promises no more memory (vm.overcommit_memory)" : strerror(-err);
}

static int refuse_mapping(const struct placing *placing, int err, struct reason *why)
{
	return reason_set(why, err == -EACCES || err == -EPERM ? -ENOTSUP : -EAGAIN, "it may not map %s: %s",
			  things[placing->kind], map_error_text(err));
}

static int place_code(struct placing *placing, struct remote_caller *caller, pid_t pid, struct reason *why)
{
	struct placed *placed = &placing->placed;
	int err = make_remote_file(caller, file_names[placing->kind], MFD_EXEC, &placing->code_fd, why) ?:
		  fill_remote_file(placing->code_fd, pid, fill_code_file, placing, &placed->dev, &placed->inode, why);

	if (err)
		return err;
	err = map_code(placing, caller);
	if (err)
		return refuse_mapping(placing, err, why);
	placed->start = placing->image.table->start;
	placed->end = placing->image.table->end;
	return 0;
}

/* A core has no use for them, and as they are sparse, they have none for huge pages. */
static int map_books(struct placing *placing, struct remote_caller *caller)
{
	uint64_t at = placing->image.table->books_start;
	bool is_apart = has_books_apart(placing->image.table);
	int err = expect_address(REMOTE_CALL(caller, SYS_mmap, at, BOOKS_BYTES, PROT_READ | PROT_WRITE,
					     MAP_SHARED | MAP_NORESERVE | (is_apart ? MAP_FIXED_NOREPLACE : MAP_FIXED),
					     placing->books_fd), at);

	placing->are_books_apart = !err && is_apart;
	if (placing->are_books_apart)
		err = remote_caller_undo(caller, SYS_munmap, (const uint64_t[6]){ at, BOOKS_BYTES });
	if (!err) {
		REMOTE_CALL(caller, SYS_madvise, at, BOOKS_BYTES, MADV_DONTDUMP);
		REMOTE_CALL(caller, SYS_madvise, at, BOOKS_BYTES, MADV_NOHUGEPAGE);
	}
	return err;
}

/* A program that locks all of its memory would be given all pages of the books at once. */
static int place_books(struct placing *placing, struct remote_caller *caller, pid_t pid, uint64_t locked_before,
		       struct reason *why)
{
	uint64_t locked = 0;
	int err = make_remote_file(caller, INJECT_BOOKS_NAME, MFD_NOEXEC_SEAL, &placing->books_fd, why);

	err = err ?: fill_remote_file(placing->books_fd, pid, fill_books_file, placing, &placing->placed.books_dev,
				      &placing->placed.books_inode, why);
	if (err)
		return err;
	if (proc_status(pid, "VmLck", &locked) || locked > locked_before)
		return reason_set(why, -ENOTSUP, "it locks all of its memory (mlockall)");
	err = map_books(placing, caller);
	placing->placed.books_start = err ? 0 : placing->image.table->books_start;
	return err ? refuse_mapping(placing, err, why) : 0;
}

int place(struct placing *placing, struct remote_caller *caller, pid_t pid, struct reason *why)
{
	uint64_t locked = 0;
	int err;

	proc_status(pid, "VmLck", &locked);
	err = place_code(placing, caller, pid, why);
	return err || !placing->has_books ? err : place_books(placing, caller, pid, locked, why);
}

/* The descriptors in the process, by number: two for each. */
static long *placed_fd(struct placing *placing, uint32_t i)
{
	return i % 2 ? &placing[i / 2].books_fd : &placing[i / 2].code_fd;
}

/* If the injector is killed from here on, only the descriptors from number `first` on are closed. */
static int keep_all_but_files(struct placing *placing, uint32_t nr, uint32_t first, struct remote_caller *caller)
{
	int err = 0;

	remote_caller_forget_undos(caller);
	for (uint32_t i = first; i < 2 * nr && !err; i++)
		err = *placed_fd(placing, i) < 0 ? 0 : undo_by_closing(caller, *placed_fd(placing, i));
	return err;
}

int keep_mapped(struct placing *placing, uint32_t nr, struct remote_caller *caller)
{
	return keep_all_but_files(placing, nr, 0, caller);
}

/* ---- pages ---- */

static int exchange_page(const struct placing *placing, struct remote_caller *caller, uint32_t i)
{
	const struct injected_table *table = placing->image.table;
	uint64_t address = table->page[i].address, parked = table->page[i].parked;
	uint64_t copy_at = injected_image_copies(&placing->image) + i * PAGE_BYTES;
	int err = expect_address(REMOTE_CALL(caller, SYS_mremap, address, PAGE_BYTES, PAGE_BYTES,
					     MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, parked), parked);

	if (err)
		return err;
	err = expect_address(REMOTE_CALL(caller, SYS_mmap, address, PAGE_BYTES, PROT_READ | PROT_EXEC,
					 MAP_PRIVATE | MAP_FIXED, placing->code_fd, copy_at), address);
	if (err)
		give_page_back(caller, address, parked);
	return err;
}

int exchange_pages(struct placing *placing, struct remote_caller *caller, struct reason *why)
{
	int err = 0;

	for (uint32_t i = 0; i < placing->image.table->page_nr && !err; i++) {
		err = exchange_page(placing, caller, i);
		placing->exchanged_nr += !err;
	}
	if (!err)
		return 0;
	return reason_set(why, -ENOTSUP, "the pages of %s may not be exchanged: %s", placing->path, strerror(-err));
}

/* ---- jumps ---- */

/* The kernel writes the word at once, whatever happens to this process. It lies in one page. */
static int write_jump(pid_t tid, uint64_t at, const uint8_t jump[ENTRY_JUMP_BYTES])
{
	uint64_t end = PAGE_OF(at) + PAGE_BYTES, from = at + sizeof(long) <= end ? at : end - sizeof(long);
	long word;

	errno = 0;
	word = ptrace(PTRACE_PEEKTEXT, tid, (void *)from, NULL);
	if (errno)
		return -errno;
	memcpy((uint8_t *)&word + (at - from), jump, ENTRY_JUMP_BYTES);
	return ptrace(PTRACE_POKETEXT, tid, (void *)from, (void *)word) ? -errno : 0;
}

int write_jumps(const struct placing *placing, const struct remote_caller *caller, struct reason *why)
{
	const struct injected_table *table = placing->image.table;
	uint8_t jump[ENTRY_JUMP_BYTES];
	int err = 0;

	for (uint64_t i = 0; i < table->function_nr && !err; i++) {
		err = injected_jump(table, i, jump) ? write_jump(caller->thread->tid, table->function[i].entry, jump) : -EIO;
		pass_moment("a jump written");
	}
	return err ? reason_set(why, -ENOTSUP, "the code of %s may not be changed: %s", placing->path, strerror(-err)) : 0;
}

/* ---- words ---- */

/* As with a jump, the kernel writes it at once. */
int put_word(pid_t tid, uint64_t address, uint64_t word)
{
	return ptrace(PTRACE_POKEDATA, tid, (void *)address, (void *)word) ? -errno : 0;
}

/*
 * A forked child finds 0 there, so its hooks leave the books alone. This is also the call from which on the hooks stay mapped
 * (keep_mapped()).
 */
static int switch_on(const struct placing *placing, struct remote_caller *caller)
{
	const uint64_t on = 1, at = placing->image.table->on;
	int err = REMOTE_CALL(caller, SYS_madvise, at, PYTHON_HOOKS_ON_BYTES, MADV_WIPEONFORK);

	return err ?: pwrite(caller->mem_fd, &on, sizeof(on), at) == sizeof(on) ? 0 : -EIO;
}

int switch_hooks_on(const struct placing *placing, struct remote_caller *caller, struct reason *why)
{
	int err = placing->has_books ? switch_on(placing, caller) : 0;

	return err ? reason_set(why, -ENOTSUP, "forked children would write its books: %s", strerror(-err)) : 0;
}

int write_words(struct placing *placing, struct remote_caller *caller, struct reason *why)
{
	const struct injected_table *table = placing->image.table;
	int err = 0;

	while (placing->written_nr < table->word_nr && !err) {
		uint32_t i = placing->written_nr;

		err = put_word(caller->thread->tid, table->word[i].address, table->word[i].put);
		placing->written_nr += !err;
		pass_moment("a word written");
	}
	return err ? reason_set(why, -ENOTSUP, "the tables of %s may not be changed: %s", placing->path, strerror(-err)) : 0;
}

bool unwrite_words(struct placing *placing, const struct remote_caller *caller)
{
	const struct injected_table *table = placing->image.table;

	for (; placing->written_nr; placing->written_nr--) {
		uint32_t i = placing->written_nr - 1;

		if (put_word(caller->thread->tid, table->word[i].address, table->word[i].was))
			return false;
	}
	return true;
}

/* ---- the way back ---- */

int give_page_back(struct remote_caller *caller, uint64_t address, uint64_t parked)
{
	int err = expect_address(REMOTE_CALL(caller, SYS_mremap, parked, PAGE_BYTES, PAGE_BYTES,
					     MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, address), address);

	/* If that fails, the file's page stays mapped there a second time. */
	if (!err)
		REMOTE_CALL(caller, SYS_mmap, parked, PAGE_BYTES, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, UINT64_MAX);
	return err;
}

bool unexchange_pages(struct placing *placing, struct remote_caller *caller)
{
	const struct injected_table *table = placing->image.table;

	for (; placing->exchanged_nr; placing->exchanged_nr--) {
		uint32_t i = placing->exchanged_nr - 1;

		if (give_page_back(caller, table->page[i].address, table->page[i].parked))
			return false;
	}
	return true;
}

static bool unmap_placed(struct placing *placing, struct remote_caller *caller)
{
	const struct injected_table *table = placing->image.table;

	placing->placed.start = placing->placed.end = 0;
	if (placing->are_books_apart && REMOTE_CALL(caller, SYS_munmap, table->books_start, BOOKS_BYTES))
		return false;
	return !placing->is_mapped || !REMOTE_CALL(caller, SYS_munmap, table->start, table->end - table->start);
}

bool end_placing(struct placing *placing, uint32_t nr, struct remote_caller *caller, bool unmaps)
{
	bool is_good = !keep_mapped(placing, nr, caller);

	for (uint32_t i = 0; i < nr && unmaps; i++)
		is_good &= unmap_placed(&placing[i], caller);
	for (uint32_t i = 0; i < 2 * nr; i++) {
		if (*placed_fd(placing, i) < 0)
			continue;
		is_good &= !keep_all_but_files(placing, nr, i + 1, caller); /* no number is closed twice */
		is_good &= !REMOTE_CALL(caller, SYS_close, *placed_fd(placing, i));
		*placed_fd(placing, i) = -1;
	}
	return is_good;
}
