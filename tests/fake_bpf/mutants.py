#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Does a test notice when a rule of the accounting is switched off? Each mutant is the BPF code with one
deliberate mistake, compiled natively; the tests must fail for it in one of their three modes. A mutant
fails, too, if its text is no longer in the source.

    mutants.py [NAME…]     the mutants whose names contain one of NAME

Environment: FAKE_CC, FAKE_CFLAGS, FAKE_OBJ (the objects of the tests), FAKE_LIBS: how the tests are built.
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ("bpf_admissible", "bpf_alloc", "bpf_oom", "bpf_pending", "bpf_process")
MODES = ({}, {"FAKE_SESSION": "1"}, {"FAKE_RET": "1"})

# name: (file, old text, new text)
MUTANTS = {
    # the cost of probes
    "cost: a stepped trap is like any other": (
        "account/cost.bpf.h", "cookie & COOKIE_STEPPED ? TRAP_STEPPED : TRAP_ENTRY", "TRAP_ENTRY"),
    "cost: the first of a thread is not counted": (
        "account/cost.bpf.h", "\t\tcost_unthreaded(trap);\n", ""),
    "cost: what is left at a thread's end is lost": (
        "process.bpf.c", "\tif (thread)\n\t\tcost_charge_process(process, &thread->cost, 0);\n", ""),
    "cost: begins anew with the books": (
        "account/images.bpf.h", "\t__builtin_memset(process->counter, 0, COUNTERS_BEFORE_COST);\n",
        "\t__builtin_memset(process->counter, 0, sizeof(process->counter));\n"),
    "cost: an interrupted program is like any other": (
        "account/cost.bpf.h", "ns < COST_LONGEST_NS ? ns * COST_DISTANCE", "1 ? ns * COST_DISTANCE"),

    # wakeups of the loader, for live bytes and OOM kills
    "ring: at each block beyond": (
        "account/books.bpf.h", "__sync_val_compare_and_swap(&process->ring_at_bytes, at, 0) == at", "1"),
    "ring: one byte late": ("account/books.bpf.h", "at - 1 >= current_bytes", "at - 1 >= current_bytes - 1"),
    "ring: where nobody asked": ("account/books.bpf.h", "at - 1 >= current_bytes", "at > current_bytes"),
    "oom: a victim is a thread": ("oom.bpf.c", "tgid = BPF_CORE_READ(task, tgid);", "tgid = BPF_CORE_READ(task, pid);"),
    "oom: the group is the killer's": (
        "oom.bpf.c", "memory_group_of(task);\n\t__sync", "memory_group_of(bpf_get_current_task_btf());\n\t__sync"),
    "oom: threads are told, too": ("oom.bpf.c", "!task || task->pid != task->tgid", "!task"),
    "oom: nobody is its victim": (
        "process.bpf.c", "\tprocess->is_oom_victim = task->signal->oom_mm != NULL;\n", ""),

    # gaps
    "gap: frees are recorded": (
        "account/admit.bpf.h", "openness(process) == BOOKS_OPEN && !(process->follows && everybody_paused)", "1"),
    "gap: a call from before stays": (
        "account/calls.bpf.h", "\tif (!is_from_before_gap(process, call))\n\t\treturn call_is_stale",
        "\tif (1)\n\t\treturn call_is_stale"),
    "gap: a call from before is gone": (
        "account/calls.bpf.h", "call->return_address || !return_is_hijacked(call->sp) ||", "1 ||"),
    "gap: a return may be anybody's": (
        "account/calls.bpf.h", "\tif (is_from_before_gap(process, &calls->call))\n\t\treturn 0;",
        "\tif (0)\n\t\treturn 0;"),
    "gap: a realloc in it loses its block": (
        "account/calls.bpf.h", "return (call->has_old || call->has_dropped) &&", "return false &&"),
    "gap: a block from before was replaced": (
        "account/books.bpf.h", "missed->birth_ns < resumed_ns(process)", "0"),
    "gap: everybody goes on": (
        "account/admit.bpf.h", " && !(process->follows && everybody_paused)", ""),

    # which call is pending
    "stale: a call that has gone stays": (
        "unwind/stack.bpf.h", "\tif (!return_is_kept(call))\n\t\treturn true;\n", ""),
    "stale: above on the same stack stays": (
        "unwind/stack.bpf.h", "\treturn sp > call->sp && same_stack(call->sp, sp);", "\treturn false;"),
    "stale: above on any stack is gone": (
        "unwind/stack.bpf.h", "\treturn sp > call->sp && same_stack(call->sp, sp);",
        "\treturn sp > call->sp;"),
    "stale: a tail call ends its caller": (
        "unwind/stack.bpf.h", "\t\treturn call->return_address && call->site == site;",
        "\t\treturn true;"),
    "stale: called again at its place without return probes": (
        "unwind/stack.bpf.h", "\t\treturn call->return_address && call->site == site;",
        "\t\treturn false;"),
    "stacks: the alternate one is like any other": (
        "unwind/stack.bpf.h", "\tif (alternate || on_alternate_stack(task, pending_sp))\n"
        "\t\treturn alternate && on_alternate_stack(task, pending_sp);\n", ""),
    "stacks: one mapping is one stack": (
        "unwind/stack.bpf.h", "sp < end && pending_sp < end && pending_sp >= range.start && "
        "end < range.end", "pending_sp >= range.start && pending_sp < range.end"),
    "stacks: a busy mapping lock says another stack": (
        "unwind/stack.bpf.h", "\t\treturn pending_sp - sp < NEAR_BYTES;", "\t\treturn false;"),
    "pending: nothing nests": (
        "account/calls.bpf.h", "\tif (!call_is_over(process, call, sp, site))\n"
        "\t\treturn same_stack(call->sp, sp) ? PENDING_HERE : PENDING_ELSEWHERE;\n", ""),
    "pending: a dropped call is not counted": (
        "account/record.bpf.h", "\tlose_unreturned(process, call);\n\tif (is_realloc(call) && !", "\tif (is_realloc(call) && !"),
    "stacks: the main thread's ends where a thread's does": (
        "unwind/stack.bpf.h", "\tif (task->pid == task->tgid)\n"
        "\t\treturn BPF_CORE_READ(task, mm, start_stack);\n", ""),
    "nested: its return address is hijacked in a session": (
        "alloc.bpf.c", "record_call_entry(ctx, thread, cookie | COOKIE_IN_SESSION) != 0;",
        "record_call_entry(ctx, thread, cookie | COOKIE_IN_SESSION) & 0;"),
    "nested: not counted": (
        "account/calls.bpf.h", "\t\t\t\tcall_passes_on(&thread->layer[i].call, sp, cookie);\n"
        "\t\t\tprocess_add_counter(process, COUNTER_nested_calls, 1);\n",
        "\t\t\t\tcall_passes_on(&thread->layer[i].call, sp, cookie);\n"),
    "nested: a tail call's block is its caller's": (
        "account/calls.bpf.h", "\t\tcall->domain = COOKIE_DOMAIN(cookie);\n", "\t\t;\n"),
    "nested: any call says whose the block is": (
        "account/calls.bpf.h", "\tif (call->sp == sp)\n\t\tcall->domain", "\tif (sp)\n\t\tcall->domain"),
    "nested: on another stack it is taken for the allocator's own": (
        "account/calls.bpf.h", "\t\t\tprocess_count_loss(process, LOSS_calls_declined);",
        "\t\t\tprocess_add_counter(process, COUNTER_nested_calls, 1);"),
    "nested: a free inside a call is a free": (
        "account/calls.bpf.h", "call_pending(thread, i, sp, cookie) != PENDING_HERE)", "call_pending(thread, i, sp, cookie) < 3)"),
    "nested: a free on another stack is none": (
        "account/calls.bpf.h", "call_pending(thread, i, sp, cookie) != PENDING_HERE)", "!call_pending(thread, i, sp, cookie))"),
    "nested: a free that is passed on counts twice": (
        "account/record.bpf.h", "calls && free_is_passed_on(&calls->freed, freed)", "0"),
    "layers: a call of the layer below is the caller's own": (
        "account/calls.bpf.h", "if (pending == PENDING_HERE && i >= COOKIE_LAYER(cookie)) {", "if (pending == PENDING_HERE) {"),
    "layers: a call of the layer above counts": (
        "account/calls.bpf.h", "if (pending == PENDING_HERE && i >= COOKIE_LAYER(cookie)) {",
        "if (pending == PENDING_HERE && i == COOKIE_LAYER(cookie)) {"),
    "layers: a free of the layer above counts": (
        "account/calls.bpf.h", "if (i < COOKIE_LAYER(cookie) ||", "if (i != COOKIE_LAYER(cookie) ||"),
    "layers: a free of the layer below is the caller's own": (
        "account/calls.bpf.h", "if (i < COOKIE_LAYER(cookie) ||", "if ("),
    "layers: a call on another stack is hijacked where its layer is another": (
        "account/calls.bpf.h", "if (pending == PENDING_ELSEWHERE) {", "if (pending == PENDING_ELSEWHERE && i == COOKIE_LAYER(cookie)) {"),
    "layers: one `ret` ends one call": (
        "account/calls.bpf.h", "\t\t\tend_by_ret_in(thread, i, sp, PT_REGS_FP(ctx), returned);",
        "\t\t\treturn end_by_ret_in(thread, i, sp, PT_REGS_FP(ctx), returned);"),
    "layers: one book for all": (
        "account/record.bpf.h", "block_key_of(address, process->image, layer)",
        "block_key_of(address, process->image, LAYER_HEAP)"),
    "layers: a return in a call of another is a missed one": (
        "account/calls.bpf.h", "\tif (!is_in_call(thread)) {", "\tif (!thread || !thread->layer[layer].call.sp) {"),
    "layers: only the heap's reallocs are looked into": (
        "pending.bpf.c", "for (int i = 0; thread && i < LAYER_NR; i++)", "for (int i = LAYER_HEAP; thread && i < LAYER_MAPPING; i++)"),
    "layers: only the heap's call is dropped at the end": (
        "process.bpf.c", "for (int i = 0; books && thread && i < LAYER_NR; i++)",
        "for (int i = LAYER_HEAP; books && thread && i < LAYER_MAPPING; i++)"),
    "layers: only the heap's call is dropped by exec": (
        "process.bpf.c", "for (int i = 0; thread && i < LAYER_NR; i++)", "for (int i = LAYER_HEAP; thread && i < LAYER_MAPPING; i++)"),
    "nested: any second free of an address is passed on": (
        "account/record.bpf.h", "outer->site != freed->site ? freed->sp <= outer->sp :\n"
        "\t\t\t\t\t   freed->restarts && freed->sp == outer->sp", "true"),
    "nested: a free by the same function is never passed on": (
        "account/record.bpf.h", "freed->restarts && freed->sp == outer->sp", "false"),
    "nested: a free by the same function is always passed on": (
        "account/record.bpf.h", "freed->restarts && freed->sp == outer->sp", "freed->sp == outer->sp"),

    # which return belongs to it
    "return: of another depth": (
        "account/calls.bpf.h", "calls->call.sp != thread->caller.sp - RETURN_POPS || ", ""),
    "return: of another function": (
        "account/calls.bpf.h", " || calls->call.site != COOKIE_SITE(cookie)", ""),
    "return: the call stays pending": (
        "account/calls.bpf.h", "calls, returned);\n\tcalls->call.sp = 0;\n\treturn 0;\n}\n\n/*\n * At a `ret`",
        "calls, returned);\n\treturn 0;\n}\n\n/*\n * At a `ret`"),
    "return: a function that throws is not seen to return": (
        "account/calls.bpf.h", "process->by_ret || cookie & COOKIE_BY_RET", "process->by_ret"),
    "return: without a call it is not counted": (
        "account/calls.bpf.h", "\t\t\tprocess_count_loss(process, LOSS_returns_unmatched);", "\t\t\t;"),
    "return: a `ret` of another depth": (
        "account/calls.bpf.h", "call->sp == sp && ", ""),
    "return: nothing is popped": ("account/calls.bpf.h", "#define RETURN_POPS 8", "#define RETURN_POPS 0"),
    "return: into books that are closed": (
        "account/calls.bpf.h", "\tif (is_recording(process) || took_block(process, &calls->call))\n\t\tcall_finish", "\tcall_finish"),
    "return: a `ret` into books that are closed": (
        "account/calls.bpf.h", "\telse if (is_recording(process) || took_block(process, &calls->call))\n\t\tcall_finish", "\telse\n\t\tcall_finish"),
    "return: a `ret` to elsewhere": (
        "account/calls.bpf.h", "\tif (is_from_before_gap(process, &calls->call) || !return_is_kept(&calls->call))\n"
        "\t\tcall_abandon(process, &calls->call);\n\telse if (is_rec", "\tif (is_rec"),
    "return: a result that is unreadable is not said": (
        "account/calls.bpf.h", "\t\tprocess_count_loss(process, LOSS_results_unreadable);\n", ""),

    # what a call does
    "realloc: the old block leaves at the return": (
        "account/calls.bpf.h", "\tif (is_realloc(&calls->call))\n\t\trealloc_begin(process, &calls->call);\n",
        ""),
    "realloc: a failure loses the old block": (
        "account/calls.bpf.h", "\t\telse\n\t\t\trealloc_fail(process, call, now);", ""),
    "realloc: to 0 that returns NULL is a failure": (
        "account/calls.bpf.h", "if (address || (!call->size && call->shape != SHAPE_MREMAP) ||",
        "if (address ||"),
    "realloc: a reallocf that fails keeps its block": (
        "account/calls.bpf.h", " ||\n\t\t    call->shape == SHAPE_REALLOCF)", ")"),
    "realloc: an xallocx always succeeds": (
        "account/calls.bpf.h", "returned = returned < call->size ? 0 : call->pointer;", "returned = call->pointer;"),
    "realloc: an xallocx returns its block": (
        "account/calls.bpf.h", "\tif (call->shape == SHAPE_XALLOCX)\n"
        "\t\treturned = returned < call->size ? 0 : call->pointer;\n", ""),
    "heaps: the heap is an argument of the shape": (
        "alloc.bpf.c", "\tif (cookie & COOKIE_OF_HEAP)\n\t\treturn enter_of_heap(ctx, thread, cookie);\n", ""),
    "realloc: an old block that has no room any more stays in the sums": (
        "account/record.bpf.h", "realloc_has_old(process, call) && block_enter(process, &key, "
        "&old, 0, true, now))\n\t\tcount_old_removed(process, call);",
        "realloc_has_old(process, call))\n\t\tblock_enter(process, &key, &old, 0, true, now);"),
    "realloc: one that never returns has kept its block": (
        "account/record.bpf.h", "if (is_realloc(call) && !realloc_free_old(process, call, read_epoch()) && call->pointer) {",
        "if (is_realloc(call))\n\t\trealloc_fail(process, call, read_epoch());\n\telse if (0) {"),
    "realloc: a killed thread's block of other books": (
        "account/record.bpf.h", "\tif (!realloc_has_old(process, call))", "\tif (!call->has_old)"),
    "realloc: an unknown block is not counted": (
        "account/record.bpf.h", "call->pointer && !realloc_cuts(call, now))\n\t\tcount_unknown_free(process);",
        "call->pointer)\n\t\trealloc_cuts(call, now);"),
    "realloc: the old block of other books": (
        "account/record.bpf.h", " && !is_clearing(process) && call->image == process->image;",
        " && !is_clearing(process);"),
    "realloc: reallocarray is none": (
        "account/record.bpf.h", "shape == SHAPE_REALLOC || shape == SHAPE_REALLOCARRAY ||",
        "shape == SHAPE_REALLOC ||"),
    "realloc: a killed thread's block is gone": (
        "account/record.bpf.h", "block_put_back(&key, &old);", "-1;"),
    "realloc: a killed thread's block replaces another's": (
        "account/record.bpf.h", "block_put_back(&key, &old);", "block_add(&key, &old, BPF_ANY);"),
    "calloc: the product wraps": (
        "alloc.bpf.c", "return n > most ? ~0ULL : n * size;", "return n * size;"),
    "memalign: the alignment is the size": (
        "alloc.bpf.c", "case SHAPE_MEMALIGN:\n\t\treturn call_begin(thread, cookie, sp, ARG2, 0);",
        "case SHAPE_MEMALIGN:\n\t\treturn call_begin(thread, cookie, sp, ARG1, 0);"),
    "posix_memalign: an error is 64 bits": (
        "account/calls.bpf.h", "if ((__u32)returned)", "if (returned)"),
    "posix_memalign: its error is ignored": ("account/calls.bpf.h", "if ((__u32)returned)", "if (0)"),
    "a failed call is not counted": (
        "account/calls.bpf.h", "\t\tprocess_add_counter(process, COUNTER_failed_calls, 1);\n", ""),
    "free: into books that are closed": (
        "account/calls.bpf.h", "!process || !is_recording(process) || layer", "!process || layer"),
    "free: an unknown block is not counted": (
        "account/record.bpf.h", "\t\tcount_unknown_free(process);\n\t}\n\tif (calls)",
        "\t}\n\tif (calls)"),
    "free(NULL) is a free": (
        "account/calls.bpf.h", "!address || !may_be_known(", "!may_be_known("),

    # custom allocators
    "custom: another position": (
        "alloc.bpf.c", "number_at(ctx, call->size,", "number_at(ctx, call->size % 6 + 1,"),
    "custom: the count is none": ("alloc.bpf.c", "\tif (call->count)\n", "\tif (0)\n"),
    "custom: a size is as wide as its register": (
        "alloc.bpf.c", "call->narrow & NARROW_SIZE", "0"),
    "custom: a count is as wide as its register": (
        "alloc.bpf.c", "call->narrow & NARROW_COUNT", "0"),
    "custom: the count's product may overflow": (
        "alloc.bpf.c", "size = product(number_at(ctx, call->count, call->narrow & NARROW_COUNT), size);",
        "size *= number_at(ctx, call->count, call->narrow & NARROW_COUNT);"),
    "custom: a size that no argument is, is 0": ("alloc.bpf.c", " : call->bytes;", " : 0;"),
    "custom: the first row is for all": ("alloc.bpf.c", "&custom_calls[index]", "&custom_calls[0]"),
    "custom: a free gives out a block": (
        "alloc.bpf.c", "if (COOKIE_SHAPE(cookie) == SHAPE_CUSTOM_FREE)", "if (0)"),
    "custom: what is stored is what is returned": (
        "account/calls.bpf.h", " || shape == SHAPE_CUSTOM_OUT;", ";"),
    "custom: a realloc keeps its old block": (
        "account/record.bpf.h", " || shape == SHAPE_CUSTOM_REALLOC;", ";"),

    # one instant
    "cut: what leaves the map is not handed over": (
        "account/books.bpf.h", "\tblock_hand_over(process, key, block, now);\n\tif (bpf", "\tif (bpf"),
    "cut: what leaves a realloc is not handed over": (
        "account/record.bpf.h", "\tif (call->has_old)\n\t\tblock_hand_over(process, &key, &call->old, now);\n", ""),
    "cut: a realloc that succeeds hands nothing over": (
        "account/record.bpf.h", "\trealloc_hand_over(process, call, now);\n\tif (realloc_has_old(process, call))\n",
        "\tif (realloc_has_old(process, call))\n"),
    "cut: a realloc that fails hands nothing over": (
        "account/record.bpf.h", "\trealloc_hand_over(process, call, now);\n\tif (realloc_has_old(process, call) &&",
        "\tif (realloc_has_old(process, call) &&"),
    "cut: a thread that is killed hands nothing over": (
        "account/record.bpf.h", "\trealloc_hand_over(process, call, read_epoch());\n", ""),
    "cut: by address only": (
        "account/cut.bpf.h", ".birth_ns = block->birth_ns", ".birth_ns = 0"),
    "cut: blocks have no epoch": (
        "account/record.bpf.h", "\t\t.epoch = now,\n", ""),

    "cut: a realloc that is over is looked into": (
        "pending.bpf.c", "return call->sp && ", "return "),
    "cut: a call without a block is looked into": (
        "pending.bpf.c", "\tif (!call->has_old)\n\t\treturn false;\n", ""),

    # ranges
    "ranges: a cut at the head": ("account/ranges.bpf.h", "address < range->start ? range->start - address : 0", "0"),
    "ranges: a cut at the tail": (
        "account/ranges.bpf.h", "range->end < end ? end - range->end : 0", "0"),
    "ranges: the rest is whole pages": (
        "account/ranges.bpf.h", "range->end < end ? end - range->end : 0",
        "range->end < end ? page_up(end) - range->end : 0"),
    "ranges: the rest has the old epoch": ("account/ranges.bpf.h", "\trange->block.epoch = range->now;\n", ""),
    "ranges: a split is not an allocation": (
        "account/ranges.bpf.h", "\tprocess_add_counter(process, COUNTER_allocations, 1);\n\tcount_sampled", "\tcount_sampled"),
    "ranges: a split is not a sample": (
        "account/ranges.bpf.h", "\tcount_sampled(process, 1);\n", ""),
    "ranges: a split is not of its traceback": (
        "account/ranges.bpf.h", "\t\t__sync_fetch_and_add(&traceback->churn.allocations, 1);\n", "\t\t;\n"),
    "ranges: a split does not raise the peak": (
        "account/ranges.bpf.h", "\traise_peak(process, COUNTER_peak_blocks, blocks + 1);\n", ""),
    "ranges: a part is not freed": (
        "account/ranges.bpf.h", "\tprocess_add_counter(process, COUNTER_freed_bytes, size - head - tail);\n", ""),
    "ranges: only the nearest is cut": (
        "account/ranges.bpf.h", "\t\tcut_block(process, range, key.address);\n\treturn 0;",
        "\t\tcut_block(process, range, key.address);\n\treturn range->is_done = 1;"),
    "ranges: what came meanwhile is cut": (
        "account/ranges.bpf.h", "range->born_before && block->birth_ns >= range->born_before", "0"),
    "ranges: what cannot be is done": (
        "account/ranges.bpf.h", "bytes && !(address & PAGE_MASK) && address < ADDRESS_MAX &&\n"
        "\t       bytes <= ADDRESS_MAX - address", "1"),
    "ranges: unaligned ones are rounded": ("account/ranges.bpf.h", "!(address & PAGE_MASK) && ", ""),
    "ranges: to the end of all addresses": (
        "account/ranges.bpf.h", " &&\n\t       bytes <= ADDRESS_MAX - address", ""),
    "ranges: the lock is not asked for": (
        "account/ranges.bpf.h", "__sync_val_compare_and_swap(&process->mappings_lock, 0, 1)", "0"),
    "ranges: a lock not had is not said": (
        "account/ranges.bpf.h", "\tif (!is_ours)\n\t\tprocess_count_loss(process, LOSS_ranges_missed);\n", ""),
    "ranges: without room for its start it is there": (
        "account/ranges.bpf.h", "if (!starts_add(range->image, address >> PAGE_SHIFT) &&",
        "starts_add(range->image, address >> PAGE_SHIFT);\n\tif (1 &&"),
    "ranges: munmap always succeeds": (
        "alloc.bpf.c", " || munmap_fails(ARG1, ARG2)", ""),
    "ranges: munmap fails at the limit, whatever it parts": (
        "account/ranges.bpf.h", "return vma.start < address && address + page_up(bytes) < vma.end;", "return 1;"),
    "ranges: munmap may fail unsaid": (
        "account/ranges.bpf.h", "&vma, 0) == -EBUSY)\n\t\tprocess_count_loss(process, LOSS_ranges_missed);", "&vma, 0))\n\t\t;"),
    "ranges: without room its start stays": (
        "account/ranges.bpf.h", "\t\treturn 0;\n\tstarts_remove(range->image, address >> PAGE_SHIFT);\n", "\t\treturn 0;\n"),
    "ranges: what has no room is not said": (
        "account/ranges.bpf.h", "\tdrop_unnoted(process);\n\treturn -1;", "\treturn -1;"),
    "ranges: a rest without room stays in the sums": (
        "account/ranges.bpf.h", "\t\tcount_removed_mapping(process, bytes);\n}", "\t\t;\n}"),
    "ranges: an mremap that never returns is not said": (
        "account/record.bpf.h", "\t\t\tprocess_count_loss(process, LOSS_ranges_missed);", "\t\t\t;"),
    "ranges: without memory for the thread it is not said": (
        "account/calls.bpf.h", "\tif (!thread && layer == LAYER_MAPPING)\n\t\tprocess_count_loss(process, LOSS_threads_dropped);\n", ""),
    "ranges: mmap goes over what is there": (
        "account/ranges.bpf.h", "\trange_cut(process, range);\n\trange->block = *block;\n", "\trange->block = *block;\n"),
    "ranges: mremap takes what is larger": (
        "account/ranges.bpf.h", "found && page_up(found->size) == page_up(bytes) && ", "found && "),
    "ranges: mremap leaves its start": (
        "account/ranges.bpf.h", "\t\tstarts_remove(block_key_image(&own), own.address >> PAGE_SHIFT);\n\t\ttaken", "\t\ttaken"),
    "ranges: mremap leaves a part where it was": (
        "account/record.bpf.h", "return call->layer == LAYER_MAPPING &&\n", "return 0 &&\n"),
    "ranges: mremap to 0 is a success": (
        "account/calls.bpf.h", "(!call->size && call->shape != SHAPE_MREMAP)", "!call->size"),
    "ranges: mremap always takes the old one": (
        "alloc.bpf.c", " && !(flags & KEEP_OLD) ? address : 0", " ? address : 0"),
    "ranges: a killed mremap puts back over others": (
        "account/ranges.bpf.h", "return below && key.address + below->size > start;", "return false;"),
    "ranges: a killed mremap forgets the start": (
        "account/ranges.bpf.h", "else if (starts_add(image, own.address >> PAGE_SHIFT) ||", "else if ("),
    "ranges: MAP_FAILED is a mapping": ("account/calls.bpf.h", "returned >= -(__u64)ERRORS ?", "0 ?"),
    "ranges: only MAP_FAILED is a failure": (
        "account/calls.bpf.h", "returned >= -(__u64)ERRORS ?", "returned == ~0ULL ?"),
    "ranges: temporary, whichever thread unmaps": ("account/ranges.bpf.h", "if (address == range->newest &&", "if (range->newest &&"),
    "ranges: none is temporary": ("account/ranges.bpf.h", "if (address == range->newest &&", "if (0 &&"),
    "starts: words that are empty stay": (
        "account/starts.bpf.h", "\t\tbpf_map_delete_elem(&mapping_starts, &key);\n", ""),
    "starts: only the lowest level": (
        "account/starts.bpf.h", "\t\tif (bpf_map_update_elem(&mapping_starts,", "\t\tif (level == 0 && bpf_map_update_elem(&mapping_starts,"),
    "starts: the lowest bit": ("account/starts.bpf.h", "if (word >> step) {", "if (step == 1 && word >> step) {"),

    # blocks
    "blocks: two processes share an address": (
        "account/record.bpf.h", "block_key_of(address, process->image, layer)",
        "block_key_of(address, 1, layer)"),
    "blocks: a missed free is not noticed": (
        "account/books.bpf.h", "key, block, BPF_NOEXIST);", "key, block, BPF_ANY);"),
    "blocks: a missed free stays in the sums": (
        "account/books.bpf.h", "\tcount_removed_block(process, estimate_of(key, missed));\n", ""),
    "blocks: what has no room is counted": (
        "account/record.bpf.h", "\tif (block_enter(process, &key, &block, calls->newest, has_block_share(process), now)) {",
        "\tif (block_enter(process, &key, &block, calls->newest, has_block_share(process), now), 0) {"),
    "blocks: what has no room is not said": (
        "account/books.bpf.h", "\tif (err)\n\t\tdropped_enter(process, key, block->size);\n\treturn err;",
        "\treturn err;"),

    # where young blocks lie
    "nursery: a block that moves is not counted": (
        "account/books.bpf.h", "\tif (place)\n\t\t__sync_fetch_and_add(&place->mapped, n);\n", ""),
    "nursery: nobody looks in the map": (
        "account/books.bpf.h", "NURSERY_IS(state) != NURSERY_BUSY && !place->mapped)", "1)"),
    "nursery: what moves is not handed over": (
        "account/books.bpf.h", "\tif (!is_handed_over(&place->key, &place->block, now))\n\t\treturn -ENOSPC;", "\tif (0)\n\t\treturn -ENOSPC;"),
    "nursery: what was not handed over moves": (
        "account/books.bpf.h", "\tif (!is_handed_over(&place->key, &place->block, now))\n\t\treturn -ENOSPC;",
        "\tif (!is_handed_over(&place->key, &place->block, now) && 0)\n\t\treturn -ENOSPC;"),
    "nursery: what leaves it is not handed over": (
        "account/books.bpf.h", "\t\tblock_hand_over(process, key, block, now);\n\t\tplace_leave", "\t\tplace_leave"),
    "nursery: what can't move is gone": (
        "account/books.bpf.h", "\t\tplace_leave(place, state, NURSERY_FULL);\n\t\treturn false;",
        "\t\tplace_leave(place, state, NURSERY_EMPTY);\n\t\treturn false;"),
    "nursery: who finds its place busy has it": (
        "account/books.bpf.h", "NURSERY_IS(state) == NURSERY_BUSY || !place_seize(place, state)", "!place_seize(place, state)"),
    "nursery: a free that finds it busy says nothing": (
        "account/books.bpf.h", "\tif (err == -EBUSY)\n\t\tprocess_count_loss(process, LOSS_blocks_unsettled);\n", ""),
    "nursery: by address only": (
        "account/nursery.bpf.h", " &&\n\t       lies->image == key->image;", ";"),
    "nursery: what is empty has its last block": (
        "account/nursery.bpf.h", "return NURSERY_IS(state) == NURSERY_FULL && lies", "return lies"),
    "nursery: mappings lie there": (
        "account/nursery.bpf.h", " || block_key_layer(key) == LAYER_MAPPING)", ")"),
    "nursery: a killed realloc's block comes beside a young one": (
        "account/books.bpf.h", "return nursery_has(key) ? -EEXIST : block_add", "return block_add"),
    "nursery: a note comes back beside a young block": (
        "account/dropped.bpf.h", "nursery_has(key) || bpf_map_lookup_elem", "bpf_map_lookup_elem"),

    # shares
    "shares: there is none of blocks": (
        "account/books.bpf.h", "return held_blocks(process) < blocks_most;", "return true;"),
    "shares: a block that comes back needs one": (
        "account/record.bpf.h", "&old, 0, true, now)", "&old, 0, has_block_share(process), now)"),
    "shares: none of young blocks": (
        "account/books.bpf.h", "if (has_share && place && nursery_put", "if (place && nursery_put"),
    "shares: none of mappings": (
        "account/ranges.bpf.h", "\tif (!has_share) {\n\t\tdrop_unnoted(process);\n\t\treturn -1;\n\t}\n", ""),
    "shares: what is left of a mapping needs one": (
        "account/ranges.bpf.h", "range_enter(process, range, address, true)",
        "range_enter(process, range, address, has_block_share(process))"),
    "shares: there is none of notes": (
        "account/dropped.bpf.h", "process->counter[COUNTER_dropped_blocks] <= notes_most && ", ""),
    "shares: there is none of tracebacks": (
        "account/record.bpf.h", "thread && has_traceback_share(process)", "thread"),
    "shares: tracebacks are not counted": (
        "account/record.bpf.h", "\t\tcount_traceback(process);\n", "\t\t;\n"),
    "shares: tracebacks of the image before count": (
        "account/images.bpf.h", "\tprocess->tracebacks = 0;\n", ""),
    "shares: less than none is very much": (
        "account/record.bpf.h", "(__s64)process->tracebacks < (__s64)", "process->tracebacks < "),
    "shares: there is none of slots": (
        "filter/everyone.bpf.h", "\tif (!user_has_share(user))\n\t\treturn PROCESSES_MAX;\n", ""),
    "shares: all users are one": (
        "filter/user.bpf.h", "USER_HASH(uid, settings", "USER_HASH(0, settings"),
    "shares: slots that are given back still count": (
        "filter/everyone.bpf.h", "\tslot_count(user, -1);\n", ""),

    # blocks that had no room
    "dropped: it is not counted": (
        "account/dropped.bpf.h", "\t__sync_fetch_and_add(&process->loss[LOSS_blocks_dropped], 1);\n\tcount_dropped",
        "\tcount_dropped"),
    "dropped: it is not noted": (
        "account/dropped.bpf.h", "\tif (process->counter[COUNTER_dropped_blocks] <= notes_most && "
        "!dropped_note(key, size, BPF_ANY))\n\t\treturn;\n", ""),
    "dropped: what could not be noted is said to be live": (
        "account/dropped.bpf.h", "BPF_ANY))\n\t\treturn;\n\tcount_dropped(process, -1, -size);",
        "BPF_ANY))\n\t\treturn;"),
    "dropped: what could not be noted is not said": (
        "account/dropped.bpf.h", "\tcount_dropped(process, -1, -size);\n\t__sync_fetch_and_add("
        "&process->loss[LOSS_drops_unnoted], 1);\n", "\tcount_dropped(process, -1, -size);\n"),
    "dropped: its free is unknown": (
        "account/record.bpf.h", "return dropped_free(process, &key);", "return false;"),
    "dropped: its note stays": (
        "account/dropped.bpf.h", "\tif (bpf_map_delete_elem(&dropped_blocks, key))\n\t\treturn false;\n", ""),
    "dropped: its free is not counted": (
        "account/dropped.bpf.h", "\t__sync_fetch_and_add(&process->counter[COUNTER_dropped_frees], 1);\n",
        ""),
    "dropped: it is live for ever": (
        "account/dropped.bpf.h", "{\n\tcount_dropped(process, -1, -size);\n"
        "\t__sync_fetch_and_add(&process->counter", "{\n\t__sync_fetch_and_add(&process->counter"),
    "dropped: a missed free is not noticed": (
        "account/books.bpf.h", "\tif (dropped_free(process, key))\n\t\tprocess_count_loss(process, LOSS_blocks_replaced);\n",
        ""),
    "dropped: its realloc frees an unknown block": (
        "account/record.bpf.h", "\tif (!call->has_old)\n\t\tcall->has_dropped =",
        "\tif (0)\n\t\tcall->has_dropped ="),
    "dropped: its realloc frees it at once": (
        "account/record.bpf.h", "call->has_dropped = dropped_take(process, &key, &call->old.size);",
        "dropped_free(process, &key);"),
    "dropped: a failing realloc has freed it": (
        "account/record.bpf.h", "count_old_removed(process, call);\n\telse if (realloc_has_dropped("
        "process, call))\n\t\tdropped_put_back(process, &key, call->old.size);",
        "count_old_removed(process, call);"),
    "dropped: it comes back where another one lies": (
        "account/dropped.bpf.h", " || bpf_map_lookup_elem(&blocks, key);", ";"),
    "dropped: a killed thread's realloc has freed it": (
        "account/record.bpf.h", "\tif (realloc_has_dropped(process, call))\n\t\tdropped_put_back("
        "process, &key, call->old.size);\n\tif (!realloc_has_old", "\tif (!realloc_has_old"),
    "dropped: a killed thread's block lies where a dropped one is": (
        "account/record.bpf.h", "dropped_find(process, &key) ?", "0 ?"),
    "peak: it follows the current": ("account/books.bpf.h", "seen >= current || ", ""),
    "peak: of blocks is not raised": (
        "account/books.bpf.h", "\traise_peak(process, COUNTER_peak_blocks, blocks_before + estimate.blocks);\n", ""),
    "temporary: whichever thread frees it": (
        "account/record.bpf.h", "newest == address &&", "newest &&"),
    "temporary: of another thread at the same address": (
        "account/record.bpf.h", " && block.thread == (__u32)bpf_get_current_pid_tgid())", ")"),
    "temporary: none is known": (
        "account/record.bpf.h", "\tcalls->newest = address;\n", ""),
    "churn: blocks without room count": (
        "account/record.bpf.h", "\tif (block_enter(process, &key, &block, calls->newest",
        "\tif (traceback)\n\t\ttraceback->churn.allocations++;\n\tif (block_enter(process, &key, &block, calls->newest"),

    # tracebacks
    "tracebacks: what has no room is not said": (
        "account/record.bpf.h", "\tprocess_count_loss(process, LOSS_tracebacks_dropped);\n", ""),
    "tracebacks: two processes share one": (
        "unwind/unwind.bpf.h", "settings.hash_seed ^ image", "settings.hash_seed"),
    "tracebacks: only the first frame counts": (
        "unwind/unwind.bpf.h", "i < traceback->nframe; i++)\n\t\thash",
        "i < traceback->nframe && i < 1; i++)\n\t\thash"),
    "tracebacks: the order of frames does not count": (
        "unwind/unwind.bpf.h", "hash = mix(hash ^ traceback->pc[i]) + i;",
        "hash += mix(traceback->pc[i]);"),
    "tracebacks: the limit cuts the total, too": (
        "unwind/unwind.bpf.h", "\twalk->traceback.total_nframe = nr;",
        "\twalk->traceback.total_nframe = nr < settings.traceback_limit ? nr : settings.traceback_limit;"),
    "tracebacks: any frame pointer will do": (
        "unwind/stack_window.bpf.h", "return !(frame_pointer & 7) && frame_pointer - above < FRAME_BYTES_MAX;",
        "return true;"),

    # the life of a process
    "exec: the books go on": (
        "account/images.bpf.h", "\tbegin_anew(process);\n\tprocess->exec_id", "\tprocess->exec_id"),
    "exec: counters stay": (
        "account/images.bpf.h", "\t__builtin_memset(process->counter, 0, COUNTERS_BEFORE_COST);\n", ""),
    "exec: losses stay": (
        "account/images.bpf.h", "\t__builtin_memset(process->loss, 0, sizeof(process->loss));\n", ""),
    "exec: by a thread is not said": (
        "process.bpf.c", "\t\tprocess_count_loss(process, LOSS_execs_unprobed);\n", ""),
    "exec: a free of before is passed on": (
        "process.bpf.c", "\t\tthread->layer[i].freed.address = 0;\n", ""),
    "exec: an image comes twice": (
        "account/images.bpf.h", "process->image = __sync_fetch_and_add(&next_image, 1);\n\tprocess->is_forked",
        "process->image = next_image;\n\tprocess->is_forked"),
    "clear: the books go on": (
        "process.bpf.c", "\tbegin_anew(process);\n\tprocess->clear_cnt++;",
        "\tprocess->clear_cnt++;"),
    "clear: the peak of bytes stays": (
        "process.bpf.c", "\tlower_peak(process, COUNTER_peak_bytes, COUNTER_current_bytes);\n", ""),
    "clear: the peak of blocks stays": (
        "process.bpf.c", "\tlower_peak(process, COUNTER_peak_blocks, COUNTER_current_blocks);\n", ""),
    "clearing: the peak is lowered without another look": (
        "process.bpf.c", "\traise_peak(process, peak, *now);\n", ""),
    "clearing: blocks enter under the mark": (
        "account/admit.bpf.h", "openness(process) == BOOKS_OPEN", "(openness(process) & BOOKS_OPEN)"),
    "clearing: a realloc ends under the mark": (
        "account/calls.bpf.h", "(call->has_old || call->has_dropped) && !is_clearing(process)",
        "(call->has_old || call->has_dropped)"),
    "clearing: a realloc without memory frees under the mark": (
        "account/calls.bpf.h", "layer != LAYER_MAPPING && !is_clearing(process)", "layer != LAYER_MAPPING"),
    "clearing: a realloc that is left frees under the mark": (
        "account/record.bpf.h", "call->has_old && !is_clearing(process) && ", "call->has_old && "),
    "clearing: a note is freed under the mark": (
        "account/record.bpf.h", "call->has_dropped && !is_clearing(process) && ", "call->has_dropped && "),
    "exec: a call stays pending": (
        "process.bpf.c", "\t\tthread->layer[i].call.sp = 0;\n\t\tthread->layer[i].freed",
        "\t\tthread->layer[i].freed"),
    "exit: a pending call is not dropped": (
        "process.bpf.c", "\t\tif (thread->layer[i].call.sp)\n\t\t\tcall_cut_off(books, &thread->layer[i].call);\n",
        "\t\t;\n"),
    "exit: the code of the last thread is the process's": (
        "process.bpf.c", "task->signal->group_exit_code ?: task->exit_code", "task->exit_code"),
    "exit: the first thread ends the process": (
        "process.bpf.c", "task->signal->live.counter || __sync_val", "__sync_val"),
    "exit: the books stay open for who gets the pid": (
        "account/admit.bpf.h", "process && !process->exit_ns ? process : NULL", "process"),
    "threads: without memory a realloc keeps its block": (
        "account/calls.bpf.h", "\t\t\tfree_unthreaded(layer, pointer);\n", "\t\t\t;\n"),
    "threads: without memory posix_memalign frees": (
        "account/calls.bpf.h", "pointer && !is_stored(shape)", "pointer"),
    "threads: no memory for one is not said": (
        "account/calls.bpf.h", "\t\tprocess_count_loss(process, LOSS_threads_dropped);\n", ""),
    # children
    "fork: everybody's children are followed": (
        "process.bpf.c", "parent && parent->follows", "parent"),
    "fork: a thread is a child": (
        "process.bpf.c", "child->tgid == parent->tgid || ", ""),
    "fork: the child is in its parent's books": (
        "process.bpf.c", "\tbegin_first_image(process, shares_memory ? parent : NULL);\n",
        "\tbegin_first_image(process, shares_memory ? parent : NULL);\n\tprocess->image = parent->image;\n"),
    "fork: takes over the books of its pid": (
        "filter/everyone.bpf.h", "&tgid, &slot, BPF_NOEXIST", "&tgid, &slot, BPF_ANY"),
    "books: a thread goes on in those that it has had": (
        "account/thread.bpf.h", "if (process && process->image == thread->image)", "if (process)"),
    "books: exec does not forget whose they were": (
        "process.bpf.c", "\tif (thread)\n\t\tthread->image = 0;\n", ""),
    "fork: takes a slot that is taken": (
        "filter/everyone.bpf.h",
        "if (!slot_taken[slot] && !__sync_val_compare_and_swap(&slot_taken[slot], 0, 1))",
        "if (slot < PROCESSES_MAX)"),
    "fork: a child without books is not counted": (
        "process.bpf.c", "\t\tprocess_count_loss(process, LOSS_processes_dropped);\n", "\t\t;\n"),
    "fork: children's children are not followed": (
        "process.bpf.c", "\tprocess->follows = 1;\n", ""),
    "fork: inherited blocks are unknown": (
        "process.bpf.c", "\tprocess->is_forked = !shares_memory;\n", ""),
    "fork: inherited after an exec": (
        "account/images.bpf.h", "\tprocess->is_forked = 0;\n", ""),
    "fork: the loader is not woken": (
        "process.bpf.c", "\tring(child->tgid);\n", ""),
    "fork: sees returns in another way": (
        "process.bpf.c", "\tprocess->by_ret = parent ? parent->by_ret : rules.by_ret;\n", ""),
    "vfork: books of its own": (
        "process.bpf.c", "\tif (shares_memory)\n\t\tprocess->memory_of = parent->memory_of ?: "
        "(__u32)from->tgid;\n", ""),
    "vfork: of a vforked one": (
        "process.bpf.c", "parent->memory_of ?: (__u32)from->tgid", "(__u32)from->tgid"),
    "vfork: its parent's after the exec": (
        "account/images.bpf.h", "\tprocess->memory_of = 0;\n", ""),
    "vfork: a call cut off is its own": (
        "process.bpf.c", "\tbooks = find_memory_owner(process);\n", "\tbooks = process;\n"),

    # which processes a system-wide recording admits
    "rules: * is one byte at least": (
        "filter/rules.bpf.h", "admission->star_at = admission->at;", "admission->star_at = ++admission->at;"),
    "rules: a pattern need not go to the end": (
        "filter/rules.bpf.h", "admission->matches = !wanted;", "admission->matches = 1;"),
    "rules: only the first try of * counts": (
        "filter/rules.bpf.h", "\tif (!admission->after_star)\n\t\treturn 1;\n", "\treturn 1;\n"),
    "rules: paths begin at their mount": (
        "filter/rules.bpf.h", "\t\treturn leave_mount(admission);\n", "\t\treturn 1;\n"),
    "rules: paths begin at the machine's root": (
        "filter/rules.bpf.h", "admission->node == own_root && admission->mount == own_root_mount", "0"),
    "rules: groups begin at the machine's root": (
        "filter/rules.bpf.h", "admission->node == own_cgroup_root", "0"),
    "rules: hold of a part of a path": (
        "filter/rules.bpf.h", " || admission->is_too_long & 1 << key", ""),
    "rules: one of any kind will do": (
        "filter/rules.bpf.h", "return wanted == found;", "return !wanted || found;"),
    "rules: exclude nobody": (
        "filter/rules.bpf.h", "\t\t\tif (rule_holds(admission, i))\n\t\t\t\treturn false;\n", ""),
    "rules: the recorder is recorded": (
        "filter/rules.bpf.h", " || is_own(task)", ""),
    "everyone: a child is what its parent is, whatever its PID": (
        "process.bpf.c", "rules.everyone && rules.has_pids", "0"),
    "everyone: an exec of another kind goes on": (
        "process.bpf.c", "\telse if (process && !is_admitted)\n\t\tleave_recording(process, task);\n"
        "\treturn !process || !is_admitted;", "\treturn !process;"),
    "everyone: who leaves writes on in its parent's books": (
        "process.bpf.c", "\tforget_calls(task);\n\tprocess->has_left", "\tprocess->has_left"),
    "everyone: who had much leaves nothing": (
        "filter/everyone.bpf.h", "(peak && peak >= rules.min_bytes) || ", ""),
    "everyone: who never allocated is nobody": (
        "filter/everyone.bpf.h", " || may_be_unprobed(process)", ""),
    "everyone: what the loader has is given back": (
        "filter/everyone.bpf.h", " ||\n\t    __sync_val_compare_and_swap(&process->owner, BOOKS_OF_KERNEL, "
        "BOOKS_OF_NOBODY)", ""),
    "everyone: a PID is not free": (
        "filter/everyone.bpf.h", "\tbpf_map_delete_elem(&process_slots, &tgid);\n", ""),
    "everyone: what is left is not counted": (
        "account/images.bpf.h", "\t__sync_fetch_and_add(&stale_blocks, blocks);\n", ""),
    "everyone: what was counted of those with little is lost": (
        "filter/everyone.bpf.h", "\t\t\t__sync_fetch_and_add(&sum->counter[i], process->counter[i]);\n", "\t\t\t;\n"),
    "everyone: losses of those with little are lost": (
        "filter/everyone.bpf.h", "\t\t\t__sync_fetch_and_add(&sum->loss[i], process->loss[i]);\n", "\t\t\t;\n"),
    "everyone: CPU time of those with little is lost": (
        "filter/everyone.bpf.h", "\t__sync_fetch_and_add(&sum->cpu_ns, process->cpu_ns);\n", ""),
    "everyone: bystanders are not counted": (
        "account/cost.bpf.h", "\tif (traps)\n\t\t__sync_fetch_and_add(traps, nr);\n", ""),

    # callers by unwind tables
    "walk: return addresses are looked up themselves": (
        "unwind/unwind_walk.bpf.h", "unwind_rule_at(walk, unwind_rule_address(&walk->frame))",
        "unwind_rule_at(walk, walk->frame.pc)"),
    "walk: what was interrupted is looked up one byte before": (
        "unwind/unwind_walk.bpf.h", "unwind_rule_at(walk, unwind_rule_address(&walk->frame))",
        "unwind_rule_at(walk, walk->frame.pc - 1)"),
    "walk: what was interrupted is a return address": (
        "unwind/unwind_walk.bpf.h", "is_exact || walk->frame.is_exact", "0"),
    "walk: a signal's trampoline was called": (
        "unwind/unwind_walk.bpf.h", "is_exact || walk->frame.is_exact", "is_exact"),
    "walk: what is not code is a frame": (
        "unwind/unwind_walk.bpf.h", "if (walk->is_junk && nr)", "if (0)"),
    "walk: what is not code is the root": (
        "unwind/unwind_rule.bpf.h", "\t\treturn UNWIND_NO_CODE;\n", "\t\treturn UNWIND_ROOT;\n"),
    "hijacked: by order": (
        "unwind/unwind_walk.bpf.h", "BPF_CORE_READ(instance, stack) == walk->frame.sp - 8", "1"),
    "hijacked: not restored": (
        "unwind/unwind_walk.bpf.h", "\t\tend = restore_return_address(walk);\n\treturn end;", "\t\t;\n\treturn end;"),
    "hijacked: only the newest": (
        "unwind/unwind_walk.bpf.h", "i < RETURN_INSTANCES_MAX && instance", "i < RETURN_INSTANCES_MAX - 1 && instance"),
    "hijacked: a lost one takes its callee along": (
        "unwind/unwind_walk.bpf.h", "if (walk->is_junk && nr)", "if (end == UNWIND_NO_CODE && nr)"),
    "trampoline: it is code like any other": (
        "unwind/unwind_walk.bpf.h", "\tif (is_in_trampoline(walk))\n\t\treturn step_from_trampoline(walk);\n", ""),
    "trampoline: nothing is pushed": (
        "unwind/unwind_walk.bpf.h", "\twalk->frame.sp += 8 * pushed;\n", ""),
    "trampoline: pushed to the end": (
        "unwind/unwind_walk.bpf.h", "at < 15 ? 3 : at < 16 ? 2 : 1", "3"),
    "trampoline: pushed from the start": (
        "unwind/unwind_walk.bpf.h", "at < 2 ? at : at < 4 ? 2 : at < 15", "at < 15"),
    "trampoline: the kernel knows after the call, too": (
        "unwind/unwind_walk.bpf.h", "\tif (at <= TRAMPOLINE_SYSCALL)\n\t\treturn", "\tif (1)\n\t\treturn"),
    "trampoline: the stack has it before the call, too": (
        "unwind/unwind_walk.bpf.h", "\tif (at <= TRAMPOLINE_SYSCALL)\n\t\treturn", "\tif (0)\n\t\treturn"),
    "trampoline: its first instruction is a hijacked address": (
        "unwind/unwind_walk.bpf.h", "end == UNWIND_GOES_ON && !walk->frame.is_exact && ", "end == UNWIND_GOES_ON && "),
    "trampoline: what it returns to was interrupted": (
        "unwind/unwind_walk.bpf.h", "\twalk->frame.sp += 8 * pushed;\n\twalk->frame.is_exact = 0;\n",
        "\twalk->frame.sp += 8 * pushed;\n"),
    "guess: not marked": ("unwind/unwind_walk.bpf.h", "\twalk->guessed = end;\n", ""),
    "guess: a wrong one is the end": (
        "unwind/unwind_walk.bpf.h", "end = guessed ?: end;", ";"),
    "guess: for all that follows": (
        "unwind/unwind_walk.bpf.h", "\twalk->guessed = walk->is_junk = 0;\n", "\twalk->is_junk = 0;\n"),
    "guess: also where only tables count": (
        "unwind/unwind_walk.bpf.h", "settings.unwinder == UNWINDER_AUTO &&", "1 &&"),
    "guess: while the table is being made": (
        "unwind/unwind_walk.bpf.h", "(end == UNWIND_NO_TABLE && walk->may_guess)", "end == UNWIND_NO_TABLE"),
    "guess: not in files with a table": (
        "unwind/unwind_walk.bpf.h", "end == UNWIND_NO_RULE || (", "("),
    "guess: never": (
        "unwind/unwind_walk.bpf.h", "\t\tend = step_by_frame_pointer(walk, end);\n", "\t\t;\n"),
    "guess: any frame pointer": (
        "unwind/unwind_walk.bpf.h", "\tif (!frame_pointer_is_sane(at, frame->sp))\n\t\treturn end;\n", ""),
    "code: what is cached holds for ever": (
        "account/record.bpf.h", "(process->code_cnt + code_generation)", "code_generation"),
    "code: what is cached holds for all images": (
        "account/record.bpf.h", "mix(settings.hash_seed ^ process->image) ^\n\t\t\t (process",
        "mix(settings.hash_seed) ^\n\t\t\t (process"),
    "code: places hold for all images": (
        "unwind/unwind_rule.bpf.h", "struct place_key key = { walk->image, address", "struct place_key key = { 0, address"),
    "code: a new mapping is not noted": (
        "process.bpf.c", "\t\tnote_code(process, vma);\n", "\t\t;\n"),
    "code: a vforked child's exec is its parent's": (
        "process.bpf.c", "if (own->memory_of)\n\t\tforget", "if (0)\n\t\tforget"),
    "code: a mapping may be too large": (
        "unwind/unwind_rule.bpf.h", "return nr < UNWIND_REGIONS_MAX ? nr : UNWIND_REGIONS_MAX;", "return nr;"),
    "code: a new mapping does not end what is cached": (
        "process.bpf.c", "\t__sync_fetch_and_add(&process->code_cnt, 1);\n\tif (vma->vm_file)",
        "\tif (vma->vm_file)"),
    "code: found room is still what it was": (
        "process.bpf.c", "\tforget_code(process, address, info->length);\n", ""),
    "code: found room does not end what is cached": (
        "process.bpf.c", "info->length);\n\t__sync_fetch_and_add(&process->code_cnt, 1);\n",
        "info->length);\n"),
    "code: a place is not remembered": (
        "unwind/unwind_rule.bpf.h", "\t\tbpf_map_update_elem(&unwind_places, &key, ret, BPF_ANY);\n\treturn", "\t\t;\n\treturn"),
    "code: what is not known yet is not asked for": (
        "unwind/unwind_rule.bpf.h", "\tif (!object)\n\t\twant_table(&place);\n", ""),
    "code: what is asked for is an empty table": (
        "unwind/unwind_rule.bpf.h", "if (object && !object->wanted_by)", "if (object)"),
    "owner: any process with the parent's PID": (
        "account/admit.bpf.h", "owner && owner->memory == process->memory ? owner : NULL", "owner"),
    "owner: calls that are nobody's are not counted": (
        "account/calls.bpf.h", "\t\tprocess_count_loss(process, LOSS_calls_ownerless);\n", "\t\t;\n"),
    "owner: a free that is nobody's is not counted": (
        "account/calls.bpf.h", "\tif (!process)\n\t\tlose_ownerless();\n", ""),
    "missed: a PID is a process for good": (
        "account/admit.bpf.h", "return process && process_is_of_task(process, task) ? process : NULL;", "return process;"),
    "missed: an end stays unseen": (
        "filter/everyone.bpf.h", "\tend_unseen(task);\n", ""),
    "missed: an end is not counted": (
        "filter/everyone.bpf.h", "\t__sync_fetch_and_add(&gone->loss[LOSS_ends_missed], 1);\n", ""),
    "missed: an exec stays unseen": (
        "account/thread.bpf.h", "\t\tnote_exec(process, task);\n", "\t\t;\n"),
    "missed: an exec stays unseen by who has found its books": (
        "account/cost.bpf.h", "\tthread->image = 0; /* the next", "\t; /* the next"),
    "missed: the first look is an exec": (
        "account/thread.bpf.h", "!= before || !before)", "!= before)"),
    "missed: a vforked child stays in its parent's memory": (
        "account/images.bpf.h", "\tprocess->memory_of = 0;\n", ""),
    "miss: that there is no table is looked up each time": (
        "unwind/unwind_rule.bpf.h", "(end == UNWIND_NO_TABLE && walk->may_guess);", "0;"),
    "miss: what is no code is looked up each time": (
        "unwind/unwind_rule.bpf.h", "return end == UNWIND_NO_CODE || (end", "return (end"),
    "miss: a table that is still to come never comes": (
        "unwind/unwind_rule.bpf.h", "(end == UNWIND_NO_TABLE && walk->may_guess);", "end == UNWIND_NO_TABLE;"),
    "miss: mappings that were busy stay so": (
        "unwind/unwind_rule.bpf.h", "return end == UNWIND_NO_CODE || (end", "return end == UNWIND_BUSY || end == UNWIND_NO_CODE || (end"),
    "miss: of a file without a table nothing is guessed": (
        "unwind/unwind_rule.bpf.h", "\twalk->may_guess = end == UNWIND_NO_TABLE;\n\treturn end;",
        "\twalk->may_guess = 0;\n\treturn end;"),
    "miss: a new table does not end it": (
        "account/record.bpf.h", "(process->code_cnt + code_generation)", "process->code_cnt"),
    "stack: what cannot be read is 0": (
        "unwind/stack_window.bpf.h", "\tif (window_fetch(walk, address))\n\t\treturn -1;\n",
        "\tif (window_fetch(walk, address))\n\t\twalk->word = 0;\n"),
    "stack: only what the window has": (
        "unwind/stack_window.bpf.h", "return bpf_probe_read_user(&walk->word, sizeof(walk->word), (void *)address);",
        "return -1;"),
    "stack: a part of the window is all of it": (
        "unwind/stack_window.bpf.h", "\twalk->window_words = in_page / 8;\n", ""),
    "stack: the window stays": (
        "unwind/stack_window.bpf.h", "\t\twindow_read(walk, address - SAVED_BYTES);\n\tif (window_has(walk, address, &walk->word))\n\t\treturn 0;\n\treturn bpf_probe_read_user(&walk->word, sizeof(walk->word), (void *)address);",
        "\t\t;\n\tif (window_has(walk, address, &walk->word))\n\t\treturn 0;\n\treturn -1;"),
    "walk: its memory is the processor's": (
        "account/record.bpf.h", "traceback_record(caller, process, walk,",
        "traceback_record(caller, process, ({ static struct walk of_cpu; &of_cpu; }),"),

    # which blocks are recorded
    "sample: a block stands for itself": (
        "account/sample.bpf.h", "\tif (!settings.sample_bytes || block_key_layer(key) == LAYER_MAPPING)\n"
        "\t\treturn (struct", "\tif (1)\n\t\treturn (struct"),
    "sample: a mapping stands for several": (
        "account/sample.bpf.h", "\tif (!settings.sample_bytes || block_key_layer(key) == LAYER_MAPPING)\n"
        "\t\treturn (struct", "\tif (!settings.sample_bytes)\n\t\treturn (struct"),
    "sample: weights are rounded down": (
        "account/sample.bpf.h", "(block->size) + chance) >> 16", "(block->size)) >> 16"),
    "sample: an empty block is never drawn": (
        "account/sample.bpf.h", "\treturn size ?: 1;", "\treturn size;"),
    "sample: the next one is as far as the mean": (
        "account/sample.bpf.h", "distance - n : draw_distance();", "distance - n : settings.sample_bytes;"),
    "sample: the first one is as far as the mean": (
        "account/sample.bpf.h", "thread->sample_distance ?: draw_distance();",
        "thread->sample_distance ?: settings.sample_bytes;"),
    "sample: the distance is drawn anew each time": (
        "account/sample.bpf.h", "n < distance ? distance - n : draw_distance();", "draw_distance() + 1;"),
    "sample: a distance is never a byte longer": (
        "account/sample.bpf.h", "\treturn n >= distance;", "\treturn n > distance;"),
    "sample: the lower bits of the mean": (
        "account/sample.bpf.h", " + (log * (mean & 0xffff) >> 32)", ""),
    "sample: the tables are stairs": (
        "account/sample.bpf.h", "(low + ((high - low) * part >> 24))", "low"),
    "sample: the table of weights is stairs": (
        "account/sample.bpf.h", "(low - ((low - high) * (x & 0xffff) >> 16))", "low"),
    "sample: mappings are drawn": (
        "account/sample.bpf.h", "layer == LAYER_MAPPING || is_drawn", "is_drawn"),
    "sample: what is too small is drawn": (
        "account/sample.bpf.h", "\tif (size < settings.min_size ||", "\tif (settings.sample_bytes)\n"
        "\t\tis_drawn(thread, size);\n\tif (size < settings.min_size ||"),
    "sample: samples are not counted": (
        "account/books.bpf.h", "\t\tprocess_add_counter(process, COUNTER_sampled_blocks, n);", "\t\t;"),
    "sample: frees of unknown blocks are counted": (
        "account/record.bpf.h", "\tif (is_selective())\n\t\treturn;\n", ""),
    "sizes: the least one is too small": (
        "account/sample.bpf.h", "size < settings.min_size", "size <= settings.min_size"),
    "sizes: the most is too large": (
        "account/sample.bpf.h", "size > settings.max_size", "size >= settings.max_size"),
    "unwanted: recorded at the return": (
        "account/calls.bpf.h", "\t\t.is_unwanted = is_unwanted,\n", ""),
    "unwanted: what a mapping covers stays": (
        "account/calls.bpf.h", "\t\t\trange_remove(address, call->size, 0, 0, now);", "\t\t\t;"),
    "unwanted: what came before is the newest": (
        "account/calls.bpf.h", "\t\tcalls->newest = 0; /* another block comes now */\n", ""),
    "unwanted: one that never returns is a loss": (
        "account/record.bpf.h", "\tif (!call->is_unwanted || call->has_old || call->has_dropped)\n", ""),
    "follow: the return is never spared": (
        "filter/follow.bpf.h", "\t\treturn seen & FOLLOWED_FOR_GOOD;", "\t\treturn true;"),
    "follow: the return is always spared": (
        "filter/follow.bpf.h", "\t__sync_fetch_and_add(at, 1);\n\treturn true;", "\treturn false;"),
    "follow: what nests is followed no longer than others": (
        "filter/follow.bpf.h", "\t__sync_fetch_and_or(at, FOLLOWED_FOR_GOOD);\n", ""),
    "follow: that it was late is not said": (
        "filter/follow.bpf.h", "\t\t__sync_fetch_and_add(&process->loss[LOSS_nestings_late], 1);", "\t\t;"),
    "follow: realloc(NULL) is realloc": ("filter/follow.bpf.h", "site * 2 + !pointer", "site * 2"),
    "follow: one image learns for all": ("filter/follow.bpf.h", "(image * 128 + site", "(site"),
    "follow: a mapping is not": (
        "filter/follow.bpf.h", " || COOKIE_LAYER(cookie) == LAYER_MAPPING)", ")"),
    "follow: a realloc of a known block is not": (
        "filter/follow.bpf.h", "\tif (is_realloc && pointer && may_be_known(COOKIE_LAYER(cookie), pointer))\n"
        "\t\treturn true;\n", ""),
    "pairing: a block is not counted in": (
        "account/books.bpf.h", "\tblock_counted(key, 1);\n", ""),
    "pairing: a block without room stays counted": (
        "account/books.bpf.h", "\tif (err)\n\t\tblock_counted(key, -1);\n", ""),
    "pairing: a block is not counted out": (
        "account/books.bpf.h", "\tblock_counted(key, -1);\n\treturn true;", "\treturn true;"),
    "pairing: a note is not counted in": (
        "account/dropped.bpf.h", "\tpairing_count(key, 1);\n", ""),
    "pairing: a note is not counted out": (
        "account/dropped.bpf.h", "\tpairing_count(key, -1);\n\treturn true;", "\treturn true;"),
    "pairing: each free is looked up": (
        "account/sample.bpf.h", "\treturn counter && *(volatile __u64 *)counter;", "\treturn true;"),
    "pairing: mappings are counted": (
        "account/sample.bpf.h", "\tif (!is_selective() || block_key_layer(key) == LAYER_MAPPING)\n\t\treturn;",
        "\tif (!is_selective())\n\t\treturn;"),
}


def build(folder):
    """The tests with the BPF code of folder/bpf; None: it does not compile."""
    compiler = shlex.split(os.environ["FAKE_CC"])
    flags = [f"-I{folder}/bpf"] + shlex.split(os.environ["FAKE_CFLAGS"]) + ["-w"]
    objects = [path for path in shlex.split(os.environ["FAKE_OBJ"])
               if pathlib.Path(path).stem not in PROGRAMS]
    for name in PROGRAMS:
        subprocess.run([*compiler, *flags, "-c", f"tests/fake_bpf/{name}.c", "-o",
                        f"{folder}/{name}.o"], check=True)
        objects.append(f"{folder}/{name}.o")
    subprocess.run([*compiler, *flags, *objects, *shlex.split(os.environ["FAKE_LIBS"]),
                    "-lcriterion", "-o", f"{folder}/unit-bpf"],
                   check=True)
    return f"{folder}/unit-bpf"


def fails(program):
    for mode in MODES:
        run = subprocess.run([program, "-q"], env={**os.environ, **mode}, check=False,
                             capture_output=True, timeout=300)
        if run.returncode:
            return True
    return False


def survives(name, folder):
    """Why the mutant counts as a failure; None: a test noticed it."""
    file, old, new = MUTANTS[name]
    path = pathlib.Path(folder) / "bpf" / file
    text = path.read_text(encoding="utf-8")
    if old not in text:
        return f"its text is no longer in {file}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return None if fails(build(folder)) else "no test noticed it"


def main():
    os.chdir(ROOT)
    names = [name for name in MUTANTS
             if len(sys.argv) < 2 or any(word in name for word in sys.argv[1:])]
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree("bpf", f"{folder}/bpf")
            why = survives(name, folder)
        if why:
            failed += 1
            print(f"mutant: {name}: {why}", flush=True)
    print(f"book mutants: {len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
