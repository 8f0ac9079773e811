// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * embeds_python LIBRARY KEYS CODE [thread]: makes so many keys of pthread_key_create(), and only then begins Python, which has it in
 * LIBRARY; then runs CODE, and once more at each command. With a second interpreter, if CODE is in two parts with a form
 * feed between them: the second one runs the second part. thread: Python begins in a thread that ends, and the main thread
 * has a state only while it runs CODE.
 */
#include <pthread.h>

#include "python_api.h"
#include "workload.h"

static void run_code(const char *code)
{
	int (*run)(const char *) = api("PyRun_SimpleString");

	if (code && run(code))
		exit(1);
}

static void *begin_and_end(void *)
{
	((void (*)(int))api("Py_InitializeEx"))(0);
	return ((void *(*)(void))api("PyEval_SaveThread"))();
}

static int run_after_thread(const char *code)
{
	int (*ensure)(void) = api("PyGILState_Ensure");
	void (*release)(int) = api("PyGILState_Release");
	pthread_t thread;

	if (pthread_create(&thread, NULL, begin_and_end, NULL) || pthread_join(thread, NULL))
		return 1;
	ready();
	while (!strcmp(next_command(), "go")) {
		int state = ensure();

		run_code(code);
		release(state);
		answer("{\"done\": {}}");
	}
	return 0;
}

int main(int argc, char **argv)
{
	void *(*swap)(void *), *first, *second = NULL;
	char *code, *other;
	pthread_key_t key;

	if (argc < 4)
		return 1;
	for (int i = atoi(argv[2]); i; i--)
		if (pthread_key_create(&key, NULL))
			return 1;
	library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	if (!library)
		return 1;
	if (argc > 4)
		return run_after_thread(argv[3]);
	((void (*)(int))api("Py_InitializeEx"))(0);
	code = strtok(argv[3], "\f");
	other = strtok(NULL, "\f");
	swap = api("PyThreadState_Swap");
	first = ((void *(*)(void))api("PyThreadState_Get"))();
	if (other)
		second = ((void *(*)(void))api("Py_NewInterpreter"))();
	swap(first);
	ready();
	while (!strcmp(next_command(), "go")) {
		run_code(code);
		if (second)
			swap(second);
		run_code(other);
		swap(first);
		answer("{\"done\": {}}");
	}
	return 0;
}
