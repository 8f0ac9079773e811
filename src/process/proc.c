// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/proc.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cgroup_path.h"
#include "base/clock.h"
#include "base/units.h"
#include "shared/bpf_types.h"

/* The kernel's own texts are far shorter. Text that a process controls (environ) has no other bound. */
#define PROC_FILE_MAX (8u << 20)

static void proc_path(char path[PATH_MAX], pid_t pid, const char *name)
{
	if (pid)
		snprintf(path, PATH_MAX, "/proc/%d/%s", pid, name);
	else
		snprintf(path, PATH_MAX, "/proc/%s", name);
}

struct text {
	char *byte;
	size_t byte_nr, byte_alloc;
};

/* Appends what fd returns to text, until the end of the file or the limit. */
static int read_most(int fd, struct text *text, size_t most)
{
	ssize_t got;
	int err;

	do {
		size_t room = most - text->byte_nr;

		if (room > 4096)
			room = 4096;
		err = array_reserve(&text->byte, &text->byte_alloc, text->byte_nr + room + 1);
		if (err)
			return err;
		got = read(fd, text->byte + text->byte_nr, room);
		if (got < 0 && errno != EINTR)
			return -errno;
		text->byte_nr += got > 0 ? got : 0;
	} while (got && text->byte_nr < most);
	text->byte[text->byte_nr] = '\0';
	return 0;
}

FILE *proc_open(pid_t pid, const char *name)
{
	char path[PATH_MAX];

	proc_path(path, pid, name);
	return fopen(path, "re");
}

/* proc_read() with another limit. */
static char *proc_read_most(pid_t pid, const char *name, size_t most, size_t *ret_len)
{
	struct text text = {};
	char path[PATH_MAX];
	int fd, err;

	proc_path(path, pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	err = read_most(fd, &text, most);
	close(fd);
	if (err) {
		free(text.byte);
		errno = -err;
		return NULL;
	}
	if (ret_len)
		*ret_len = text.byte_nr;
	return text.byte;
}

char *proc_read(pid_t pid, const char *name, size_t *ret_len)
{
	return proc_read_most(pid, name, PROC_FILE_MAX, ret_len);
}

char *proc_text(pid_t pid, const char *name)
{
	size_t len;
	char *text = proc_read(pid, name, &len);

	if (!text)
		return strdup("");
	if (len && text[len - 1] == '\n')
		text[len - 1] = '\0';
	return text;
}

static void drop_ending(char *text, const char *ending)
{
	size_t len = strlen(text), ending_len = strlen(ending);

	if (len >= ending_len && !strcmp(text + len - ending_len, ending))
		text[len - ending_len] = '\0';
}

/*
 * The path in the unified cgroup hierarchy, as the kernel shows it to us (see base/cgroup_path.h); "" if the process has no path
 * there. NULL is ENOMEM.
 */
static char *proc_cgroup(pid_t pid)
{
	char *text = proc_text(pid, "cgroup"), *rest = text, *line, *path = NULL;

	if (!text)
		return NULL;
	while (!path && (line = strsep(&rest, "\n")))
		if (!strncmp(line, "0::", 3))
			path = strdup(line + 3);
	free(text);
	if (path && proc_is_ending(pid))
		drop_ending(path, " (deleted)"); /* a group may go before its dead */
	return path ?: strdup("");
}

char *proc_link(pid_t pid, const char *name)
{
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t len;

	proc_path(path, pid, name);
	len = readlink(path, target, sizeof(target) - 1);
	target[len > 0 ? len : 0] = '\0';
	return strdup(target);
}

/* Joins arguments that each end with a NUL to one line, separated by spaces. NULL is ENOMEM. */
static char *proc_join_args(const char *args, size_t len)
{
	char *text;

	while (len && !args[len - 1])
		len--;
	text = malloc(len + 1);
	if (!text)
		return NULL;
	for (size_t i = 0; i < len; i++)
		text[i] = args[i] ?: ' ';
	text[len] = '\0';
	return text;
}

/* How many of the bytes are whole arguments; all of them if not even the first argument fits. */
static size_t whole_args(const char *args, size_t len)
{
	size_t end = len;

	while (end && args[end - 1])
		end--;
	return end ?: len;
}

char *proc_cmdline(pid_t pid)
{
	size_t len, kept;
	char *args = proc_read_most(pid, "cmdline", PROC_CMDLINE_MAX + 1, &len), *text, *cut;

	if (!args)
		return strdup("");
	kept = len > PROC_CMDLINE_MAX ? whole_args(args, PROC_CMDLINE_MAX) : len;
	text = proc_join_args(args, kept);
	free(args);
	if (!text || kept == len)
		return text;
	cut = asprintf(&cut, "%s" PROC_CMDLINE_CUT, text) < 0 ? NULL : cut;
	free(text);
	return cut;
}

int proc_status(pid_t pid, const char *field, uint64_t *ret_value)
{
	char *text = proc_read(pid, "status", NULL);
	size_t field_len = strlen(field);
	int err = -ENOENT;

	for (char *line = text; line && err; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, field, field_len) || line[field_len] != ':')
			continue;
		*ret_value = strtoull(line + field_len + 1, NULL, 10);
		err = 0;
	}
	free(text);
	return err;
}

/* The kernel shows the offsets for its children, "monotonic SECONDS NANOSECONDS". Without time namespaces it has no such file. */
static int read_clock_offset(pid_t pid, int64_t *ret_ns)
{
	char *own = proc_link(pid, "ns/time"), *childrens = proc_link(pid, "ns/time_for_children"), *text = proc_text(pid, "timens_offsets");
	bool is_known = own && childrens && text && !strcmp(own, childrens);
	long long seconds = 0, ns = 0;

	if (is_known && sscanf(text, "monotonic %lld %lld", &seconds, &ns) == 2)
		*ret_ns = seconds * (int64_t)SECOND_NS + ns;
	free(own);
	free(childrens);
	free(text);
	return is_known ? 0 : -ENOTSUP;
}

int proc_clock_ahead(pid_t pid, int64_t *ret_ns)
{
	int64_t its = 0, ours = 0;
	int err = read_clock_offset(pid, &its) ?: read_clock_offset(getpid(), &ours);

	if (!err)
		*ret_ns = its - ours;
	return err;
}

/* Fields of stat count from 1. The second one, in parentheses, may contain any text, even ") ". */
#define STAT_STATE 3
#define STAT_PARENT 4
#define STAT_START_TIME 22

static const char *stat_field(const char *text, int field)
{
	const char *at = strrchr(text, ')');

	for (int i = 2; at && i < field; i++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return at;
}

int proc_start_time(pid_t pid, uint64_t *ret_ticks)
{
	char *text = proc_read(pid, "stat", NULL);
	const char *field = text ? stat_field(text, STAT_START_TIME) : NULL;
	int err = field ? 0 : text ? -EINVAL : -errno;

	if (field)
		*ret_ticks = strtoull(field, NULL, 10);
	free(text);
	return err;
}

/* Its parent. 0: the process has ended, or has none that can be seen from here. */
static pid_t proc_parent(pid_t pid)
{
	char *text = proc_read(pid, "stat", NULL);
	const char *state = text ? stat_field(text, STAT_STATE) : NULL;
	const char *field = state && *state != 'Z' && *state != 'X' ? stat_field(text, STAT_PARENT) : NULL;
	pid_t parent = field ? atoi(field) : 0;

	free(text);
	return parent;
}

uint64_t proc_auxv(pid_t pid, uint64_t type)
{
	size_t len;
	char *text = proc_read(pid, "auxv", &len);
	uint64_t value = 0;

	for (size_t at = 0; text && at + sizeof(Elf64_auxv_t) <= len; at += sizeof(Elf64_auxv_t)) {
		Elf64_auxv_t entry;

		memcpy(&entry, text + at, sizeof(entry));
		if (entry.a_type == type)
			value = entry.a_un.a_val;
	}
	free(text);
	return value;
}

/* A letter as in ps; 0: the thread is gone. */
static char thread_letter(pid_t pid, pid_t tid)
{
	char name[32], state;
	const char *field;
	char *text;

	snprintf(name, sizeof(name), "task/%d/stat", tid);
	text = proc_read(pid, name, NULL);
	field = text ? stat_field(text, STAT_STATE) : NULL;
	state = field ? *field : 0;
	free(text);
	return state == 'Z' || state == 'X' ? 0 : state;
}

DIR *proc_open_threads(pid_t pid)
{
	char path[PATH_MAX];

	proc_path(path, pid, "task");
	return opendir(path);
}

pid_t proc_next_thread(DIR *threads)
{
	struct dirent *entry;

	while (threads && (entry = readdir(threads)))
		if (entry->d_name[0] != '.')
			return atoi(entry->d_name);
	return 0;
}

pid_t proc_own_tid(pid_t pid, pid_t tid)
{
	char name[32], *text, *line, *last;
	pid_t own = 0;

	snprintf(name, sizeof(name), "task/%d/status", tid);
	text = proc_read(pid, name, NULL);
	line = text ? strstr(text, "\nNSpid:") : NULL;
	if (line) {
		line[1 + strcspn(line + 1, "\n")] = '\0';
		last = strrchr(line, '\t');
		own = last ? atoi(last + 1) : 0;
	}
	free(text);
	return own;
}

pid_t proc_live_thread(pid_t pid)
{
	DIR *dir = proc_open_threads(pid);
	pid_t tid;

	while ((tid = proc_next_thread(dir)) && !thread_letter(pid, tid))
		;
	if (dir)
		closedir(dir);
	return tid;
}

#define KERNEL_THREAD 0x00200000u /* PF_KTHREAD, include/linux/sched.h */

/* The seventh number behind the name in /proc/PID/stat (proc(5)). */
static unsigned long task_flags(pid_t pid)
{
	char *text = proc_read(pid, "stat", NULL), *name_end = text ? strrchr(text, ')') : NULL;
	unsigned long flags = 0;

	if (name_end)
		sscanf(name_end, ") %*c %*d %*d %*d %*d %*d %lu", &flags);
	free(text);
	return flags;
}

bool proc_is_kernel_thread(pid_t pid)
{
	return task_flags(pid) & KERNEL_THREAD;
}

bool proc_is_ending(pid_t pid)
{
	uint64_t kib;

	return !proc_live_thread(pid) || (proc_status(pid, "VmSize", &kib) && !proc_is_kernel_thread(pid));
}

bool proc_is_asleep(pid_t pid)
{
	DIR *dir = proc_open_threads(pid);
	bool is = true;
	pid_t tid;

	while (is && (tid = proc_next_thread(dir))) {
		char state = thread_letter(pid, tid);

		is = !state || state == 'S';
	}
	if (dir)
		closedir(dir);
	return dir && is;
}

/* ---- descendants ---- */

struct parent_of_pid {
	pid_t pid, parent;
};

struct family {
	struct parent_of_pid *child;
	size_t child_nr, child_alloc;
};

static int read_family(struct family *family)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int err = dir ? 0 : -errno;

	while (!err && (entry = readdir(dir))) {
		struct parent_of_pid child;
		uint64_t pid;

		if (parse_count(entry->d_name, 1, INT32_MAX, &pid) || (pid_t)pid == getpid())
			continue;
		child = (struct parent_of_pid){ pid, proc_parent(pid) };
		if (child.parent)
			err = array_push(family, child, child);
	}
	if (dir)
		closedir(dir);
	return err;
}

/* The list grows while it is walked: its new members are asked for their children, too. */
int descendants_find(const pid_t *pid, size_t nr, struct descendants *ret)
{
	struct family family = {};
	int err = read_family(&family);

	*ret = (struct descendants){};
	for (size_t i = 0; i < nr + ret->pid_nr && !err; i++) {
		pid_t parent = i < nr ? pid[i] : ret->pid[i - nr];

		for (size_t k = 0; k < family.child_nr && !err; k++)
			if (family.child[k].parent == parent && !array_any(nr, i, pid[i] == family.child[k].pid))
				err = array_push(ret, pid, family.child[k].pid);
	}
	free(family.child);
	return err;
}

void descendants_release(struct descendants *descendants)
{
	free(descendants->pid);
	*descendants = (struct descendants){};
}

/* ---- process identity ---- */

/* Takes ownership of the text. An empty text does not replace a known one: the process may just have ended. */
static int replace_identity_text(char **known, char *text)
{
	if (!text)
		return -ENOMEM;
	if (*known && !*text) {
		free(text);
		return 0;
	}
	free(*known);
	*known = text;
	return 0;
}

/*
 * Keeps the name that snapshots exist under: snapshots of one program stay together when it changes its comm.
 */
static int take_comm(struct process_identity *identity, char *comm)
{
	if (!identity->is_named)
		return replace_identity_text(&identity->comm, comm);
	free(comm);
	return 0;
}

int process_identity_read(struct process_identity *identity)
{
	int err = take_comm(identity, proc_text(identity->pid, "comm")) ?:
			  replace_identity_text(&identity->exe, proc_link(identity->pid, "exe"));
	return err ?: process_identity_read_args(identity);
}

static char *read_cgroup_from_top(pid_t pid, const char *root)
{
	char *shown = proc_cgroup(pid), *path = shown ? cgroup_from_top(root, shown) : NULL;

	free(shown);
	return path;
}

int process_identity_read_cgroup(struct process_identity *identity, const char *root)
{
	char *init = read_cgroup_from_top(1, root);
	int err = init ? replace_identity_text(&identity->cgroup, read_cgroup_from_top(identity->pid, root)) : -ENOMEM;

	if (!err) {
		pod_read(&identity->pod, identity->cgroup, init);
		pod_find_names(&identity->pod);
	}
	free(init);
	return err;
}

int process_identity_read_args(struct process_identity *identity)
{
	return replace_identity_text(&identity->cmdline, proc_cmdline(identity->pid));
}

int process_identity_read_kept(struct process_identity *identity, const struct process *account)
{
	int err = take_comm(identity, strndup(account->comm, COMM_BYTES));

	if (err || *identity->cmdline)
		return err;
	return replace_identity_text(&identity->cmdline, proc_join_args(account->args, account->args_bytes));
}

int process_identity_set_exe(struct process_identity *identity, const char *path)
{
	return replace_identity_text(&identity->exe, strdup(path));
}

bool process_identity_open(struct process_identity *identity)
{
	uint64_t ticks;

	identity->pidfd = syscall(SYS_pidfd_open, identity->pid, 0);
	if (identity->pidfd < 0)
		return false;
	if (!proc_start_time(identity->pid, &ticks) && ticks == identity->start_ticks)
		return true;
	close(identity->pidfd);
	identity->pidfd = -1;
	return false;
}

void process_identity_release(struct process_identity *identity)
{
	if (identity->pidfd >= 0)
		close(identity->pidfd);
	free(identity->comm);
	free(identity->exe);
	free(identity->cmdline);
	free(identity->cgroup);
}

/* ---- maps text ---- */

bool maps_parse_line(const char *text, struct maps_line *line)
{
	unsigned int major, minor;
	int path_at = 0;

	if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &line->start, &line->end, line->perms, &line->offset, &major, &minor,
		   &line->inode, &path_at) < 7)
		return false;
	line->dev = (uint64_t)major << 32 | minor;
	line->path = text + path_at;
	return true;
}

bool maps_find_line(pid_t pid, uint64_t address, struct maps_line *ret)
{
	FILE *maps = proc_open(pid, "maps");
	struct maps_line found = {};
	char *line = NULL;
	size_t alloc = 0;

	while (maps && found.end <= address && getline(&line, &alloc, maps) > 0)
		if (!maps_parse_line(line, &found))
			break;
	free(line);
	if (maps)
		fclose(maps);
	if (address < found.start || address >= found.end)
		return false;
	found.path = "";
	*ret = found;
	return true;
}

/*
 * Looks at the fourth character after the addresses: "7f…-7f… r-xp". Most lines are not code, and are not parsed.
 */
static bool is_code(const char *line)
{
	size_t addresses = strspn(line, "0123456789abcdef-");

	return line[addresses] == ' ' && line[addresses + 1] && line[addresses + 2] &&
	       line[addresses + 3] == 'x';
}

static int append_line(struct text *text, const char *line, size_t len)
{
	int err = array_reserve(&text->byte, &text->byte_alloc, text->byte_nr + len + 1);

	if (err)
		return err;
	memcpy(text->byte + text->byte_nr, line, len);
	text->byte_nr += len;
	text->byte[text->byte_nr] = '\0';
	return 0;
}

static int read_code(FILE *maps, struct text *text, bool *ret_is_cut)
{
	char *line = NULL;
	size_t alloc = 0;
	ssize_t len;
	int err = append_line(text, "", 0);

	*ret_is_cut = false;
	while (!err && !*ret_is_cut && (len = getline(&line, &alloc, maps)) > 0) {
		if (!is_code(line))
			continue;
		*ret_is_cut = text->byte_nr + len > MAPS_TEXT_MAX;
		if (!*ret_is_cut)
			err = append_line(text, line, len);
	}
	if (!err && ferror(maps))
		err = -errno;
	free(line);
	return err;
}

char *maps_read_code(pid_t pid, bool *ret_is_cut)
{
	struct text text = {};
	FILE *maps = proc_open(pid, "maps");
	int err;

	if (!maps)
		return NULL;
	err = read_code(maps, &text, ret_is_cut);
	fclose(maps);
	if (!err)
		return text.byte;
	free(text.byte);
	errno = -err;
	return NULL;
}
