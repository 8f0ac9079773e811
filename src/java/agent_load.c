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

/* The name under which it has the agent already, or a new one. */
static void choose_agent_name(pid_t pid, const char *token, char name[AGENT_NAME_MAX])
{
	static const char folder[] = "/tmp/";
	FILE *maps = proc_open(pid, "maps");
	char begin[AGENT_NAME_MAX], *text = NULL;
	struct maps_line line;
	size_t alloc = 0;

	begin_agent_name(begin);
	snprintf(name, AGENT_NAME_MAX, "%.40s%.*s.so", begin, JAVA_TOKEN_BYTES, token);
	while (maps && getline(&text, &alloc, maps) > 0)
		if (maps_parse_line(text, &line) && !strncmp(line.path, folder, strlen(folder)) &&
		    is_agent_name(line.path + strlen(folder), begin))
			snprintf(name, AGENT_NAME_MAX, "%.*s", (int)strlen(name), line.path + strlen(folder));
	free(text);
	if (maps)
		fclose(maps);
}

static int write_agent(int tmp_fd, const char *name, struct reason *why)
{
	size_t bytes = java_agent_end - java_agent_start;
	int fd = openat(tmp_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), err = 0;

	if (fd < 0)
		return reason_set(why, -errno, "the agent cannot be written to its /tmp: %s", strerror(errno));
	if (write(fd, java_agent_start, bytes) != (ssize_t)bytes || fchmod(fd, 0555))
		err = errno ? -errno : -ENOSPC;
	close(fd);
	if (err)
		unlinkat(tmp_fd, name, 0);
	return err ? reason_set(why, err, "the agent cannot be written to its /tmp: %s", strerror(-err)) : 0;
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

/* Opening a device does something, so it is certain first that this is a plain file. */
static int open_plain_file(int dir_fd, const char *name)
{
	int at = openat(dir_fd, name, O_PATH | O_CLOEXEC), fd = -1;
	char path[32];
	struct stat st;

	if (at < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	if (!fstat(at, &st) && S_ISREG(st.st_mode))
		fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	close(at);
	return fd;
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
			fd = open_plain_file(dirfd(dir), entry->d_name);
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

static int load_from_tmp(const struct jvm *jvm, int tmp_fd, const char *token, uint64_t interval, uint64_t until_ns, struct reason *why)
{
	char name[AGENT_NAME_MAX], path[AGENT_NAME_MAX + 8], options[64], *answer = NULL;
	int err;

	choose_agent_name(jvm->pid, token, name);
	snprintf(path, sizeof(path), "/tmp/%s", name);
	snprintf(options, sizeof(options), "%s,%" PRIu64, token, interval);
	err = write_agent(tmp_fd, name, why);
	if (err)
		return err;
	err = jvm_ask(jvm, tmp_fd, &(struct jvm_command){ "load", { path, "true", options }, until_ns }, &answer, why);
	unlinkat(tmp_fd, name, 0);
	err = err ?: check_result(answer, why);
	free(answer);
	return err;
}

/* A descriptor, or a negative errno. */
static int load_agent(pid_t pid, uint64_t interval, uint64_t until_ns, uint32_t *ret_version, struct reason *why)
{
	char token[JAVA_TOKEN_BYTES + 1];
	struct jvm jvm;
	int err = jvm_look(pid, &jvm, why) ?: jvm_check_agent(&jvm, why) ?: make_token(token), tmp_fd;

	if (err)
		return err;
	tmp_fd = jvm_open_tmp(&jvm, why);
	if (tmp_fd < 0)
		return tmp_fd;
	*ret_version = jvm.version;
	err = load_from_tmp(&jvm, tmp_fd, token, interval, until_ns, why);
	close(tmp_fd);
	return err ?: open_samples(pid, token, why);
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
	uint32_t version;
	struct reason why;
};

struct java_loader {
	struct helper helper;
};

static int serve_loads(void *self, int recorder)
{
	const struct channel channel = { .fd = CHILD_FD };
	struct load_order order;

	(void)self;
	while (child_has_order(recorder) && !channel__answer(&channel, LOAD_ORDER, &order, sizeof(order), NULL)) {
		struct load_answer answer = {};
		uint64_t until_ns = monotonic_now_ns() + PATIENCE_NS;
		int fd = order.interval ? load_agent(order.pid, order.interval, until_ns, &answer.version, &answer.why) : -1;

		answer.err = !order.interval ? collect_heap(order.pid, until_ns, &answer.why) : fd < 0 ? fd : 0;
		channel__send(&channel, LOAD_ANSWER, &(struct iovec){ &answer, sizeof(answer) }, 1, fd);
		if (fd >= 0)
			close(fd);
	}
	return 0;
}

/* For the /tmp of the process, its descriptors, the signal, and the user of the connection. */
static int keep_rights_to_load(void)
{
	capabilities_keep(CAPABILITY(CAP_CHOWN) | CAPABILITY(CAP_DAC_OVERRIDE) | CAPABILITY(CAP_DAC_READ_SEARCH) | CAPABILITY(CAP_FOWNER) |
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

void java_loader__close(struct java_loader *loader)
{
	if (loader)
		helper__end(&loader->helper, SIGKILL);
	free(loader);
}

static int order_load(struct java_loader *loader, pid_t pid, uint64_t interval, struct load_answer *answer, int *ret_fd, struct reason *why)
{
	const struct load_order order = { .pid = pid, .interval = interval };
	int err;

	*ret_fd = -1;
	loader->helper.channel.until_ns = monotonic_now_ns() + PATIENCE_NS + MARGIN_NS;
	err = channel__send(&loader->helper.channel, LOAD_ORDER, &(struct iovec){ (void *)&order, sizeof(order) }, 1, -1) ?:
	      channel__answer(&loader->helper.channel, LOAD_ANSWER, answer, sizeof(*answer), ret_fd);
	if (!err && !answer->err && interval && *ret_fd < 0)
		err = -EPROTO;
	if (err)
		return reason_set(why, err, "the helper that talks to Java virtual machines: %s", strerror(-err));
	return answer->err ? reason_set(why, answer->err, "%s", *answer->why.text ? answer->why.text : strerror(-answer->err)) : 0;
}

int java_loader__load(struct java_loader *loader, pid_t pid, uint64_t interval, int *ret_fd, uint32_t *ret_version, struct reason *why)
{
	struct load_answer answer = {};
	int err = order_load(loader, pid, interval, &answer, ret_fd, why);

	*ret_version = answer.version;
	return err;
}

int java_loader__collect(struct java_loader *loader, pid_t pid, struct reason *why)
{
	struct load_answer answer = {};
	int fd;

	return order_load(loader, pid, 0, &answer, &fd, why);
}
