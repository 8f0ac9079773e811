// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * jvm_exec LIBJVM MICROSECONDS: a Java virtual machine, in whose place another program begins so long after a tool has begun to
 * ask it to listen. It prints "ready", and that program, which does not catch SIGQUIT, "begun", and each line that it reads.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* See the Java Native Interface Specification, chapter 5. */
struct vm_option {
	char *text;
	void *extra;
};

struct vm_arguments {
	int32_t version, option_nr;
	struct vm_option *option;
	uint8_t ignores_unknown;
};

static void *begin_vm(void *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL), *vm, *env;
	int (*create)(void **, void **, void *) = library ? (int (*)(void **, void **, void *))dlsym(library, "JNI_CreateJavaVM") : NULL;
	struct vm_option option[] = { { "-Xmx32m", NULL }, { "-XX:+UseSerialGC", NULL } };
	struct vm_arguments arguments = { .version = 0x00010008, .option_nr = 2, .option = option };

	if (!create || create(&vm, &env, &arguments)) {
		fprintf(stderr, "no virtual machine: %s\n", create ? "it does not begin" : dlerror());
		exit(1);
	}
	puts("ready");
	fflush(stdout);
	pause();
	return NULL;
}

static int answer_lines(void)
{
	char line[256];

	puts("begun");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		fputs(line, stdout);
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	struct timespec begun, now;
	char path[64], socket[64];

	if (argc < 3)
		return answer_lines();
	snprintf(path, sizeof(path), "/tmp/.attach_pid%d", getpid());
	snprintf(socket, sizeof(socket), "/tmp/.java_pid%d", getpid());
	unlink(socket); /* an earlier process with this number may have left it */
	if (pthread_create(&thread, NULL, begin_vm, argv[1]))
		return 1;
	while (access(path, F_OK) && access(socket, F_OK)) /* on a busy machine the file may come and go */
		;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begun.tv_sec) * 1000000 + (now.tv_nsec - begun.tv_nsec) / 1000 < atol(argv[2]));
	execl("/proc/self/exe", argv[0], NULL);
	perror("exec");
	return 1;
}
