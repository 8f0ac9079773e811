// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Finds the file system of a file of the calling process, without a request to that file system. */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "shared/file_types.h"
#include "unwind/file.bpf.h"

/* Finds the identity of a file that the loader maps, as the unwinder finds it in a process. */

static long note_vma_file(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	struct unwind_file *file = data;

	if (vma->vm_file)
		note_file(vma->vm_file, file);
	return 0;
}

SEC("syscall")
int file_find(struct file_request *request)
{
	struct unwind_file file = {};
	long err = bpf_find_vma(bpf_get_current_task_btf(), request->address, note_vma_file, &file, 0);

	request->file = file;
	return err;
}

static __always_inline struct inode *inode_of_fd(__u32 fd)
{
	struct fdtable *table = BPF_CORE_READ(bpf_get_current_task_btf(), files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = NULL;

	if (fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), files + fd);
	return BPF_CORE_READ(file, f_inode);
}

/* With stacked file systems this is the inode of the lowest one, whose pages are mapped. */
static long take_inode(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	*(struct inode **)data = BPF_CORE_READ(vma, vm_file, f_inode);
	return 0;
}

SEC("syscall")
int file_system_of(struct file_system *asked)
{
	char type[FILE_SYSTEM_TYPE_MAX] __attribute__((aligned(8))) = {};
	struct inode *inode = NULL;
	struct super_block *super;

	if (asked->address)
		bpf_find_vma(bpf_get_current_task_btf(), asked->address, take_inode, &inode, 0);
	else
		inode = inode_of_fd(asked->fd);
	if (!inode)
		return -ENOENT;
	super = BPF_CORE_READ(inode, i_sb);
	note_inode(inode, &asked->file);
	asked->inode = BPF_CORE_READ(inode, i_ino);
	asked->mode = BPF_CORE_READ(inode, i_mode);
	asked->device = BPF_CORE_READ(super, s_dev);
	asked->magic = BPF_CORE_READ(super, s_magic);
	asked->flags = BPF_CORE_READ(super, s_type, fs_flags);
	bpf_probe_read_kernel_str(type, sizeof(type), BPF_CORE_READ(super, s_type, name));
	__builtin_memcpy(asked->type, type, sizeof(type));
	return 0;
}
