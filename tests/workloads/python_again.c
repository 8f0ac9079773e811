// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * python_again LIBRARY: a program with Python in it, which it ends and begins again. Commands, each answered with {"done": N}:
 *
 *	begin, end
 *	run CODE	\t in CODE stands for the end of a line
 *	raw N		N more threads of Python, of those that do not end with it: they allocate without its lock for as long as the process runs
 */
#include "python_api.h"
#include "workload.h"

/* Python calls it by ctypes, which lets go of the lock. */
static void allocate_for_ever(void)
{
	void *(*raw_malloc)(size_t) = api("PyMem_RawMalloc");
	void (*raw_free)(void *) = api("PyMem_RawFree");

	for (;;)
		raw_free(raw_malloc(77));
}

static int run_code(char *code)
{
	for (char *at = code; *at; at++)
		*at = *at == '\t' ? '\n' : *at;
	return ((int (*)(const char *))api("PyRun_SimpleString"))(code);
}

static int begin_threads(int nr)
{
	char code[256];

	snprintf(code, sizeof(code), "import ctypes, threading\nfor _ in range(%d):\n threading.Thread(target=ctypes.CFUNCTYPE(None)(%lu), "
		 "daemon=True).start()", nr, (unsigned long)allocate_for_ever);
	return run_code(code);
}

static int obey(char *command)
{
	if (!strcmp(command, "begin"))
		return ((void (*)(int))api("Py_InitializeEx"))(0), 0;
	if (!strcmp(command, "end"))
		return ((int (*)(void))api("Py_FinalizeEx"))();
	return !strncmp(command, "raw ", 4) ? begin_threads(atoi(command + 4)) : run_code(command + 4);
}

int main(int argc, char **argv)
{
	char *command;

	library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
	if (!library)
		return 1;
	ready();
	while (strcmp(command = (char *)next_command(), "quit"))
		answer("{\"done\": %d}", obey(command));
	return 0;
}
