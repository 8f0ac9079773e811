# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rules of the accounting, each switched off (tests/mutants): costs, gaps, calls, blocks, shares."""

# name: (file, old text, new text)
MUTANTS = {
    # the cost of probes
    "cost: a stepped trap is like any other": (
        "account/cost.bpf.h", "cookie & COOKIE_STEPPED ? TRAP_STEPPED : TRAP_ENTRY", "TRAP_ENTRY"),
    "cost: the first of a thread is not counted": (
        "account/cost.bpf.h", "\t\tcost_unthreaded(trap);\n", ""),
    "cost: what is left at a thread's end is lost": (
        "process.bpf.c", "\tif (thread)\n\t\tcost_charge_process(process, &thread->cost, 0);\n", ""),
    "cost: begins again with new accounting": (
        "account/thread.bpf.h", "\t__builtin_memset(process->counter, 0, COUNTERS_BEFORE_COST);\n",
        "\t__builtin_memset(process->counter, 0, sizeof(process->counter));\n"),
    "cost: an interrupted program is like any other": (
        "account/cost.bpf.h", "ns < COST_LONGEST_NS ? ns * COST_DISTANCE", "1 ? ns * COST_DISTANCE"),

    # wakeups of the loader, for live bytes and OOM kills
    "ring: at each block beyond": (
        "account/account.bpf.h", "__sync_val_compare_and_swap(&process->ring_at_bytes, at, 0) == at", "1"),
    "ring: one byte late": ("account/account.bpf.h", "at - 1 >= current_bytes", "at - 1 >= current_bytes - 1"),
    "ring: without a threshold": ("account/account.bpf.h", "at - 1 >= current_bytes", "at > current_bytes"),
    "oom: a victim is a thread": ("oom.bpf.c", "tgid = BPF_CORE_READ(task, tgid);", "tgid = BPF_CORE_READ(task, pid);"),
    "oom: the group is the killer's": (
        "oom.bpf.c", "memory_group_of(task);\n\t__sync", "memory_group_of(bpf_get_current_task_btf());\n\t__sync"),
    "oom: threads are reported, too": ("oom.bpf.c", "!task || task->pid != task->tgid", "!task"),
    "oom: no process is its victim": (
        "process.bpf.c", "\tprocess->is_oom_victim = BPF_CORE_READ(task, signal, oom_mm) != NULL;\n", ""),

    # gaps
    "gap: frees are recorded": (
        "account/admit.bpf.h", "openness(process) == ACCOUNT_OPEN && !(process->follows && shared_paused)", "1"),
    "gap: a call from before stays": (
        "account/calls.bpf.h", "\tif (!is_from_before_gap(process, call))\n\t\treturn call_is_stale",
        "\tif (1)\n\t\treturn call_is_stale"),
    "gap: a call from before is gone": (
        "account/calls.bpf.h", "call->return_address || !hijacked_return(call->sp) ||", "1 ||"),
    "gap: a return may be anybody's": (
        "account/calls.bpf.h", "\tif (is_from_before_gap(process, &calls->call))\n\t\treturn 0;",
        "\tif (0)\n\t\treturn 0;"),
    "gap: a realloc in it loses its block": (
        "account/calls.bpf.h", "return (call->has_old || call->has_dropped) &&", "return false &&"),
    "gap: a block from before was replaced": (
        "account/account.bpf.h", "missed->birth_ns < resumed_ns(process)", "0"),
    "gap: all processes go on": (
        "account/admit.bpf.h", " && !(process->follows && shared_paused)", ""),

    # which call is pending
    "stale: a call that has gone stays": (
        "unwind/stack.bpf.h", "\tif (!return_is_kept(thread, call, sp))\n\t\treturn true;\n", ""),
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
    "stacks: a busy mapping lock means another stack": (
        "unwind/stack.bpf.h", "\t\treturn pending_sp - sp < NEAR_BYTES;", "\t\treturn false;"),
    "pending: nothing nests": (
        "account/calls.bpf.h", "\tif (!call_is_over(process, thread, call, sp, site))\n"
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
    "nested: any call decides the owner of the block": (
        "account/calls.bpf.h", "\tif (call->sp == sp)\n\t\tcall->domain", "\tif (sp)\n\t\tcall->domain"),
    "nested: on another stack it is taken for the allocator's own": (
        "account/calls.bpf.h", "\t\t\tprocess_count_loss(process, LOSS_calls_declined);",
        "\t\t\tprocess_add_counter(process, COUNTER_nested_calls, 1);"),
    "declined: where system calls go does not matter": (
        "account/calls.bpf.h", "(cookie & COOKIE_IN_SESSION && is_intercepted(bpf_get_current_task_btf()))", "0"),
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
        "account/calls.bpf.h", "\t\t\tend_by_ret_in(thread, i, returned);",
        "\t\t\treturn end_by_ret_in(thread, i, returned);"),
    "layers: one book for all": (
        "account/record.bpf.h", "block_key_of(address, process->image, layer)",
        "block_key_of(address, process->image, LAYER_HEAP)"),
    "layers: a return in a call of another is a missed one": (
        "account/calls.bpf.h", "\tif (!is_in_call(thread)) {", "\tif (!thread || !thread->layer[layer].call.sp) {"),
    "layers: only the heap's reallocs are looked into": (
        "pending.bpf.c", "for (int i = 0; thread && i < LAYER_NR; i++)", "for (int i = LAYER_HEAP; thread && i < LAYER_MAPPING; i++)"),
    "layers: only the heap's call is dropped at the end": (
        "process.bpf.c", "for (__u32 i = 0; thread && i < layer_nr(); i++)",
        "for (__u32 i = LAYER_HEAP; thread && i < LAYER_MAPPING; i++)"),
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
        "account/calls.bpf.h", "calls, returned, is_python);\n\tcalls->call.sp = 0;\n", "calls, returned, is_python);\n"),
    "return: a function that throws is not seen to return": (
        "account/calls.bpf.h", "process->by_ret || cookie & COOKIE_BY_RET", "process->by_ret"),
    "return: without a call it is not counted": (
        "account/calls.bpf.h", "\t\t\tprocess_count_loss(process, LOSS_returns_unmatched);", "\t\t\t;"),
    "return: a `ret` of another depth": (
        "account/calls.bpf.h", "call->sp == thread->caller.sp - RETURN_POPS && ", ""),
    "return: nothing is popped": ("arch/x86/machine.bpf.h", "#define RETURN_POPS 8", "#define RETURN_POPS 0"),
    "return: into closed accounting": (
        "account/calls.bpf.h", "\tif (is_recording(process) || took_block(process, &calls->call))\n\t\tcall_finish", "\tcall_finish"),
    "return: a `ret` into closed accounting": (
        "account/calls.bpf.h", "\telse if (is_recording(process) || took_block(process, &calls->call))\n\t\tcall_finish", "\telse\n\t\tcall_finish"),
    "return: a `ret` to elsewhere": (
        "account/calls.bpf.h", "\tif (is_from_before_gap(process, &calls->call) || !return_is_kept(thread, &calls->call, calls->call.sp))\n"
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
    "realloc: a killed thread's block of other accounting": (
        "account/record.bpf.h", "\tif (!realloc_has_old(process, call))", "\tif (!call->has_old)"),
    "realloc: an unknown block is not counted": (
        "account/record.bpf.h", "call->pointer && !realloc_cuts(call, now))\n\t\tcount_unknown_free(process);",
        "call->pointer)\n\t\trealloc_cuts(call, now);"),
    "realloc: the old block of other accounting": (
        "account/record.bpf.h", "return call->has_old && !is_clearing(process) && call->image == process->image;",
        "return call->has_old && !is_clearing(process);"),
    "realloc: reallocarray is none": (
        "account/record.bpf.h", "shape == SHAPE_REALLOC || shape == SHAPE_REALLOCARRAY ||",
        "shape == SHAPE_REALLOC ||"),
    "realloc: a killed thread's block is gone": (
        "account/record.bpf.h", "block_put_back(&key, &old);", "-1;"),
    "realloc: a killed thread's block replaces another's": (
        "account/record.bpf.h", "block_put_back(&key, &old);", "block_add(nursery_at(&key), &key, &old, BPF_ANY);"),
    "calloc: the product wraps": (
        "account/calls.bpf.h", "return n > most ? ~0ULL : n * size;", "return n * size;"),
    "memalign: the alignment is the size": (
        "alloc.bpf.c", "case SHAPE_MEMALIGN:\n\t\treturn call_begin(thread, cookie, sp, ARG2, 0);",
        "case SHAPE_MEMALIGN:\n\t\treturn call_begin(thread, cookie, sp, ARG1, 0);"),
    "posix_memalign: an error is 64 bits": (
        "account/calls.bpf.h", "if ((__u32)returned)", "if (returned)"),
    "posix_memalign: its error is ignored": ("account/calls.bpf.h", "if ((__u32)returned)", "if (0)"),
    "calls: a failed one is not counted": (
        "account/calls.bpf.h", "\t} else {\n\t\tprocess_add_counter(process, COUNTER_failed_calls, 1);\n\t}", "\t}"),
    "reported blocks: a failed one is not counted": (
        "account/calls.bpf.h", "\tif (!address)\n\t\tprocess_add_counter(process, COUNTER_failed_calls, 1);\n", ""),
    "reported blocks: inside a call they count twice": (
        "account/calls.bpf.h", " ||\n\t    (is_in_call(thread) && call_is_declined(process, thread, thread->caller.sp, cookie)))", ")"),
    "reported blocks: the place is a return address": (
        "account/calls.bpf.h", "\tthread->caller = caller_at(ctx, CALLER_EXACT);\n\treturn reported",
        "\tthread->caller = caller_at(ctx, CALLER_RETURN);\n\treturn reported"),
    "reported blocks: a count is left out": (
        "account/calls.bpf.h", "cookie, address, product(count, size));", "cookie, address, size);"),
    "free: into closed accounting": (
        "account/calls.bpf.h", "!process || !is_recording(process) || layer", "!process || layer"),
    "free: an unknown block is not counted": (
        "account/record.bpf.h", "\t\tcount_unknown_free(process);\n\t}\n\tif (calls)",
        "\t}\n\tif (calls)"),
    "calls: free(NULL) is a free": (
        "account/calls.bpf.h", "!address || !may_be_known(", "!may_be_known("),

    # user allocators
    "calls: a return at any process's probe": ("alloc.bpf.c", "\tif (of && thread && thread->slot + 1 != of)\n\t\treturn 0;\n", ""),
    "user calls: another argument": ("alloc.bpf.c", "user_argument(ctx, &call->size));", "user_argument(ctx, &call->pointer));"),
    "user calls: the count is none": ("alloc.bpf.c", "product(user_argument(ctx, &call->count), ", "product(1, "),
    "user calls: the count's product may overflow": (
        "alloc.bpf.c", "product(user_argument(ctx, &call->count), user_argument(ctx, &call->size));",
        "user_argument(ctx, &call->count) * user_argument(ctx, &call->size);"),
    "user calls: the first row is for all": ("alloc.bpf.c", "call = &user_calls[index]", "call = &user_calls[0]"),
    "user calls: a free gives out a block": (
        "alloc.bpf.c", "if (settings.has_user_calls && COOKIE_SHAPE(cookie) == SHAPE_USER_FREE)", "if (0)"),
    "user calls: what is stored is what is returned": (
        "account/calls.bpf.h", " || shape == SHAPE_USER_OUT;", ";"),
    "user calls: a realloc keeps its old block": (
        "account/record.bpf.h", " || shape == SHAPE_USER_REALLOC;", ";"),

    # one instant
    "cut: what leaves the map is not handed over": (
        "account/account.bpf.h", "\tblock_hand_over(process, key, block, now);\n\tif (bpf", "\tif (bpf"),
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
        "account/nursery.bpf.h", ".birth_ns = block->birth_ns", ".birth_ns = 0"),
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
        "account/ranges.bpf.h", "\tcount_sampled(process, estimate_of_one(0), 1);\n", ""),
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
    "ranges: pages are of 4 KiB": ("account/ranges.bpf.h", "#define PAGE_MASK settings.page_mask", "#define PAGE_MASK 4095ULL"),
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
        "account/calls.bpf.h", "\tif (!thread && is_mapping(layer))\n\t\tprocess_count_loss(process, LOSS_threads_dropped);\n", ""),
    "ranges: mmap goes over what is there": (
        "account/ranges.bpf.h", "\trange_cut(process, range);\n\trange->block = *block;\n", "\trange->block = *block;\n"),
    "ranges: mremap takes what is larger": (
        "account/ranges.bpf.h", "found && page_up(found->size) == page_up(bytes) && ", "found && "),
    "ranges: mremap leaves its start": (
        "account/ranges.bpf.h", "\t\tstarts_remove(block_key_image(&own), own.address >> PAGE_SHIFT);\n\t\ttaken", "\t\ttaken"),
    "ranges: mremap leaves a part where it was": (
        "account/record.bpf.h", "return is_mapping(call->layer) &&\n", "return 0 &&\n"),
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
    "starts: not the highest bit": ("account/starts.bpf.h", "word |= word >> step;", "word |= step < 8 ? word >> step : 0;"),

    # blocks
    "blocks: two processes share an address": (
        "account/record.bpf.h", "block_key_of(address, process->image, layer)",
        "block_key_of(address, 1, layer)"),
    "blocks: a missed free is not noticed": (
        "account/account.bpf.h", "&key, &block, BPF_NOEXIST);", "&key, &block, BPF_ANY);"),
    "blocks: a missed free stays in the sums": (
        "account/account.bpf.h", "\tcount_removed_block(process, estimate_of(key, missed));\n", ""),
    "blocks: what has no room is counted": (
        "account/record.bpf.h", "\tif (block_enter(process, key, block, newest, has_block_share(process), now))",
        "\tif (block_enter(process, key, block, newest, has_block_share(process), now), 0)"),
    "blocks: what has no room is not said": (
        "account/account.bpf.h", "\tif (err)\n\t\tdropped_enter(process, &key, block.size);\n\treturn err;",
        "\treturn err;"),

    # where young blocks lie
    "nursery: a block that moves is not counted": (
        "account/account.bpf.h", "\tif (place)\n\t\t__sync_fetch_and_add(&place->mapped, n);\n", ""),
    "nursery: the map is not searched": (
        "account/account.bpf.h", "NURSERY_IS(state) != NURSERY_BUSY && !place->mapped)", "1)"),
    "nursery: what moves is not handed over": (
        "account/account.bpf.h", "\tif (!is_handed_over(&place->key, &block, now))\n\t\treturn -ENOSPC;", "\tif (0)\n\t\treturn -ENOSPC;"),
    "nursery: what was not handed over moves": (
        "account/account.bpf.h", "\tif (!is_handed_over(&place->key, &block, now))\n\t\treturn -ENOSPC;",
        "\tif (!is_handed_over(&place->key, &block, now) && 0)\n\t\treturn -ENOSPC;"),
    "nursery: what leaves it is not handed over": (
        "account/account.bpf.h", "\t\tblock_hand_over(process, key, block, now);\n\t\tplace_leave", "\t\tplace_leave"),
    "nursery: what can't move is gone": (
        "account/account.bpf.h", "\t\tplace_leave(place, state, NURSERY_FULL);\n\t\treturn false;",
        "\t\tplace_leave(place, state, NURSERY_EMPTY);\n\t\treturn false;"),
    "nursery: a block that finds its place busy gets it": (
        "account/account.bpf.h", "NURSERY_IS(state) == NURSERY_BUSY || !place_seize(place, state)", "!place_seize(place, state)"),
    "nursery: a free that finds it busy counts nothing": (
        "account/account.bpf.h", "\tif (err == -EBUSY)\n\t\tprocess_count_loss(process, LOSS_blocks_unsettled);\n", ""),
    "nursery: by address only": (
        "account/nursery.bpf.h", " &&\n\t       lies->image == key->image;", ";"),
    "nursery: what is empty has its last block": (
        "account/nursery.bpf.h", "return NURSERY_IS(state) == NURSERY_FULL && lies", "return lies"),
    "nursery: mappings lie there": (
        "account/nursery.bpf.h", " || is_mapping(block_key_layer(key)))", ")"),
    "nursery: a killed realloc's block comes beside a young one": (
        "account/account.bpf.h", "return nursery_has(key) ? -EEXIST : block_add", "return block_add"),
    "nursery: a note comes back beside a young block": (
        "account/account.bpf.h", "nursery_has(key) || bpf_map_lookup_elem", "bpf_map_lookup_elem"),

    # shares
    "shares: there is none of blocks": (
        "account/account.bpf.h", "return held_blocks(process) < blocks_most;", "return true;"),
    "shares: a block that comes back needs one": (
        "account/record.bpf.h", "&old, 0, true, now)", "&old, 0, has_block_share(process), now)"),
    "shares: none of young blocks": (
        "account/account.bpf.h", "if (has_share && place && !block.weight", "if (place && !block.weight"),
    "shares: none of mappings": (
        "account/ranges.bpf.h", "\tif (!has_share) {\n\t\tdrop_unnoted(process);\n\t\treturn -1;\n\t}\n", ""),
    "shares: what is left of a mapping needs one": (
        "account/ranges.bpf.h", "range_enter(process, range, address, true)",
        "range_enter(process, range, address, has_block_share(process))"),
    "shares: there is none of notes": (
        "account/account.bpf.h", "process->counter[COUNTER_dropped_blocks] <= notes_most && ", ""),
    "shares: there is none of tracebacks": (
        "account/record.bpf.h", "thread && has_traceback_share(process)", "thread"),
    "shares: tracebacks are not counted": (
        "account/record.bpf.h", "\t\tcount_traceback(process);\n", "\t\t;\n"),
    "shares: tracebacks of the image before count": (
        "account/thread.bpf.h", "\tprocess->tracebacks = 0;\n", ""),
    "shares: less than none is very much": (
        "account/record.bpf.h", "(__s64)process->tracebacks < (__s64)", "process->tracebacks < "),
    "shares: there is none of slots": (
        "process.bpf.c", "\tif (!user_has_share(user))\n\t\treturn PROCESSES_MAX;\n", ""),
    "shares: all users are one": (
        "filter/rules.bpf.h", "USER_HASH(uid, settings", "USER_HASH(0, settings"),
    "shares: released slots still count": (
        "process.bpf.c", "\tslot_count(user, -1);\n", ""),

    # children in the memory of a process that does not follow its children
    "shared: a child that hit no probe is a loss": (
        "process.bpf.c", "\tif (BPF_CORE_READ(task, utask))\n\t\tprocess_count_loss", "\tif (1)\n\t\tprocess_count_loss"),
    "shared: threads are children": (
        "process.bpf.c", "(flags & (CLONE_VM | CLONE_THREAD)) != CLONE_VM", "!(flags & CLONE_VM)"),
    "shared: a child in memory of its own ends another's": (
        "process.bpf.c", " || BPF_CORE_READ(task, mm) != BPF_CORE_READ(parent, mm)", ""),
    "shared: a child that is not seen to leave is counted": (
        "process.bpf.c", "if (process && !exits_untold)", "if (process)"),
    "shared: children outlive an exec of their parent": (
        "account/thread.bpf.h", "\tprocess->sharers = 0;\n", ""),
}
