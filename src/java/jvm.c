// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "java/jvm.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "process/proc.h"

/* ---- memory of the process, which may hold anything ---- */

struct image {
	pid_t pid;
	uint64_t base, end; /* of libjvm.so */
	uint64_t symbols, strings, hash;
};

static int read_jvm(pid_t pid, uint64_t address, void *to, size_t bytes)
{
	const struct iovec here = { to, bytes }, there = { (void *)address, bytes };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)bytes ? 0 : -EFAULT;
}

#define JVM_NAME_MAX 48

/* Whether this text lies there. */
static bool is_jvm_text(pid_t pid, uint64_t address, const char *text)
{
	char there[JVM_NAME_MAX];
	size_t bytes = strlen(text) + 1;

	return bytes <= sizeof(there) && !read_jvm(pid, address, there, bytes) && !memcmp(there, text, bytes);
}

/* ---- symbols of libjvm.so ---- */

static bool find_library_in_maps(struct image *image)
{
	static const char name[] = "/libjvm.so";
	FILE *maps = proc_open(image->pid, "maps");
	struct maps_line line;
	char *text = NULL;
	size_t alloc = 0;

	while (maps && getline(&text, &alloc, maps) > 0) {
		size_t bytes = maps_parse_line(text, &line) ? strcspn(line.path, "\n") : 0;
		const char *at = bytes > strlen(name) ? memmem(line.path, bytes, name, strlen(name)) : NULL;

		if (!at || !strchr("\n ", at[strlen(name)])) /* " (deleted)" after an upgrade */
			continue;
		if (!line.offset && !image->base)
			image->base = line.start;
		if (image->base)
			image->end = line.end;
	}
	free(text);
	if (maps)
		fclose(maps);
	return image->base;
}

/* glibc has made addresses of the values in memory, musl leaves them as in the file. */
static uint64_t address_of_dynamic(const struct image *image, uint64_t value)
{
	return value < image->base ? value + image->base : value;
}

#define HEADS_MAX 64
#define DYNAMIC_MAX 256

static int read_dynamic(struct image *image, const Elf64_Phdr *head)
{
	Elf64_Dyn entry[DYNAMIC_MAX];
	size_t nr = head->p_memsz / sizeof(*entry) < DYNAMIC_MAX ? head->p_memsz / sizeof(*entry) : DYNAMIC_MAX;

	if (read_jvm(image->pid, image->base + head->p_vaddr, entry, nr * sizeof(*entry)))
		return -EFAULT;
	for (size_t i = 0; i < nr && entry[i].d_tag; i++) {
		uint64_t address = address_of_dynamic(image, entry[i].d_un.d_ptr);

		image->symbols = entry[i].d_tag == DT_SYMTAB ? address : image->symbols;
		image->strings = entry[i].d_tag == DT_STRTAB ? address : image->strings;
		image->hash = entry[i].d_tag == DT_GNU_HASH ? address : image->hash;
	}
	return image->symbols && image->strings && image->hash ? 0 : -ENOENT;
}

static int read_library(struct image *image)
{
	Elf64_Phdr head[HEADS_MAX];
	Elf64_Ehdr elf;

	if (read_jvm(image->pid, image->base, &elf, sizeof(elf)) || memcmp(elf.e_ident, ELFMAG, SELFMAG) ||
	    elf.e_phentsize != sizeof(*head) || elf.e_phnum > HEADS_MAX ||
	    read_jvm(image->pid, image->base + elf.e_phoff, head, elf.e_phnum * sizeof(*head)))
		return -ENOENT;
	for (int i = 0; i < elf.e_phnum; i++)
		if (head[i].p_type == PT_DYNAMIC)
			return read_dynamic(image, &head[i]);
	return -ENOENT;
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (uint8_t)*name;
	return hash;
}

struct hash_head {
	uint32_t bucket_nr, first, bloom_nr, shift;
};

#define CHAIN_MAX 256

/* 0: the library has no such symbol. */
static uint64_t find_jvm_symbol(const struct image *image, const char *name)
{
	uint32_t hash = gnu_hash_of(name), at, link;
	struct hash_head head;
	uint64_t buckets;

	if (read_jvm(image->pid, image->hash, &head, sizeof(head)) || !head.bucket_nr)
		return 0;
	buckets = image->hash + sizeof(head) + 8ull * head.bloom_nr;
	if (read_jvm(image->pid, buckets + 4ull * (hash % head.bucket_nr), &at, sizeof(at)) || at < head.first)
		return 0;
	for (int i = 0; i < CHAIN_MAX; i++, at++) {
		Elf64_Sym symbol;

		if (read_jvm(image->pid, buckets + 4ull * head.bucket_nr + 4ull * (at - head.first), &link, sizeof(link)))
			return 0;
		if ((link | 1) == (hash | 1) && !read_jvm(image->pid, image->symbols + sizeof(symbol) * at, &symbol, sizeof(symbol)) &&
		    is_jvm_text(image->pid, image->strings + symbol.st_name, name))
			return image->base + symbol.st_value;
		if (link & 1)
			return 0;
	}
	return 0;
}

static uint64_t value_of_symbol(const struct image *image, const char *name)
{
	uint64_t address = find_jvm_symbol(image, name), value;

	return address && !read_jvm(image->pid, address, &value, sizeof(value)) ? value : 0;
}

/* ---- HotSpot's description of itself ---- */

/* VMStructEntry and VMTypeEntry of vmStructs.hpp; the library says how large they are. */
struct vm_field {
	uint64_t type, name, type_of_field;
	int32_t is_static;
	uint64_t offset, address;
};

struct vm_type {
	uint64_t name, super;
	int32_t is_oop, is_integer, is_unsigned;
	uint64_t bytes;
};

#define ENTRIES_MAX 16384
#define FLAGS_MAX 8192
#define FLAG_BYTES_MAX 256
#define AGE_MOST 15 /* collections that HotSpot counts for an object */

struct description {
	uint64_t flags, flag_nr; /* addresses of both */
	uint64_t name_offset, value_offset;
	uint64_t major; /* address of the version */
	uint64_t flag_bytes;
};

static void note_vm_field(const struct image *image, const struct vm_field *field, bool is_flag, struct description *ret)
{
	const struct {
		bool of_flag;
		const char *name;
		uint64_t *to;
		uint64_t value;
	} rows[] = {
		{ true, "flags", &ret->flags, field->address },
		{ true, "numFlags", &ret->flag_nr, field->address },
		{ true, "_name", &ret->name_offset, field->offset },
		{ true, "_addr", &ret->value_offset, field->offset },
		{ false, "_vm_major_version", &ret->major, field->address },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].of_flag == is_flag && is_jvm_text(image->pid, field->name, rows[i].name))
			*rows[i].to = rows[i].value;
}

/* The fields of one type follow each other, and have the same text for it. */
static void read_fields(const struct image *image, uint64_t at, struct description *ret)
{
	uint64_t type = 0;
	bool is_flag = false, is_version = false;
	struct vm_field field;

	for (int i = 0; i < ENTRIES_MAX; i++, at += sizeof(field)) {
		if (read_jvm(image->pid, at, &field, sizeof(field)) || !field.type)
			return;
		if (field.type != type) {
			type = field.type;
			is_flag = is_jvm_text(image->pid, type, "JVMFlag");
			is_version = is_jvm_text(image->pid, type, "Abstract_VM_Version");
		}
		if (is_flag || is_version)
			note_vm_field(image, &field, is_flag, ret);
	}
}

static void read_types(const struct image *image, uint64_t at, struct description *ret)
{
	struct vm_type type;

	for (int i = 0; i < ENTRIES_MAX && !ret->flag_bytes; i++, at += sizeof(type)) {
		if (read_jvm(image->pid, at, &type, sizeof(type)) || !type.name)
			return;
		if (is_jvm_text(image->pid, type.name, "JVMFlag"))
			ret->flag_bytes = type.bytes;
	}
}

/* The value of a flag, of so many bytes. -ENOENT: there is no flag of that name. */
static int read_flag(const struct image *image, const struct description *description, const char *name, void *ret, size_t bytes)
{
	uint64_t flags, nr, text, value;
	uint8_t flag[FLAG_BYTES_MAX];

	if (read_jvm(image->pid, description->flags, &flags, sizeof(flags)) ||
	    read_jvm(image->pid, description->flag_nr, &nr, sizeof(nr)))
		return -EFAULT;
	for (uint64_t i = 0; i < nr && i < FLAGS_MAX; i++) {
		if (read_jvm(image->pid, flags + i * description->flag_bytes, flag, description->flag_bytes))
			return -EFAULT;
		memcpy(&text, flag + description->name_offset, sizeof(text));
		memcpy(&value, flag + description->value_offset, sizeof(value));
		if (is_jvm_text(image->pid, text, name))
			return read_jvm(image->pid, value, ret, bytes);
	}
	return -ENOENT;
}

static bool is_description_whole(const struct description *description)
{
	uint64_t most = description->flag_bytes - sizeof(uint64_t);

	return description->flags && description->flag_nr && description->major && description->flag_bytes >= 2 * sizeof(uint64_t) &&
	       description->flag_bytes <= FLAG_BYTES_MAX && description->name_offset <= most && description->value_offset <= most;
}

/* A HotSpot of before Java 9 has no type of that name, and no flag about agents. */
static int read_description(const struct image *image, struct jvm *ret)
{
	uint64_t fields = value_of_symbol(image, "gHotSpotVMStructs"), types = value_of_symbol(image, "gHotSpotVMTypes");
	struct description description = {};
	uint8_t allows_agents, refuses_attach;
	uint64_t young_for;
	uint32_t version;

	if (!fields || !types || value_of_symbol(image, "gHotSpotVMStructEntryArrayStride") != sizeof(struct vm_field) ||
	    value_of_symbol(image, "gHotSpotVMTypeEntryArrayStride") != sizeof(struct vm_type))
		return -ENOTSUP;
	read_fields(image, fields, &description);
	read_types(image, types, &description);
	if (!is_description_whole(&description))
		return 0;
	if (!read_flag(image, &description, "DisableAttachMechanism", &refuses_attach, sizeof(refuses_attach)))
		ret->refuses_attach = refuses_attach;
	else
		return 0;
	if (!read_flag(image, &description, "EnableDynamicAgentLoading", &allows_agents, sizeof(allows_agents)) &&
	    !read_flag(image, &description, "MaxTenuringThreshold", &young_for, sizeof(young_for)) &&
	    !read_jvm(image->pid, description.major, &version, sizeof(version))) {
		ret->refuses_agents = !allows_agents;
		ret->keeps_young = young_for > AGE_MOST;
		ret->version = version;
	}
	return 0;
}

/* ---- what the kernel says of it ---- */

/* Fields of a line of this file, from the given one on, up to most; the last ones if there are more. */
static int read_status_numbers(pid_t pid, const char *name, const char *field, int base, uint64_t *ret, int most)
{
	char *text = proc_read(pid, name, NULL), *line = text;
	size_t bytes = strlen(field);
	int nr = 0;

	while (line && (strncmp(line, field, bytes) || line[bytes] != ':'))
		line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
	for (char *at = line ? line + bytes + 1 : NULL; at && nr < most; nr++) {
		char *end;

		at += strspn(at, " \t");
		if (!*at || *at == '\n')
			break;
		ret[nr] = strtoull(at, &end, base);
		at = end == at ? NULL : end;
		if (!at)
			break;
	}
	free(text);
	return nr;
}

/*
 * HotSpot blocks SIGQUIT in all its threads but one, in which it runs its own operations. A signal to that thread alone ends
 * with it: all threads but one end before another program begins in a process, and the program keeps no thread's number.
 */
static pid_t look_for_quit_thread(pid_t pid)
{
	DIR *threads = proc_open_threads(pid);
	pid_t tid = threads ? proc_next_thread(threads) : 0;
	uint64_t blocked = 0;
	char name[48];

	for (; tid; tid = proc_next_thread(threads)) {
		snprintf(name, sizeof(name), "task/%d/status", tid);
		if (tid != pid && read_status_numbers(pid, name, "SigBlk", 16, &blocked, 1) == 1 && !(blocked >> (SIGQUIT - 1) & 1))
			break;
	}
	if (threads)
		closedir(threads);
	return tid;
}

#define QUIT_TRIES 20
#define QUIT_MS 5

/* A C library blocks all signals of a thread for a moment, while it creates another one. */
static pid_t find_quit_thread(pid_t pid)
{
	pid_t tid = look_for_quit_thread(pid);

	for (int i = 1; i < QUIT_TRIES && !tid; i++) {
		poll(NULL, 0, QUIT_MS);
		tid = look_for_quit_thread(pid);
	}
	return tid;
}

static int read_status(pid_t pid, struct jvm *ret, struct reason *why)
{
	uint64_t uid[4], gid[4], own[32], caught;
	char *stat = proc_text(pid, "stat"), *state = stat ? strrchr(stat, ')') : NULL;
	int own_nr = read_status_numbers(pid, "status", "NSpid", 10, own, ARRAY_SIZE(own));

	ret->is_stopped = state && state[1] && strchr("Tt", state[2]);
	free(stat);
	if (own_nr < 1 || read_status_numbers(pid, "status", "Uid", 10, uid, 4) != 4 || read_status_numbers(pid, "status", "Gid", 10, gid, 4) != 4 ||
	    read_status_numbers(pid, "status", "SigCgt", 16, &caught, 1) != 1)
		return reason_set(why, -ESRCH, "there is no such process");
	ret->pid = pid;
	ret->own_pid = own[own_nr - 1];
	ret->uid = uid[1];
	ret->gid = gid[1];
	ret->catches_quit = caught >> (SIGQUIT - 1) & 1;
	ret->quit_thread = ret->catches_quit ? find_quit_thread(pid) : 0;
	return 0;
}

static bool has_socket(const struct jvm *jvm)
{
	struct stat st;
	char path[96];

	snprintf(path, sizeof(path), "/proc/%d/root/tmp/.java_pid%d", jvm->pid, jvm->own_pid);
	return !lstat(path, &st) && S_ISSOCK(st.st_mode) && st.st_uid == jvm->uid;
}

int jvm_look(pid_t pid, struct jvm *ret, struct reason *why)
{
	struct image image = { .pid = pid };
	struct jvm jvm = {};
	int err = read_status(pid, &jvm, why);

	if (err)
		return err;
	*ret = jvm;
	if (!find_library_in_maps(&image))
		return reason_set(why, -ENOENT, "it runs no Java virtual machine (no libjvm.so)");
	if (read_library(&image) || read_description(&image, &jvm))
		return reason_set(why, -ENOTSUP, "its Java virtual machine is no HotSpot: its libjvm.so does not describe itself (gHotSpotVMStructs)");
	jvm.listens = has_socket(&jvm);
	*ret = jvm;
	return 0;
}

int jvm_check_signal(const struct jvm *jvm, struct reason *why)
{
	if (!jvm->catches_quit)
		return reason_set(why, -ENOTSUP, "it does not catch SIGQUIT, by which a tool begins to talk to it (it has just begun, or does without signals)");
	if (!jvm->quit_thread)
		return reason_set(why, -ENOTSUP, "none of its own threads takes SIGQUIT, by which a tool begins to talk to it");
	return 0;
}

int jvm_send_quit(const struct jvm *jvm, struct reason *why)
{
	if (!syscall(SYS_tgkill, jvm->pid, jvm->quit_thread, SIGQUIT))
		return 0;
	return errno == ESRCH ? reason_set(why, -ESRCH, "it has ended, or another program has begun in it") :
				reason_set(why, -errno, "no signal can be sent to it: %s", strerror(errno));
}

bool jvm_is_there(const struct jvm *jvm)
{
	return !syscall(SYS_tgkill, jvm->pid, jvm->quit_thread, 0) || errno != ESRCH;
}

int jvm_check_attach(const struct jvm *jvm, struct reason *why)
{
	if (jvm->is_stopped)
		return reason_set(why, -ENOTSUP, "it is stopped, and cannot answer");
	if (jvm->refuses_attach)
		return reason_set(why, -ENOTSUP, "it was started with -XX:+DisableAttachMechanism");
	return jvm->listens ? 0 : jvm_check_signal(jvm, why);
}

int jvm_check_agent(const struct jvm *jvm, struct reason *why)
{
	int err = jvm_check_attach(jvm, why);

	if (err)
		return err;
	if (jvm->version < JAVA_WITH_SAMPLES)
		return reason_set(why, -ENOTSUP, "its Java is older than %d, and takes no samples of allocations for agents (JEP 331)",
				  JAVA_WITH_SAMPLES);
	if (jvm->refuses_agents)
		return reason_set(why, -ENOTSUP, "it was started with -XX:-EnableDynamicAgentLoading");
	return 0;
}
