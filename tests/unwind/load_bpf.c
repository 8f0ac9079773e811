// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* load_bpf FILE: has the kernel verify its programs. Prints NAME TAB verified instructions, each. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int print_one(const struct bpf_program *program)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);
	int err = bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &len);

	if (err)
		return err;
	printf("%s\t%u\n", bpf_program__name(program), info.verified_insns);
	return 0;
}

int main(int argc, char **argv)
{
	struct bpf_object *object = argc == 2 ? bpf_object__open_file(argv[1], NULL) : NULL;
	struct bpf_program *program;
	int err = object ? bpf_object__load(object) : -EINVAL;

	if (!err)
		bpf_object__for_each_program(program, object)
			err = err ? err : print_one(program);
	if (err)
		fprintf(stderr, "load_bpf: %s\n", strerror(-err));
	bpf_object__close(object);
	return err != 0;
}
