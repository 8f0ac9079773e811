// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/stack_switches.h"

#include "base/array.h"
#include "elf/elf_object.h"

const struct stack_switch stack_switches[] = {
	{ "swapcontext", "switches stacks (swapcontext)" },
	{ "makecontext", "switches stacks (makecontext)" },
	{ "jump_fcontext", "switches stacks (Boost.Context)" },
	{ "make_fcontext", "switches stacks (Boost.Context)" },
	{ "ontop_fcontext", "switches stacks (Boost.Context)" },
	{ "bthread_jump_fcontext", "switches stacks (bthread)" },
	{ "co_switch", "switches stacks (libco)" },
	{ "coctx_swap", "switches stacks (libco)" },
	{ "acosw", "switches stacks (libaco)" },
	{ "coro_transfer", "switches stacks (libcoro)" },
	{ "_mco_switch", "switches stacks (minicoro)" },
	{ "coroutine_transfer", "switches stacks (Ruby's fibers)" },
	{ "qemu_coroutine_switch", "switches stacks (QEMU's coroutines)" },
	{ "pth_yield", "switches stacks (GNU Pth)" },
	{ "st_thread_create", "switches stacks (State Threads)" },
	{ "__splitstack_getcontext", "switches stacks (split stacks)" },
	{ "__morestack", "switches stacks (split stacks)" },
	{ "runtime.morestack", "is a Go program" },
	{ "runtime.mcall", "is a Go program" },
	{ ".note.go.buildid", "is a Go program" },
	{ ".go.buildinfo", "is a Go program" },
	{ ".gopclntab", "is a Go program" },
	{ ".data.rel.ro.gopclntab", "is a Go program" },
	{ ".go.module", "is a Go program" },
};

const size_t stack_switch_nr = ARRAY_SIZE(stack_switches);

int stack_switch_find(struct elf_object *elf, size_t *ret_index)
{
	const char *name[ARRAY_SIZE(stack_switches)];

	for (size_t i = 0; i < ARRAY_SIZE(stack_switches); i++)
		name[i] = stack_switches[i].name;
	return elf_object__find_name(elf, name, ARRAY_SIZE(name), ret_index);
}
