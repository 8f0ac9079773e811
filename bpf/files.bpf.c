// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Finds the identity of a file that the loader maps, as the unwinder finds it in a process. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "unwind/file.bpf.h"

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
