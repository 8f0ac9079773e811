// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "java/agent_load.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/idmap.h"
#include "base/privileges.h"
#include "base/reason.h"
#include "helper/helper.h"
#include "java/attach.h"
#include "java/samples.h"
#include "process/proc.h"

__asm__(".pushsection .rodata\n"
	".balign 16\n"
	"java_agent_start:\n"
	".incbin \"liballocsnap-java.so\"\n"
	"java_agent_end:\n"
	".popsection\n");

extern const uint8_t java_agent_start[], java_agent_end[];

/* ---- the agent's file ---- */

#define AGENT_PREFIX ".allocsnap-java-"
#define AGENT_NAME_MAX 64

/* The dynamic loader knows a library by its path: the same agent under the same path is not loaded twice. */
static void begin_agent_name(char name[AGENT_NAME_MAX])
{
	uint64_t hash = hash_bytes(java_agent_start, java_agent_end - java_agent_start, 0);

	snprintf(name, AGENT_NAME_MAX, "%s%016" PRIx64 "-", AGENT_PREFIX, hash);
}

static bool is_agent_name(const char *text, const char *begin)
{
	size_t bytes = strlen(begin);

	return !strncmp(text, begin, bytes) && strspn(text + bytes, "0123456789abcdef") == JAVA_TOKEN_BYTES &&
	       !strncmp(text + bytes + JAVA_TOKEN_BYTES, ".so", 3);
}

static void new_agent_name(const char *token, char name[AGENT_NAME_MAX])
{
	char begin[AGENT_NAME_MAX];

	begin_agent_name(begin);
	snprintf(name, AGENT_NAME_MAX, "%.40s%.*s.so", begin, JAVA_TOKEN_BYTES, token);
}

/* The name under which it has the agent already, or a new one. Where its root is another one, the folder has another path here. */
static void choose_agent_name(pid_t pid, const char *token, char name[AGENT_NAME_MAX])
{
	FILE *maps = proc_open(pid, "maps");
	char begin[AGENT_NAME_MAX], *text = NULL, *slash;
	struct maps_line line;
	size_t alloc = 0;

	begin_agent_name(begin);
	new_agent_name(token, name);
	while (maps && getline(&text, &alloc, maps) > 0) {
		slash = maps_parse_line(text, &line) ? strrchr(line.path, '/') : NULL;
		if (slash && is_agent_name(slash + 1, begin))
			snprintf(name, AGENT_NAME_MAX, "%.*s", (int)strlen(name), slash + 1);
	}
	free(text);
	if (maps)
		fclose(maps);
}

/* Opening a device does something, so it is certain first that this is a plain file. follow: 0, or O_NOFOLLOW. */
static int open_plain_file(int dir_fd, const char *name, int follow, int flags)
{
	int at = openat(dir_fd, name, O_PATH | O_CLOEXEC | follow), fd = -1;
	char path[32];
	struct stat st;

	if (at < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	if (!fstat(at, &st) && S_ISREG(st.st_mode))
		fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	close(at);
	return fd;
}

/* An agent's file stays where its recorder and its helper were killed; then no one has its lock. */
static void remove_left_agents(int tmp_fd)
{
	int dir_fd = openat(tmp_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd;
	DIR *dir = dir_fd < 0 ? NULL : fdopendir(dir_fd);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, AGENT_PREFIX, strlen(AGENT_PREFIX)))
			continue;
		fd = open_plain_file(tmp_fd, entry->d_name, O_NOFOLLOW, O_RDONLY);
		if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
			unlinkat(tmp_fd, entry->d_name, 0);
		if (fd >= 0)
			close(fd);
	}
	if (dir)
		closedir(dir);
	else if (dir_fd >= 0)
		close(dir_fd);
}

/* *ret_fd has the lock of the file. */
static int write_agent(const struct jvm *jvm, int tmp_fd, const char *name, int *ret_fd)
{
	size_t bytes = java_agent_end - java_agent_start;
	int fd = jvm_create_file(jvm, tmp_fd, name, 0500), err;

	if (fd < 0)
		return fd;
	err = flock(fd, LOCK_EX | LOCK_NB) ? -errno : 0;
	if (!err && write(fd, java_agent_start, bytes) != (ssize_t)bytes)
		err = -ENOSPC;
	if (err) {
		unlinkat(tmp_fd, name, 0);
		close(fd);
		return err;
	}
	*ret_fd = fd;
	return 0;
}

/* ---- loading ---- */

static int check_result(const char *text, struct reason *why)
{
	static const char *const words[] = {
		[JAVA_AGENT_BUSY] = "another recording takes samples of its allocations, or one has just ended",
		[JAVA_AGENT_TAKEN] = "another agent takes samples of its allocations",
		[JAVA_AGENT_NO_MEMORY] = "the agent gets no memory file (ulimit -f, a filter of system calls)",
		[JAVA_AGENT_FAILED] = "the virtual machine refuses what the agent needs",
	};
	unsigned int code;

	if (sscanf(text, "return code: %u", &code) != 1)
		return reason_set(why, -ENOTSUP, "it does not load the agent: %.*s", (int)strcspn(text, "\n"), text);
	if (code == JAVA_AGENT_WORKS)
		return 0;
	return reason_set(why, code == JAVA_AGENT_BUSY ? -EBUSY : -ENOTSUP, "%s",
			  code <= JAVA_AGENT_FAILED ? words[code] : "the agent has failed");
}

/* Opens the file with that name among its descriptors, which may be any other by now: the reader checks what it is. */
static int open_samples(pid_t pid, const char *token, struct reason *why)
{
	char wanted[96], path[64], link[128];
	int fd = -ENOENT;
	struct dirent *entry;
	DIR *dir;

	snprintf(wanted, sizeof(wanted), "/memfd:%s%.*s (deleted)", JAVA_SAMPLES_NAME, JAVA_TOKEN_BYTES, token);
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && fd < 0 && (entry = readdir(dir))) {
		ssize_t bytes = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		link[bytes > 0 ? bytes : 0] = '\0';
		if (!strcmp(link, wanted))
			fd = open_plain_file(dirfd(dir), entry->d_name, 0, O_RDWR);
	}
	if (dir)
		closedir(dir);
	return fd < 0 ? reason_set(why, -ENOENT, "the agent was loaded, and its memory file is not found") : fd;
}

static int make_token(char token[JAVA_TOKEN_BYTES + 1])
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	snprintf(token, JAVA_TOKEN_BYTES + 1, "%016" PRIx64, random);
	return 0;
}

/* If something lies at its name, it gets another one: the same agent may be there twice, and one of them works. */
static int write_named_agent(const struct jvm *jvm, int tmp_fd, const char *token, char name[AGENT_NAME_MAX], int *ret_fd, struct reason *why)
{
	int err;

	remove_left_agents(tmp_fd);
	choose_agent_name(jvm->pid, token, name);
	err = write_agent(jvm, tmp_fd, name, ret_fd);
	if (err == -EEXIST) {
		new_agent_name(token, name);
		err = write_agent(jvm, tmp_fd, name, ret_fd);
	}
	return err ? reason_set(why, err, "the agent cannot be written to its /tmp: %s", strerror(-err)) : 0;
}

static int load_from_tmp(const struct jvm *jvm, int tmp_fd, const char *token, uint64_t interval, uint64_t until_ns, struct reason *why)
{
	char name[AGENT_NAME_MAX], path[AGENT_NAME_MAX + 8], options[64], *answer = NULL;
	int lock_fd, err = write_named_agent(jvm, tmp_fd, token, name, &lock_fd, why);

	if (err)
		return err;
	snprintf(path, sizeof(path), "/tmp/%s", name);
	snprintf(options, sizeof(options), "%s,%" PRIu64, token, interval);
	err = jvm_ask(jvm, tmp_fd, &(struct jvm_command){ "load", { path, "true", options }, until_ns }, &answer, why);
	unlinkat(tmp_fd, name, 0);
	close(lock_fd);
	err = err ?: check_result(answer, why);
	free(answer);
	return err;
}

static int collect_heap(pid_t pid, uint64_t until_ns, struct reason *why)
{
	char *answer = NULL;
	struct jvm jvm;
	int err = jvm_look(pid, &jvm, why), tmp_fd = err ?: jvm_open_tmp(&jvm, why);

	if (tmp_fd < 0)
		return tmp_fd;
	err = jvm_ask(&jvm, tmp_fd, &(struct jvm_command){ "jcmd", { "GC.run" }, until_ns }, &answer, why);
	close(tmp_fd);
	if (!err && *answer) /* it has something to say only if it has not collected */
		err = reason_set(why, -ENOTSUP, "%.*s", (int)strcspn(answer, "\n"), answer);
	free(answer);
	return err;
}

/* ---- the helper ---- */

#define PATIENCE_NS (60 * SECOND_NS)
#define MARGIN_NS (10 * SECOND_NS)

enum { LOAD_ORDER, LOAD_ANSWER };


struct load_order {
	int32_t pid;
	uint64_t interval; /* 0: no agent, but a collection of the whole heap */
};

struct load_answer {
	int32_t err;
	struct java_answer answer;
	struct reason why;
};

struct java_loader {
	struct helper helper;
	pid_t asked; /* the process of the order that has no answer yet; 0: none */
	bool is_lost; /* no answer has come in time: the next one would be of the order before */
};

/* A descriptor, or a negative errno. */
static int load_agent(const struct load_order *order, uint64_t until_ns, struct load_answer *ret)
{
	char token[JAVA_TOKEN_BYTES + 1];
	struct reason *why = &ret->why;
	struct jvm jvm;
	int err = jvm_look(order->pid, &jvm, why) ?: jvm_check_agent(&jvm, why) ?: make_token(token), tmp_fd;

	if (!err && proc_clock_ahead(order->pid, &ret->answer.ahead_ns))
		err = reason_set(why, -ENOTSUP, "its clock is not known: its children would have another time namespace");
	if (err)
		return err;
	tmp_fd = jvm_open_tmp(&jvm, why);
	if (tmp_fd < 0)
		return tmp_fd;
	ret->answer.version = jvm.version;
	ret->answer.keeps_young = jvm.keeps_young;
	err = load_from_tmp(&jvm, tmp_fd, token, order->interval, until_ns, why);
	close(tmp_fd);
	return err ?: open_samples(order->pid, token, why);
}

/* The samples are not wanted any more. */
static void stop_agent(int fd)
{
	const struct java_orders orders = { .stops = 1 };

	if (fd >= 0 && pwrite(fd, &orders, sizeof(orders), JAVA_ORDERS_AT) < 0)
		return; /* it ends by itself, without a new lease */
}

static int serve_loads(void *self, int recorder)
{
	const struct channel channel = { .fd = CHILD_FD };
	struct load_order order;

	(void)self;
	while (child_has_order(recorder) && !channel__answer(&channel, LOAD_ORDER, &order, sizeof(order), NULL)) {
		struct load_answer answer = {};
		uint64_t until_ns = monotonic_now_ns() + PATIENCE_NS;
		int fd = order.interval ? load_agent(&order, until_ns, &answer) : -1;

		answer.err = !order.interval ? collect_heap(order.pid, until_ns, &answer.why) : fd < 0 ? fd : 0;
		if (channel__send(&channel, LOAD_ANSWER, &(struct iovec){ &answer, sizeof(answer) }, 1, fd))
			stop_agent(fd);
		if (fd >= 0)
			close(fd);
	}
	return 0;
}

/* For the /tmp of the process, its descriptors, the signal, and the user of the connection. */
static int keep_rights_to_load(void)
{
	capabilities_keep(CAPABILITY(CAP_DAC_OVERRIDE) | CAPABILITY(CAP_DAC_READ_SEARCH) | CAPABILITY(CAP_FOWNER) |
			  CAPABILITY(CAP_KILL) | CAPABILITY(CAP_SETGID) | CAPABILITY(CAP_SETUID) | CAPABILITY(CAP_SYS_PTRACE));
	return 0;
}

struct java_loader *java_loader__open(void)
{
	struct java_loader *loader = calloc(1, sizeof(*loader));
	int err = loader ? helper__start(&(struct helper_plan){
		.name = "allocsnap-java",
		.shown = "allocsnap: talks to Java virtual machines",
		.has_own_session = true,
		.give_up = keep_rights_to_load,
		.work = serve_loads,
	}, &loader->helper) : -ENOMEM;

	if (!err)
		return loader;
	free(loader);
	errno = -err;
	return NULL;
}

/* One that is at work removes its files first, and then ends by itself. */
void java_loader__close(struct java_loader *loader)
{
	if (loader && loader->asked) {
		channel__close(&loader->helper.channel);
		close(loader->helper.end_fd);
	} else if (loader) {
		helper__end(&loader->helper, SIGKILL);
	}
	free(loader);
}

static int lose_loader(struct java_loader *loader, int err, struct reason *why)
{
	loader->is_lost = true;
	return reason_set(why, err, "the helper that talks to Java virtual machines: %s", strerror(-err));
}

int java_loader__ask(struct java_loader *loader, pid_t pid, uint64_t interval, struct reason *why)
{
	const struct load_order order = { .pid = pid, .interval = interval };
	struct java_answer unwanted;
	struct reason unsaid;
	int err = loader->asked ? java_loader__take(loader, loader->asked, &unwanted, &unsaid) : -ENOENT;

	if (err == -EAGAIN)
		return -EAGAIN;
	if (!err && unwanted.fd >= 0) {
		stop_agent(unwanted.fd);
		close(unwanted.fd);
	}
	if (loader->is_lost)
		return lose_loader(loader, -EPIPE, why);
	loader->helper.channel.until_ns = monotonic_now_ns() + PATIENCE_NS + MARGIN_NS;
	err = channel__send(&loader->helper.channel, LOAD_ORDER, &(struct iovec){ (void *)&order, sizeof(order) }, 1, -1);
	if (err)
		return lose_loader(loader, err, why);
	loader->asked = pid;
	return 0;
}

int java_loader__take(struct java_loader *loader, pid_t pid, struct java_answer *ret, struct reason *why)
{
	struct load_answer answer = {};
	int fd = -1, err;

	if (loader->asked != pid)
		return reason_set(why, -ENOENT, "it was asked nothing");
	if (channel__is_quiet(&loader->helper.channel) && monotonic_now_ns() < loader->helper.channel.until_ns)
		return -EAGAIN;
	loader->asked = 0;
	err = channel__answer(&loader->helper.channel, LOAD_ANSWER, &answer, sizeof(answer), &fd);
	if (err)
		return lose_loader(loader, err, why);
	*ret = answer.answer;
	ret->fd = fd;
	return answer.err ? reason_set(why, answer.err, "%s", *answer.why.text ? answer.why.text : strerror(-answer.err)) : 0;
}
