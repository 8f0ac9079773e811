// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "target.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "unwind/unwind_table.h"

struct unwind_memory {
	pid_t pid;
};

static int read_memory(const struct unwind_memory *memory, uint64_t address, void *ret, size_t size)
{
	struct iovec from = { (void *)address, size }, to = { ret, size };

	return process_vm_readv(memory->pid, &to, 1, &from, 1, 0) != (ssize_t)size;
}

static int unwind_memory__read(struct unwind_memory *memory, bpf_u64 address, bpf_u64 *ret_word)
{
	return read_memory(memory, address, ret_word, sizeof(*ret_word));
}

struct unwind_rows {
	int unused;
};

static unwind_row unwind_rows__at(const struct unwind_rows *rows, bpf_u32 index)
{
	(void)rows, (void)index;
	return 0;
}

#include "shared/unwind_step.h"

const char *const end_name[] = {
#define X(name, meaning) #name,
	UNWIND_ENDS(X)
#undef X
};
const uint32_t end_nr = ARRAY_SIZE(end_name);

/* ---- tables, one for each file ---- */

static struct object {
	dev_t device;
	ino_t inode; /* 0: the vDSO */
	struct unwind_table *table;
} *objects;
static size_t object_nr;

static struct unwind_table *find_table(dev_t device, ino_t inode)
{
	for (size_t i = 0; i < object_nr; i++)
		if (objects[i].device == device && objects[i].inode == inode)
			return objects[i].table;
	return NULL;
}

static struct unwind_table *keep_table(dev_t device, ino_t inode, struct unwind_table *table)
{
	objects = reallocarray(objects, object_nr + 1, sizeof(*objects));
	objects[object_nr++] = (struct object){ device, inode, table };
	return table;
}

/* ---- mappings ---- */

struct mapping {
	uint64_t start, end, offset;
	const struct unwind_table *table; /* NULL: no file, or none with a table */
};

struct target {
	struct unwind_memory memory;
	struct mapping *mapping;
	size_t mapping_nr, mapping_alloc;
};

static struct unwind_table *table_of_file(struct target *target, const struct mapping *mapping)
{
	struct unwind_table *table = NULL;
	char path[96];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, target->memory.pid,
		 mapping->start, mapping->end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st)) {
		table = find_table(st.st_dev, st.st_ino);
		if (!table && !unwind_table__from_file(fd, &table, NULL))
			keep_table(st.st_dev, st.st_ino, table);
	}
	close(fd);
	return table;
}

static struct unwind_table *table_of_vdso(struct target *target, const struct mapping *mapping)
{
	struct unwind_table *table = find_table(0, 0);
	size_t size = mapping->end - mapping->start;
	void *image = table ? NULL : malloc(size);

	if (image && !read_memory(&target->memory, mapping->start, image, size) &&
	    !unwind_table__from_memory(image, size, &table, NULL))
		keep_table(0, 0, table);
	free(image);
	return table;
}

/* "7f1c…-7f1c… r-xp 00026000 08:01 1234   /usr/lib/…"; only what can be executed */
static void take_line(struct target *target, const char *line)
{
	struct mapping mapping = { 0 };
	char flags[8], path[512] = "";

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %511s", &mapping.start,
		   &mapping.end, flags, &mapping.offset, path) < 4 ||
	    flags[2] != 'x')
		return;
	if (!strcmp(path, "[vdso]"))
		mapping.table = table_of_vdso(target, &mapping);
	else if (*path == '/')
		mapping.table = table_of_file(target, &mapping);
	array_push(target, mapping, mapping);
}

void target__look(struct target *target)
{
	char path[64], line[1024];
	FILE *maps;

	target->mapping_nr = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", target->memory.pid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps))
		take_line(target, line);
	if (maps)
		fclose(maps);
}

struct target *target__open(pid_t pid)
{
	struct target *target = calloc(1, sizeof(*target));

	target->memory.pid = pid;
	return target;
}

void target__close(struct target *target)
{
	free(target->mapping);
	free(target);
}

/* ---- unwinding ---- */

static const struct mapping *mapping_at(const struct target *target, uint64_t pc)
{
	for (size_t i = 0; i < target->mapping_nr; i++)
		if (pc >= target->mapping[i].start && pc < target->mapping[i].end)
			return &target->mapping[i];
	return NULL;
}

static struct unwind_rule rule_at(const struct mapping *mapping, uint64_t pc)
{
	static const struct unwind_rule none;
	uint64_t vaddr;

	if (!mapping->table ||
	    unwind_table__vaddr(mapping->table, pc - mapping->start + mapping->offset, &vaddr))
		return none;
	return unwind_table__rule(mapping->table, vaddr);
}

/*
 * As the kernel's side does, a return address that is not in code ends the walk and is no frame: glibc's swapcontext
 * has wrong rules for the instructions between the two stacks, and the new stack may hold anything there.
 */
static int step_from(struct target *target, struct unwind_frame *frame, struct stack *stack)
{
	uint64_t pc = unwind_rule_address(frame);
	const struct mapping *mapping = mapping_at(target, pc);

	if (mapping || frame->is_exact)
		stack->pc[stack->nr++] = frame->pc;
	return mapping ? unwind_step(rule_at(mapping, pc), frame, &target->memory) : UNWIND_NO_CODE;
}

void target__unwind(struct target *target, const struct user_regs_struct *regs,
		     struct stack *ret)
{
	struct unwind_frame frame = {
		.pc = regs->rip, .sp = regs->rsp, .fp = regs->rbp, .is_exact = 1,
	};

	ret->nr = 0;
	ret->end = UNWIND_GOES_ON;
	while (ret->end == UNWIND_GOES_ON && ret->nr < FRAMES_MAX)
		ret->end = step_from(target, &frame, ret);
}
