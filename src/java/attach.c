// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "java/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "helper/helper.h"

#define LOOK_AGAIN_MS 20

/* ---- its /tmp ---- */

/* Links in its file system stay in its file system. */
static int open_in_root(const struct jvm *jvm, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	char root[32];
	int root_fd, fd, err;

	snprintf(root, sizeof(root), "/proc/%d/root", jvm->pid);
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -errno;
	fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	err = -errno;
	close(root_fd);
	return fd < 0 ? err : fd;
}

int jvm_open_tmp(const struct jvm *jvm, struct reason *why)
{
	int fd = open_in_root(jvm, "tmp");
	struct stat st;

	if (fd < 0)
		return reason_set(why, fd, "its /tmp cannot be opened: %s", strerror(-fd));
	if (!fstat(fd, &st) && (st.st_uid == 0 || st.st_uid == jvm->uid) && (!(st.st_mode & 022) || st.st_mode & S_ISVTX))
		return fd;
	close(fd);
	return reason_set(why, -ENOTSUP, "other users could exchange files in its /tmp (no sticky bit, or another owner)");
}

/*
 * The file is its user's from the begin: in a user namespace root may own nothing, and cannot give away what is not made yet. The kernel
 * takes the rights over files away with the user, and gives them back.
 */
int jvm_create_file(const struct jvm *jvm, int tmp_fd, const char *name, mode_t mode)
{
	uid_t uid = setfsuid(jvm->uid);
	gid_t gid = setfsgid(jvm->gid);
	int fd = openat(tmp_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode), err = -errno;

	setfsgid(gid);
	setfsuid(uid);
	return fd < 0 ? err : fd;
}

/* ---- the connection, made by a helper that has become the user of the process ---- */

enum { CONNECT_ORDER, CONNECT_ANSWER };

/* The rights of root go with the user. It keeps no further groups. */
static int become_user(const struct jvm *jvm)
{
	return setgroups(0, NULL) || setresgid(jvm->gid, jvm->gid, jvm->gid) || setresuid(jvm->uid, jvm->uid, jvm->uid) ? -errno : 0;
}

/*
 * The order carries a descriptor of the socket's file, the answer one of the connection. Other processes of the user may not look
 * into this one. The kernel has forgotten the signal at its parent's end with the user.
 */
static int connect_as_user(void *jvm, int recorder)
{
	const struct channel channel = { .fd = CHILD_FD };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct message order;
	int at, fd = -1, err;

	(void)recorder;
	if (channel__head(&channel, &order, &at) || at < 0)
		return 127;
	err = become_user(jvm);
	if (!err && (prctl(PR_SET_DUMPABLE, 0) || prctl(PR_SET_PDEATHSIG, SIGKILL)))
		err = -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", at);
	fd = err ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (!err && (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address))))
		err = -errno;
	channel__send(&channel, CONNECT_ANSWER, &(struct iovec){ &err, sizeof(err) }, 1, err ? -1 : fd);
	return 0;
}

static int hand_over_connection(const struct jvm *jvm, int at, uint64_t until_ns)
{
	struct helper helper;
	int fd = -1, answer = 0;
	int err = helper__start(&(struct helper_plan){
		.name = "allocsnap-jvm",
		.shown = "allocsnap: connects to a Java virtual machine, as its user",
		.is_killed = true,
		.work = connect_as_user,
		.self = (void *)jvm,
	}, &helper);

	if (err)
		return err;
	helper.channel.until_ns = until_ns;
	err = channel__send(&helper.channel, CONNECT_ORDER, NULL, 0, at) ?:
	      channel__answer(&helper.channel, CONNECT_ANSWER, &answer, sizeof(answer), &fd);
	helper__end(&helper, SIGKILL);
	err = err ?: answer < 0 ? answer : 0;
	return err ?: fd < 0 ? -EPROTO : fd;
}

/* A descriptor, or a negative errno. -ENOENT, -ECONNREFUSED: nothing listens there. */
static int connect_to_jvm(const struct jvm *jvm, int tmp_fd, uint64_t until_ns)
{
	struct stat st;
	char name[32];
	int at, fd;

	snprintf(name, sizeof(name), ".java_pid%d", jvm->own_pid);
	at = openat(tmp_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (at < 0)
		return -errno;
	fd = fstat(at, &st) || !S_ISSOCK(st.st_mode) || (st.st_uid && st.st_uid != jvm->uid) ? -EPERM :
	     hand_over_connection(jvm, at, until_ns);
	close(at);
	return fd;
}

/* ---- making it listen ---- */

/* It prints its threads at a SIGQUIT, unless there is this file of its own user. One may have been left there. */
static int make_attach_file(const struct jvm *jvm, int tmp_fd, const char *name, bool *ret_is_made, struct reason *why)
{
	int fd = jvm_create_file(jvm, tmp_fd, name, 0600);
	struct stat st;

	*ret_is_made = fd >= 0;
	if (fd >= 0)
		return close(fd);
	if (fd == -EEXIST && !fstatat(tmp_fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) && st.st_uid == jvm->uid)
		return 0;
	return reason_set(why, fd, "/tmp/%s cannot be made in its file system: %s", name, strerror(-fd));
}

/* All is looked at again, from the thread on that gets the signal: it is there as long as what is read then is true. */
static int send_quit(const struct jvm *jvm, struct reason *why)
{
	struct jvm now = {};
	int err = jvm_look(jvm->pid, &now, why) ?: jvm_check_attach(&now, why) ?: jvm_check_signal(&now, why);

	if (!err && now.own_pid != jvm->own_pid)
		err = reason_set(why, -ESRCH, "it has ended, or another program has begun in it");
	return err ?: jvm_send_quit(&now, why);
}

static int wait_until_it_listens(const struct jvm *jvm, int tmp_fd, uint64_t until_ns, struct reason *why)
{
	int fd;

	while ((fd = connect_to_jvm(jvm, tmp_fd, until_ns)) == -ENOENT || fd == -ECONNREFUSED) {
		if (!jvm_is_there(jvm))
			return reason_set(why, -ESRCH, "it has ended, or another program has begun in it");
		if (monotonic_now_ns() >= until_ns)
			return reason_set(why, -ETIMEDOUT, "it does not answer: it was asked to listen by SIGQUIT, and does not");
		poll(NULL, 0, LOOK_AGAIN_MS);
	}
	return fd;
}

static int begin_to_talk(const struct jvm *jvm, int tmp_fd, uint64_t until_ns, struct reason *why)
{
	int fd = connect_to_jvm(jvm, tmp_fd, until_ns), err;
	bool is_made = false;
	char name[32];

	if (fd != -ENOENT && fd != -ECONNREFUSED)
		return fd;
	snprintf(name, sizeof(name), ".attach_pid%d", jvm->own_pid);
	err = make_attach_file(jvm, tmp_fd, name, &is_made, why) ?: send_quit(jvm, why);
	fd = err ?: wait_until_it_listens(jvm, tmp_fd, until_ns, why);
	if (is_made || fd >= 0) /* one that was left there is of no use any more */
		unlinkat(tmp_fd, name, 0);
	return fd;
}

/* ---- a command ---- */

/* Waits for events. 0, -ETIMEDOUT, or another negative errno. */
static int wait_for(int fd, short events, uint64_t until_ns)
{
	uint64_t now_ns = monotonic_now_ns();
	struct pollfd one = { .fd = fd, .events = events };
	int nr = now_ns < until_ns ? poll(&one, 1, (until_ns - now_ns) / 1000000 + 1) : 0;

	return nr > 0 || (nr < 0 && errno == EINTR) ? 0 : nr ? -errno : -ETIMEDOUT;
}

static int send_text(int fd, const char *text, uint64_t until_ns)
{
	size_t bytes = strlen(text) + 1;
	int err = 0;

	while (bytes && !err) {
		ssize_t sent;

		err = wait_for(fd, POLLOUT, until_ns);
		sent = err ? 0 : send(fd, text, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno != EAGAIN && errno != EINTR)
			err = -errno;
		text += sent > 0 ? sent : 0;
		bytes -= sent > 0 ? sent : 0;
	}
	return err;
}

struct answer {
	char *text;
	size_t text_nr, text_alloc;
};

/* Until it closes the connection. A text that is too long ends it. */
static int receive_jvm_answer(int fd, struct answer *answer, uint64_t until_ns)
{
	ssize_t got = 1;
	int err = 0;

	while (got && !err) {
		err = wait_for(fd, POLLIN, until_ns) ?: array_reserve(&answer->text, &answer->text_alloc, answer->text_nr + 65537);
		got = err ? 0 : recv(fd, answer->text + answer->text_nr, 65536, MSG_DONTWAIT);
		if (got < 0 && errno != EAGAIN && errno != EINTR)
			err = -errno;
		answer->text_nr += got > 0 ? got : 0;
		got = got < 0 ? 1 : got;
		if (answer->text_nr > JVM_ANSWER_MAX)
			err = -EFBIG;
	}
	if (!err)
		answer->text[answer->text_nr] = '\0';
	return err;
}

static int talk(int fd, const struct jvm_command *command, struct answer *answer)
{
	int err = send_text(fd, "1", command->until_ns) ?: send_text(fd, command->name, command->until_ns);

	for (int i = 0; i < JVM_ARGUMENTS; i++)
		err = err ?: send_text(fd, command->argument[i] ?: "", command->until_ns);
	return err ?: receive_jvm_answer(fd, answer, command->until_ns);
}

/* The first line is the status of the command: "0" if it has worked. */
static int check_status(const struct jvm_command *command, char *text, struct reason *why)
{
	size_t status = strcspn(text, "\n");
	char *rest = text + status + (text[status] == '\n');
	int err = 0;

	if (status != 1 || *text != '0')
		err = reason_set(why, -EPROTO, "it refuses the command '%s': %.*s %.*s", command->name, (int)(status < 16 ? status : 16), text,
				 (int)strcspn(rest, "\n") < 200 ? (int)strcspn(rest, "\n") : 200, rest);
	memmove(text, rest, strlen(rest) + 1);
	return err;
}

int jvm_ask(const struct jvm *jvm, int tmp_fd, const struct jvm_command *command, char **ret, struct reason *why)
{
	struct reason why_not = {};
	struct answer answer = {};
	int err = jvm_check_attach(jvm, &why_not), fd = err ?: begin_to_talk(jvm, tmp_fd, command->until_ns, &why_not);

	err = fd < 0 ? fd : 0;

	if (!err) {
		err = talk(fd, command, &answer);
		close(fd);
		if (err == -ETIMEDOUT)
			reason_set(&why_not, err, "it has not answered the command '%s' in time", command->name);
		else if (err == -EFBIG)
			reason_set(&why_not, err, "its answer to '%s' is too long", command->name);
		err = err ?: check_status(command, answer.text, &why_not);
	}
	if (err) {
		free(answer.text);
		return reason_set(why, err, "%s%s", *why_not.text ? why_not.text : "no connection to it: ", *why_not.text ? "" : strerror(-err));
	}
	*ret = answer.text;
	return 0;
}
