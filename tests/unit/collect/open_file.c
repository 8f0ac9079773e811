// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/open_file.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file_fixture.h"
#include "helper/helper.h"
#include "sandbox_fixture.h"

#define TEXT "what the file has"
#define SILENT_DEVICE 41
#define OTHER_DEVICE 42

static const struct file_system disk = { .type = "ext4", .flags = FILE_SYSTEM_HAS_DISK, .device = 7 };
static const struct file_system fuse_disk = { .type = "fuseblk", .flags = FILE_SYSTEM_HAS_DISK }; /* no device */
static const struct file_system overlay = { .type = "overlay", .device = OTHER_DEVICE };
static const struct file_system nfs = { .type = "nfs4", .device = SILENT_DEVICE, .inode = 17 };
static const struct file_system not_known = { .type = "yesterdayfs", .device = OTHER_DEVICE };

/* The answers of log_info() for an open file and for one that a worker maps; the latter is set before the worker starts. */
static const struct file_system *of_open, *of_mapped;

static int log_info(int, struct file_system *asked)
{
	const struct file_system *of = asked->address ? of_mapped : of_open;

	if (of)
		*asked = *of;
	return of ? 0 : -EINVAL;
}

static struct file_opener *opener;

static void begin(const struct file_system *open, const struct file_system *mapped)
{
	of_open = open;
	of_mapped = mapped;
	opener = file_opener__new(log_info);
	cr_assert(opener);
}

static void enter(void)
{
	files_enter();
	put("file", TEXT);
}

static void leave(void)
{
	file_opener__free(opener);
	cr_expect(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "no child is left");
	files_leave();
}

TestSuite(open_file, .init = enter, .fini = leave, .timeout = 600);

static struct opened_file opened;

/* errno is as open_file() left it. */
static const struct opened_file *open_path(const char *path)
{
	open_file(opener, open(path, O_PATH | O_CLOEXEC), &opened);
	return &opened;
}

static void expect_text(int fd)
{
	char text[64] = "";

	cr_expect_eq(pread(fd, text, sizeof(text), 0), (ssize_t)strlen(TEXT));
	cr_expect_str_eq(text, TEXT);
}

static void expect_itself(const struct opened_file *opened)
{
	struct stat is, was;

	cr_assert_geq(opened->fd, 0, "%s", strerror(errno));
	cr_assert(!fstat(opened->fd, &is) && !stat("file", &was));
	cr_expect(is.st_ino == was.st_ino && is.st_dev == was.st_dev && !opened->is_copy);
	expect_text(opened->fd);
	close(opened->fd);
}

static void expect_copy(const struct opened_file *opened)
{
	cr_assert_geq(opened->fd, 0, "%s", strerror(errno));
	cr_expect(opened->is_copy && fcntl(opened->fd, F_GET_SEALS) & F_SEAL_WRITE);
	expect_text(opened->fd);
	close(opened->fd);
}

static void expect_error(const struct opened_file *opened, int expected)
{
	cr_expect(opened->fd == -1 && errno == expected, "%s, not %s", strerror(errno),
		  strerror(expected));
}

static pid_t worker(void)
{
	return only_child_of(only_child_of(getpid()));
}

Test(open_file, on_a_disk_is_opened_directly)
{
	begin(&disk, NULL);
	expect_itself(open_path("file"));
	cr_expect_str_eq(opened.type, "ext4");
}

Test(open_file, on_a_network_file_system_is_copied)
{
	begin(&nfs, NULL);
	expect_copy(open_path("file"));
	cr_expect_str_eq(opened.type, "nfs4");
	cr_expect_eq(opened.inode, 17);
	cr_expect_eq(opened.dev, 0ull << 32 | SILENT_DEVICE);
}

Test(open_file, on_an_unknown_file_system_is_copied)
{
	begin(&not_known, NULL);
	expect_copy(open_path("file"));
}

Test(open_file, on_a_fuse_file_system_is_copied_even_if_it_has_a_disk)
{
	begin(&fuse_disk, NULL);
	expect_copy(open_path("file"));
}

Test(open_file, on_an_overlay_is_treated_like_the_file_below_it)
{
	begin(&overlay, &disk);
	expect_itself(open_path("file"));
	file_opener__free(opener);
	begin(&overlay, &nfs);
	expect_copy(open_path("file"));
	cr_expect_eq(opened.inode, 17, "the lower one's");
}

Test(open_file, of_unknown_origin_is_opened_by_a_worker)
{
	begin(NULL, NULL);
	expect_itself(open_path("file"));
	cr_expect_gt(worker(), 0);
}

/* If that file system hangs, so does the recording. */
Test(open_file, on_our_own_file_system_is_opened_directly)
{
	begin(&nfs, NULL);
	file_opener__use(opener, -1);
	expect_itself(open_path("file"));
}

Test(open_file, must_be_regular)
{
	static const struct file_system *const of[] = { &disk, &nfs, &overlay };
	cr_assert(!mkfifo("fifo", 0600));
	begin(NULL, NULL);
	for (int i = 0; i < 3; i++) {
		of_open = of[i];
		expect_error(open_path("fifo"), ENODEV);
		expect_error(open_path("/dev/null"), ENODEV);
		expect_error(open_path("missing"), ENOENT);
	}
}

/* The kernel lets its owner keep it for 45 s after the call. */
Test(open_file, with_a_lease_is_not_waited_for)
{
	const int fd = open("file", O_RDWR | O_CLOEXEC);
	signal(SIGIO, SIG_IGN);
	cr_assert_eq(fcntl(fd, F_SETLEASE, F_WRLCK), 0, "%s", strerror(errno));
	begin(&disk, NULL);
	expect_error(open_path("file"), EWOULDBLOCK);
	cr_expect_eq(fcntl(fd, F_GETLEASE), F_RDLCK, "the owner is not asked to give it up");
	close(fd);
}

Test(open_file, that_is_too_large_is_not_copied)
{
	cr_assert(!truncate("file", OPEN_COPY_MAX + 1));
	begin(&nfs, NULL);
	expect_error(open_path("file"), EFBIG);
}

Test(open_file, that_hangs_is_abandoned_with_its_worker)
{
	pid_t stopped;

	begin(&nfs, NULL);
	expect_copy(open_path("file"));
	stopped = worker();
	cr_assert(!kill(stopped, SIGSTOP));
	expect_error(open_path("file"), ETIMEDOUT);
	cr_expect(opened.is_first_silence);
	expect_error(open_path("file"), ETIMEDOUT);
	cr_expect(!opened.is_first_silence);
	cr_expect_eq(worker(), stopped, "it is left alone: no other worker has been started");

	of_open = &not_known;
	expect_copy(open_path("file"));
	cr_assert(!kill(stopped, SIGKILL));
}

Test(open_file, works_after_a_worker_was_killed)
{
	pid_t killed;

	begin(&nfs, NULL);
	for (int i = 0; i < 3; i++) {
		expect_copy(open_path("file"));
		killed = worker();
		cr_assert(!kill(killed, SIGKILL));
		wait_until_dead(killed);
		wait_until_in_call(only_child_of(getpid()), SYS_poll); /* it has closed its copy of the worker's socket */
	}
}

Test(open_file, is_opened_only_on_a_disk_without_the_process_that_starts_workers)
{
	pid_t pid;

	begin(&nfs, NULL);
	pid = only_child_of(getpid());
	cr_expect(!helper__has_ended(file_opener__helper(opener)));
	cr_assert(!kill(pid, SIGKILL));
	cr_assert_eq(waitid(P_PID, pid, &(siginfo_t){}, WNOWAIT | WEXITED), 0);
	cr_expect(helper__has_ended(file_opener__helper(opener)));
	expect_error(open_path("file"), EPIPE);
	of_open = &disk;
	expect_itself(open_path("file"));
}

/* A name that the kernel does not have at hand is looked for by a worker. */
Test(open_file, below_a_folder_is_opened_by_a_worker)
{
	begin(&disk, NULL);
	cr_assert(!symlink("/file", "link"));
	open_file(opener, open_below(opener, ".", "/link"), &opened);
	expect_itself(&opened);
	cr_expect(open_below(opener, ".", "/../missing") < 0 && errno == ENOENT);
	cr_assert_gt(worker(), 0);

	cr_assert(!kill(worker(), SIGSTOP));
	cr_expect(open_below(opener, ".", "/another") < 0 && errno == ETIMEDOUT);
	cr_expect(open_below(opener, ".", "/a_third") < 0 && errno == ETIMEDOUT, "left alone");
	open_file(opener, open_below(opener, ".", "/file"), &opened);
	expect_itself(&opened);
	cr_assert(!kill(worker(), SIGKILL));
}
