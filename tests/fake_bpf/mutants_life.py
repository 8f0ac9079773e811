# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The second half of the mutants of mutants.py: dropped blocks, tracebacks, processes, unwinding, sampling."""

# name: (file, old text, new text)
MUTANTS = {
    # blocks that had no room
    "dropped: it is not counted": (
        "account/account.bpf.h", "\t__sync_fetch_and_add(&process->loss[LOSS_blocks_dropped], 1);\n\tcount_dropped",
        "\tcount_dropped"),
    "dropped: it is not noted": (
        "account/account.bpf.h", "\tif (process->counter[COUNTER_dropped_blocks] <= notes_most && "
        "!dropped_note(key, size, BPF_ANY))\n\t\treturn;\n", ""),
    "dropped: what could not be noted is said to be live": (
        "account/account.bpf.h", "BPF_ANY))\n\t\treturn;\n\tcount_dropped(process, -1, -size);",
        "BPF_ANY))\n\t\treturn;"),
    "dropped: what could not be noted is not said": (
        "account/account.bpf.h", "\tcount_dropped(process, -1, -size);\n\t__sync_fetch_and_add("
        "&process->loss[LOSS_drops_unnoted], 1);\n", "\tcount_dropped(process, -1, -size);\n"),
    "dropped: its free is unknown": (
        "account/record.bpf.h", "return dropped_free(process, &key);", "return false;"),
    "dropped: its note stays": (
        "account/account.bpf.h", "\tif (bpf_map_delete_elem(&dropped_blocks, key))\n\t\treturn false;\n", ""),
    "dropped: its free is not counted": (
        "account/account.bpf.h", "\t__sync_fetch_and_add(&process->counter[COUNTER_dropped_frees], 1);\n",
        ""),
    "dropped: it is live for ever": (
        "account/account.bpf.h", "{\n\tcount_dropped(process, -1, -size);\n"
        "\t__sync_fetch_and_add(&process->counter", "{\n\t__sync_fetch_and_add(&process->counter"),
    "dropped: a missed free is not noticed": (
        "account/account.bpf.h", "\tif (dropped_free(process, &key))\n\t\tprocess_count_loss(process, LOSS_blocks_replaced);\n",
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
        "account/account.bpf.h", " || bpf_map_lookup_elem(&blocks, key);", ";"),
    "dropped: a killed thread's realloc has freed it": (
        "account/record.bpf.h", "\tif (realloc_has_dropped(process, call))\n\t\tdropped_put_back("
        "process, &key, call->old.size);\n\tif (!realloc_has_old", "\tif (!realloc_has_old"),
    "dropped: a killed thread's block lies where a dropped one is": (
        "account/record.bpf.h", "dropped_find(process, &key) ?", "0 ?"),
    "peak: it follows the current": ("account/account.bpf.h", "seen >= current || ", ""),
    "peak: of blocks is not raised": (
        "account/account.bpf.h", "\traise_peak(process, COUNTER_peak_blocks, blocks_before + estimate.blocks);\n", ""),
    "temporary: whichever thread frees it": (
        "account/record.bpf.h", "newest == address &&", "newest &&"),
    "temporary: of another thread at the same address": (
        "account/record.bpf.h", " && block.thread == (__u32)bpf_get_current_pid_tgid())", ")"),
    "temporary: none is known": (
        "account/record.bpf.h", "now, is_python) ? address : 0;", "now, is_python) ? 0 : 0;"),
    "churn: blocks without room count": (
        "account/record.bpf.h", "\tif (block_enter(process, key, block, newest",
        "\tif (traceback)\n\t\ttraceback->churn.allocations++;\n\tif (block_enter(process, key, block, newest"),

    # tracebacks
    "tracebacks: what has no room is not said": (
        "account/record.bpf.h", "\tprocess_count_loss(process, LOSS_tracebacks_dropped);\n", ""),
    "tracebacks: two processes share one": (
        "unwind/unwind.bpf.h", "settings.hash_seed ^ image", "settings.hash_seed"),
    "tracebacks: only the first frame counts": (
        "unwind/unwind.bpf.h", "i < limit && i < nframe; i += 2", "i < 1; i += 2"),
    "tracebacks: every second frame counts": (
        "unwind/unwind.bpf.h", "odd = mix(odd ^ traceback->pc[i + 1]) + i;", ";"),
    "tracebacks: the order of frames does not count": (
        "unwind/unwind.bpf.h", "even = mix(even ^ traceback->pc[i]) + i;", "even += mix(traceback->pc[i]);"),
    "tracebacks: the limit cuts the total, too": (
        "unwind/unwind.bpf.h", "\t}\n\twalk->traceback.total_nframe = nr;",
        "\t}\n\twalk->traceback.total_nframe = nr < settings.traceback_limit ? nr : settings.traceback_limit;"),
    "tracebacks: any frame pointer will do": (
        "unwind/unwind.bpf.h", "return !(frame_pointer & 7) && frame_pointer - above < FRAME_BYTES_MAX;",
        "return true;"),

    # the life of a process
    "exec: the accounting goes on": (
        "account/thread.bpf.h", "\tbegin_anew(process);\n\tprocess->exec_id", "\tprocess->exec_id"),
    "exec: counters stay": (
        "account/thread.bpf.h", "\t__builtin_memset(process->counter, 0, COUNTERS_BEFORE_COST);\n", ""),
    "exec: losses stay": (
        "account/thread.bpf.h", "\t__builtin_memset(process->loss, 0, sizeof(process->loss));\n", ""),
    "exec: by a thread is not said": (
        "process.bpf.c", "\t\tprocess_count_loss(process, LOSS_execs_unprobed);\n", ""),
    "exec: a free of before is passed on": (
        "process.bpf.c", "\t\tthread->layer[i].freed.address = 0;\n", ""),
    "exec: an image comes twice": (
        "account/thread.bpf.h", "process->image = __sync_fetch_and_add(&next_image, 1);\n\tprocess->sampler_image",
        "process->image = next_image;\n\tprocess->sampler_image"),
    "clear: the accounting goes on": (
        "process.bpf.c", "\tbegin_anew(process);\n\tprocess->clear_cnt++;",
        "\tprocess->clear_cnt++;"),
    "clear: the peak of bytes stays": (
        "process.bpf.c", "\tlower_peak(process, COUNTER_peak_bytes, COUNTER_current_bytes);\n", ""),
    "clear: the peak of blocks stays": (
        "process.bpf.c", "\tlower_peak(process, COUNTER_peak_blocks, COUNTER_current_blocks);\n", ""),
    "clearing: the peak is lowered without another look": (
        "process.bpf.c", "\traise_peak(process, peak, *now);\n", ""),
    "clearing: blocks enter under the mark": (
        "account/admit.bpf.h", "openness(process) == ACCOUNT_OPEN", "(openness(process) & ACCOUNT_OPEN)"),
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
        "process.bpf.c", "\t\tif (thread->layer[i].call.sp)\n\t\t\tcut_off_call(thread, i);\n",
        "\t\t;\n"),
    "exit: the code of the last thread is the process's": (
        "process.bpf.c", "BPF_CORE_READ(task, signal, group_exit_code) ?: task->exit_code", "task->exit_code"),
    "exit: the first thread ends the process": (
        "process.bpf.c", "BPF_CORE_READ(task, signal, live.counter) || __sync_val", "__sync_val"),
    "exit: the accounting stays open for the next process of the pid": (
        "account/admit.bpf.h", "process && !process->exit_ns ? process : NULL", "process"),
    "threads: without memory a realloc keeps its block": (
        "account/calls.bpf.h", "\t\t\tfree_unthreaded(layer, pointer);\n", "\t\t\t;\n"),
    "threads: without memory posix_memalign frees": (
        "account/calls.bpf.h", "pointer && !is_stored(shape)", "pointer"),
    "threads: one that is kept from its state tries once": (
        "account/thread.bpf.h", "THREAD_LOSSES ? THREAD_TRIES : 1", "THREAD_LOSSES ? 1 : 1"),
    "threads: without memory the tries go on": (
        "account/thread.bpf.h", "THREAD_LOSSES ? THREAD_TRIES : 1", "THREAD_LOSSES ? THREAD_TRIES : 2"),
    "threads: no memory for one is not said": (
        "account/calls.bpf.h", "\t\tprocess_count_loss(process, thread ? LOSS_calls_declined : LOSS_threads_dropped);\n", ""),
    # children
    "fork: children of all processes are followed": (
        "process.bpf.c", "parent && parent->follows", "parent"),
    "fork: a thread is a child": (
        "process.bpf.c", "child->tgid == parent->tgid || ", ""),
    "fork: the child is in its parent's accounting": (
        "process.bpf.c", "\tbegin_first_image(process, parent, shares_memory);\n",
        "\tbegin_first_image(process, parent, shares_memory);\n\tprocess->image = parent->image;\n"),
    "fork: takes over the accounting of its pid": (
        "process.bpf.c", "&tgid, &slot, BPF_NOEXIST", "&tgid, &slot, BPF_ANY"),
    "accounting: a thread goes on in the one that it had": (
        "account/thread.bpf.h", "if (process && process->image == thread->image)", "if (process)"),
    "accounting: exec does not forget the owner": (
        "process.bpf.c", "\tif (thread)\n\t\tthread->image = 0;\n", ""),
    "fork: takes a slot that is taken": (
        "process.bpf.c",
        "if (!slot_taken[slot] && !__sync_val_compare_and_swap(&slot_taken[slot], 0, 1))",
        "if (slot < PROCESSES_MAX)"),
    "fork: a child without accounting is not counted": (
        "process.bpf.c", "\t\tprocess_count_loss(process, LOSS_processes_dropped);\n", "\t\t;\n"),
    "fork: children's children are not followed": (
        "process.bpf.c", "\tprocess->follows = 1;\n\tprocess->parent", "\tprocess->parent"),
    "fork: inherited blocks are unknown": (
        "process.bpf.c", "\tprocess->is_forked = !shares_memory;\n", ""),
    "fork: inherited after an exec": (
        "account/thread.bpf.h", "\tprocess->is_forked = 0;\n", ""),
    "fork: the loader is not woken": (
        "process.bpf.c", "\tring(child->tgid);\n", ""),
    "fork: sees returns in another way": (
        "process.bpf.c", "\tprocess->by_ret = parent ? parent->by_ret : rules.by_ret;\n", ""),
    "vfork: accounting of its own": (
        "process.bpf.c", "\tif (shares_memory)\n\t\tprocess->memory_of = parent->memory_of ?: "
        "(__u32)from->tgid;\n", ""),
    "vfork: of a vforked one": (
        "process.bpf.c", "parent->memory_of ?: (__u32)from->tgid", "(__u32)from->tgid"),
    "vfork: its parent's after the exec": (
        "account/thread.bpf.h", "\tprocess->memory_of = 0;\n", ""),
    "vfork: a call cut off is its own": (
        "process.bpf.c", "struct process *account = current_process();", "struct process *account = own_process();"),

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
    "rules: the recorder's own group is the root": (
        "admissible.bpf.c", "\tif (!admission->is_too_long)\n", "\tif (0)\n"),
    "rules: hold of a part of a path": (
        "filter/rules.bpf.h", " || admission->is_too_long & 1 << key", ""),
    "rules: one of any kind will do": (
        "filter/rules.bpf.h", "return wanted == found;", "return !wanted || found;"),
    "rules: exclude no process": (
        "filter/rules.bpf.h", "\t\t\tif (rule_holds(admission, i))\n\t\t\t\treturn false;\n", ""),
    "rules: the recorder is recorded": (
        "filter/rules.bpf.h", " || is_own(task)", ""),
    "system-wide: a child is what its parent is, whatever its PID": (
        "process.bpf.c", "rules.system_wide && rules.has_pids", "0"),
    "system-wide: an exec of another kind goes on": (
        "process.bpf.c", "\telse if (process && !is_admitted)\n\t\tleave_recording(process, task);\n"
        "\treturn !process || !is_admitted;", "\treturn !process;"),
    "system-wide: a child that leaves writes on in its parent's accounting": (
        "process.bpf.c", "\tforget_calls(task);\n\tprocess->has_left", "\tprocess->has_left"),
    "system-wide: a process that had much leaves nothing": (
        "process.bpf.c", "(most && most >= rules.min_bytes) || ", ""),
    "system-wide: a process that never allocated is no process": (
        "process.bpf.c", " || may_be_unprobed(process)", ""),
    "system-wide: a slot that the loader has is released": (
        "process.bpf.c", " ||\n\t    __sync_val_compare_and_swap(&process->owner, ACCOUNT_OF_KERNEL, "
        "ACCOUNT_OF_NOBODY)", ""),
    "system-wide: a PID is not free": (
        "process.bpf.c", "\tbpf_map_delete_elem(&process_slots, &tgid);\n", ""),
    "system-wide: a process that left nothing is not counted": (
        "account/thread.bpf.h", "\t__sync_fetch_and_add(&stale_blocks, blocks);\n", ""),
    "system-wide: counters of processes with little are lost": (
        "process.bpf.c", "\t\t\t__sync_fetch_and_add(&sum->counter[i], process->counter[i]);\n", "\t\t\t;\n"),
    "system-wide: losses of processes with little are lost": (
        "process.bpf.c", "\t\t\t__sync_fetch_and_add(&sum->loss[i], process->loss[i]);\n", "\t\t\t;\n"),
    "system-wide: CPU time of processes with little is lost": (
        "process.bpf.c", "\t__sync_fetch_and_add(&sum->cpu_ns, process->cpu_ns);\n", ""),
    "system-wide: bystanders are not counted": (
        "account/cost.bpf.h", "\tif (traps)\n\t\t__sync_fetch_and_add(traps, nr);\n", ""),

    # callers by unwind tables
    "known walk: words do not matter": (
        "unwind/known_walks.bpf.h", "sum = (sum ^ word) *", "sum = sum *"),
    "known walk: the frame pointer never matters": ("unwind/unwind.bpf.h", "\twalk_uses_fp(walk, unwind_uses_fp(rule));\n", ""),
    "known walk: every saved word matters": (
        "unwind/unwind.bpf.h", "\telse if (ret_word == &walk->frame.fp)\n\t\twalk->fp_from = address;\n", ""),
    "known walk: has the kernel's return addresses": (
        "unwind/unwind.bpf.h", "\n\twalk->depends_on_more = 1;\n\tif (!return_address)", "\n\tif (!return_address)"),
    "known walk: ends where mappings were busy": (
        "unwind/unwind_rule.bpf.h", "\t\twalk->depends_on_more = 1;\n", ""),
    "known walk: by frame pointers": (
        "account/record.bpf.h", "return settings.unwinder != UNWINDER_FP &&", "return"),
    "known walk: of two writers": (
        "unwind/known_walks.bpf.h", "is_known ? traceback : 0", "traceback"),
    "walk: return addresses are looked up themselves": (
        "unwind/unwind.bpf.h", "unwind_rule_at(walk, unwind_rule_address(&walk->frame))",
        "unwind_rule_at(walk, walk->frame.pc)"),
    "walk: what was interrupted is looked up one byte before": (
        "unwind/unwind.bpf.h", "unwind_rule_at(walk, unwind_rule_address(&walk->frame))",
        "unwind_rule_at(walk, walk->frame.pc - 1)"),
    "walk: what was interrupted is a return address": (
        "unwind/unwind.bpf.h", "walk->was_exact |= walk->frame.is_exact", "walk->was_exact = 0"),
    "walk: a signal's trampoline was called": (
        "unwind/unwind.bpf.h", "\twalk->was_exact |= walk->frame.is_exact;\n", ""),
    "walk: what is not code is a frame": (
        "unwind/unwind.bpf.h", "if (walk->is_junk && nr)", "if (0)"),
    "walk: what is not code is the root": (
        "unwind/unwind_rule.bpf.h", "place.end ? UNWIND_NO_CODE :", "place.end ? UNWIND_ROOT :"),
    "hijacked: by order": (
        "unwind/stack.bpf.h", "BPF_CORE_READ(instance, stack) == hijacked->place", "1"),
    "hijacked: not restored": (
        "unwind/unwind.bpf.h", "\t\tend = restore_return_address(walk);\n\treturn end;", "\t\t;\n\treturn end;"),
    "hijacked: only the newest": (
        "unwind/stack.bpf.h", "bpf_loop(RETURNS_MAX, compare", "bpf_loop(RETURNS_MAX - 1, compare"),
    "hijacked: a lost one takes its callee along": (
        "unwind/unwind.bpf.h", "if (walk->is_junk && nr)", "if (end == UNWIND_NO_CODE && nr)"),
    "trampoline: it is code like any other": (
        "unwind/unwind.bpf.h", "\tif (is_in_trampoline(walk))\n\t\treturn step_from_trampoline(walk);\n", ""),
    "trampoline: nothing is pushed": (
        "unwind/unwind.bpf.h", "\twalk->frame.sp += 8 * TRAMPOLINE_PUSHED(at);\n", ""),
    "trampoline: pushed to the end": (
        "arch/x86/machine.bpf.h", "(at) < 15 ? 3 : (at) < 16 ? 2 : 1", "3"),
    "trampoline: pushed from the start": (
        "arch/x86/machine.bpf.h", "(at) < 2 ? (at) : (at) < 4 ? 2 : (at) < 15", "(at) < 15"),
    "trampoline: the kernel knows after the call, too": (
        "unwind/unwind.bpf.h", "\tif (at <= TRAMPOLINE_SYSCALL)\n\t\treturn", "\tif (1)\n\t\treturn"),
    "trampoline: the stack has it before the call, too": (
        "unwind/unwind.bpf.h", "\tif (at <= TRAMPOLINE_SYSCALL)\n\t\treturn", "\tif (0)\n\t\treturn"),
    "trampoline: its first instruction is a hijacked address": (
        "unwind/unwind.bpf.h", "end == UNWIND_GOES_ON && !walk->frame.is_exact && ", "end == UNWIND_GOES_ON && "),
    "trampoline: what it returns to was interrupted": (
        "unwind/unwind.bpf.h", "\twalk->frame.sp += 8 * TRAMPOLINE_PUSHED(at);\n\twalk->frame.is_exact = 0;\n",
        "\twalk->frame.sp += 8 * TRAMPOLINE_PUSHED(at);\n"),
    "guess: not marked": ("unwind/unwind.bpf.h", "\twalk->guessed = end;\n", ""),
    "guess: a wrong one is the end": (
        "unwind/unwind.bpf.h", "traceback.end = walk->was_guessed ? (int)walk->was_guessed : end;", "traceback.end = end;"),
    "guess: for all that follows": (
        "unwind/unwind.bpf.h", "\twalk->guessed = walk->is_junk = 0;\n", "\twalk->is_junk = 0;\n"),
    "guess: also where only tables count": (
        "unwind/unwind.bpf.h", "settings.unwinder == UNWINDER_AUTO &&", "1 &&"),
    "guess: while the table is being made": (
        "unwind/unwind.bpf.h", "(end == UNWIND_NO_TABLE && walk->may_guess)", "end == UNWIND_NO_TABLE"),
    "guess: not in files with a table": (
        "unwind/unwind.bpf.h", "end == UNWIND_NO_RULE || (", "("),
    "guess: never": (
        "unwind/unwind.bpf.h", "\t\tend = step_by_frame_pointer(walk, end);\n", "\t\t;\n"),
    "guess: any frame pointer": (
        "unwind/unwind.bpf.h", "\tif (!frame_pointer_is_sane(at, frame->sp))\n\t\treturn end;\n", ""),
    "code: what is cached holds for ever": (
        "account/record.bpf.h", "(process->code_cnt + code_generation)", "code_generation"),
    "code: what is cached holds for all images": (
        "account/record.bpf.h", "mix(mix(settings.hash_seed ^ process->image) ^", "mix(mix(settings.hash_seed) ^"),
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
    "code: reused room keeps its old content": (
        "process.bpf.c", "\tforget_code(process, address, info->length);\n", ""),
    "code: found room does not end what is cached": (
        "process.bpf.c", "info->length);\n\t__sync_fetch_and_add(&process->code_cnt, 1);\n",
        "info->length);\n"),
    "code: a place is not remembered": (
        "unwind/unwind_rule.bpf.h", "\tbpf_loop(last - first + 1, note_region, &code, 0);\n", ""),
    "code: a place is remembered for its region only": (
        "unwind/unwind_rule.bpf.h", "known ? 0 : REGIONS_NEAR", "0"),
    "code: a place is remembered around another one": (
        "unwind/unwind_rule.bpf.h", "known ? 0 : REGIONS_NEAR", "REGIONS_NEAR"),
    "code: a place is remembered from its start on": (
        "unwind/unwind_rule.bpf.h", "first = at - first < near ? first : at - near;", ""),
    "code: a place is remembered up to its end": (
        "unwind/unwind_rule.bpf.h", "last = last - at < near ? last : at + near;", ""),
    "code: what is not known yet is not asked for": (
        "unwind/unwind_rule.bpf.h", "\tif (!object)\n\t\twant_table(&file, walk->place.start);\n", ""),
    "code: what is asked for is an empty table": (
        "unwind/unwind_rule.bpf.h", "if (object && !object->wanted_by)", "if (object)"),
    "owner: any process with the parent's PID": (
        "account/admit.bpf.h", "owner && owner->memory == process->memory ? owner : NULL", "owner"),
    "owner: calls without an owner are not counted": (
        "account/calls.bpf.h", "\t\tprocess_count_loss(process, LOSS_calls_ownerless);\n", "\t\t;\n"),
    "owner: a free without an owner is not counted": (
        "account/calls.bpf.h", "\tif (!process)\n\t\tlose_ownerless();\n", ""),
    "missed: a PID is a process for good": (
        "account/admit.bpf.h", "return process && process_is_of_task(process, task) ? process : NULL;", "return process;"),
    "missed: an end stays unseen": (
        "process.bpf.c", "\tend_unseen(task);\n", ""),
    "missed: an end is not counted": (
        "process.bpf.c", "\t__sync_fetch_and_add(&gone->loss[LOSS_ends_missed], 1);\n", ""),
    "missed: an exec stays unseen": (
        "account/thread.bpf.h", "\t\tnote_exec(process, task);\n", "\t\t;\n"),
    "missed: an exec stays unseen by a thread that has found its accounting": (
        "account/cost.bpf.h", "\tthread->image = 0; /* the next", "\t; /* the next"),
    "missed: the first look is an exec": (
        "account/thread.bpf.h", "!= before || !before)", "!= before)"),
    "missed: a vforked child stays in its parent's memory": (
        "account/thread.bpf.h", "\tprocess->memory_of = 0;\n", ""),
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
        "unwind/unwind.bpf.h", "\tif (window_fetch(walk, address))\n\t\treturn -1;\n",
        "\tif (window_fetch(walk, address))\n\t\twalk->word = 0;\n"),
    "stack: only what the window has": (
        "unwind/unwind.bpf.h", "return bpf_probe_read_user(&walk->word, sizeof(walk->word), (void *)address);",
        "return -1;"),
    "stack: a part of the window is all of it": (
        "unwind/unwind.bpf.h", "\twalk->window_words = in_page / 8;\n", ""),
    "stack: the window stays": (
        "unwind/unwind.bpf.h", "\t\twindow_read(walk, address - SAVED_BYTES);\n\tif (window_has(walk, address, &walk->word))\n\t\treturn 0;\n\treturn bpf_probe_read_user(&walk->word, sizeof(walk->word), (void *)address);",
        "\t\t;\n\tif (window_has(walk, address, &walk->word))\n\t\treturn 0;\n\treturn -1;"),
    "walk: its memory is the processor's": (
        "account/record.bpf.h", "traceback_record(caller, process, walk,",
        "traceback_record(caller, process, ({ static struct walk of_cpu; &of_cpu; }),"),

    # which blocks are recorded
    "sample: a block stands for itself": (
        "account/sample.bpf.h", "\tif ((!is_sampling() && !block->weight) || is_mapping(block_key_layer(key)))\n",
        "\tif (1)\n"),
    "sample: a mapping stands for several": (
        "account/sample.bpf.h", "\tif ((!is_sampling() && !block->weight) || is_mapping(block_key_layer(key)))\n",
        "\tif (!is_sampling() && !block->weight)\n"),
    "sample: weights are rounded down": (
        "account/sample.bpf.h", "(block->size) + chance) >> 16", "(block->size)) >> 16"),
    "sample: an empty block is never drawn": (
        "account/sample.bpf.h", "\treturn size ?: 1;", "\treturn size;"),
    "sample: the next one is as far as the mean": (
        "account/sample.bpf.h", "distance - n : draw_distance(mean);", "distance - n : mean;"),
    "sample: the first one is as far as the mean": (
        "account/sample.bpf.h", "thread->sample_distance ?: draw_distance(mean);",
        "thread->sample_distance ?: mean;"),
    "sample: the distance is drawn anew each time": (
        "account/sample.bpf.h", "n < distance ? distance - n : draw_distance(mean);", "draw_distance(mean) + 1;"),
    "sample: a distance is never a byte longer": (
        "account/sample.bpf.h", "\treturn n >= distance;", "\treturn n > distance;"),
    "sample: the lower bits of the mean": (
        "account/sample.bpf.h", " + (log * (mean & 0xffff) >> 32)", ""),
    "sample: the tables are stairs": (
        "account/sample.bpf.h", "(low + ((high - low) * part >> 24))", "low"),
    "sample: the table of weights is stairs": (
        "account/sample.bpf.h", "(low - ((low - high) * (x & 0xffff) >> 16))", "low"),
    "sample: mappings are drawn": (
        "account/sample.bpf.h", "\tif (!is_sampling() || is_mapping(layer))\n\t\treturn true;", "\tif (!is_sampling())\n\t\treturn true;"),
    "sample: what is too small is drawn": (
        "account/sample.bpf.h", "\tif (size < settings.min_size ||", "\tif (is_sampling())\n"
        "\t\tis_drawn(thread, sample_rate_of(process), size);\n\tif (size < settings.min_size ||"),
    "sample: samples are not counted": (
        "account/account.bpf.h", "\t\tprocess_add_counter(process, COUNTER_sampled_blocks, n);", "\t\t;"),
    "rates: a block has the rate in force at its return": (
        "account/record.bpf.h", ".rate = calls->call.rate,", ".rate = process->sample_rate,"),
    "rates: a block has no rate": (
        "account/record.bpf.h", "\t\t.rate = calls->call.rate,\n", ""),
    "rates: a weight is that of the rate in force": (
        "account/sample.bpf.h", "sample_bytes_at(block->rate));", "sample_bytes_at(1));"),
    "rates: a distance outlives its rate": (
        "account/sample.bpf.h", "\t\tthread->sample_distance = 0;\n", "\t\t;\n"),
    "rates: the coarsest one is not kept": (
        "account/sample.bpf.h", "\tnote_sample_rate(process, rate);", "\t;"),
    "rates: only the last one is kept": (
        "account/sample.bpf.h", "__sync_fetch_and_or(&process->sample_rates_used, bit);",
        "process->sample_rates_used = bit;"),
    "rates: that of all processes is not heeded": (
        "account/sample.bpf.h", "\t\trate = least;", "\t\t;"),
    "rates: that of all processes is for those with probes of their own, too": (
        "account/sample.bpf.h", "process->follows ? *(volatile __u64 *)&shared_sample_rate : 0;",
        "*(volatile __u64 *)&shared_sample_rate;"),
    "sample: frees of unknown blocks are counted": (
        "account/record.bpf.h", "\tif (is_selective() || has_sampler(process))", "\tif (has_sampler(process))"),
    "sampler: frees of unknown blocks are counted": (
        "account/record.bpf.h", "\tif (is_selective() || has_sampler(process))", "\tif (is_selective())"),
    "sampler: a sample stands for itself": (
        "account/calls.bpf.h", "weight_of_sample(process, size, weight) : 0,",
        "weight_of_sample(process, size, weight) ? size : 0 : 0,"),
    "sampler: a sample lies in the nursery": (
        "account/account.bpf.h", "place && !block.weight && nursery_put", "place && nursery_put"),
    "sampler: samples are not counted": (
        "account/sample.bpf.h", "\t\t.is_sample = 1,\n", "\t\t.is_sample = is_sampling(),\n"),
    "sampler: calls of malloc enter blocks": (
        "account/calls.bpf.h", " || is_of_sampler(process, layer);", ";"),
    "sampler: a call that is under way enters its block": (
        "account/calls.bpf.h", "call->is_unwanted || is_of_sampler(process, call->layer) ||", "call->is_unwanted ||"),
    "sampler: it takes the place of mmap": (
        "account/calls.bpf.h", "return layer == LAYER_HEAP && has_sampler(process);", "return has_sampler(process);"),
    "sampler: the next program has it, too": (
        "account/thread.bpf.h", "\tprocess->sampler_image = 0;\n", ""),
    "sampler: a clear ends it": (
        "account/thread.bpf.h", "keeps_sampler ? process->image : 0;", "0;"),
    "sampler: a weight of 0": (
        "account/calls.bpf.h", "\tif (!weight || (weight > size", "\tif ((weight > size"),
    "sampler: any weight": (
        "account/calls.bpf.h", "weight - size > SAMPLE_EXCESS_MAX)", "0)"),
    "sampler: a weight below the size is the size": (
        "account/calls.bpf.h", "\tif (weight >= size)\n\t\treturn weight;", "\tif (weight < size)\n\t\treturn size;\n"
        "\tif (weight >= size)\n\t\treturn weight;"),
    "sampler: sizes are not limited": (
        "account/calls.bpf.h", "is_chosen = size >= settings.min_size && (!settings.max_size || size <= settings.max_size);", "is_chosen = true;"),
    "sampler: its place is a return address": (
        "account/calls.bpf.h", "caller_at(ctx, CALLER_EXACT);\n\tsample_record", "caller_at(ctx, CALLER_RETURN);\n\tsample_record"),
    "sampler: values have eight bytes": (
        "account/calls.bpf.h", "(64 - 8 * source->bytes) & 63;", "0;"),
    "sampler: no value has a sign": (
        "account/calls.bpf.h", "return source->is_signed ? (__u64)((__s64)value >> shift) : value >> shift;", "return value >> shift;"),
    "sampler: an index is of bytes": (
        "account/calls.bpf.h", "argument_register(ctx, source->index) * source->scale;", "argument_register(ctx, source->index);"),
    "sampler: memory that cannot be read is 0": (
        "account/calls.bpf.h", "\t*ret = narrow_argument(source, value);\n\treturn err;", "\t*ret = narrow_argument(source, value);\n\treturn 0;"),
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
        "account/calls.bpf.h", "\t\treturn seen & FOLLOWED_FOR_GOOD;", "\t\treturn true;"),
    "follow: the return is always spared": (
        "account/calls.bpf.h", "\t__sync_fetch_and_add(at, 1);\n\treturn true;", "\treturn false;"),
    "follow: what nests is followed no longer than others": (
        "account/calls.bpf.h", "\t__sync_fetch_and_or(at, FOLLOWED_FOR_GOOD);\n", ""),
    "follow: that it was late is not said": (
        "account/calls.bpf.h", "\t\t__sync_fetch_and_add(&process->loss[LOSS_nestings_late], 1);", "\t\t;"),
    "follow: realloc(NULL) is realloc": ("account/calls.bpf.h", "site * 2 + !pointer", "site * 2"),
    "follow: one image learns for all": ("account/calls.bpf.h", "(image * 128 + site", "(site"),
    "follow: a mapping is not": (
        "account/calls.bpf.h", " || is_mapping(COOKIE_LAYER(cookie)))", ")"),
    "follow: a realloc of a known block is not": (
        "account/calls.bpf.h", "\tif (is_realloc && pointer && may_be_known(COOKIE_LAYER(cookie), pointer))\n"
        "\t\treturn true;\n", ""),
    "free_filter: a block is not counted in": (
        "account/account.bpf.h", "\tblock_counted(place, key, 1);\n", ""),
    "free_filter: a block without room stays counted": (
        "account/account.bpf.h", "\tif (err)\n\t\tblock_counted(place, key, -1);\n", ""),
    "free_filter: a block is not counted out": (
        "account/account.bpf.h", "\tblock_counted(place, key, -1);\n\treturn true;", "\treturn true;"),
    "free_filter: a note is not counted in": (
        "account/account.bpf.h", "\tfree_filter_count(key, 1);\n", ""),
    "free_filter: a note is not counted out": (
        "account/account.bpf.h", "\tfree_filter_count(key, -1);\n\treturn true;", "\treturn true;"),
    "free_filter: each free is looked up": (
        "account/sample.bpf.h", "\treturn counter && *(volatile __u64 *)counter;", "\treturn true;"),
    "free_filter: mappings are counted": (
        "account/sample.bpf.h", "\tif (!is_selective() || is_mapping(block_key_layer(key)))\n\t\treturn;",
        "\tif (!is_selective())\n\t\treturn;"),

    "links: all count": ("account/thread.bpf.h", "\treturn counts;\n}", "\treturn true;\n}"),
    "links: each looks for itself": ("account/thread.bpf.h", "\tif (!counts && others_end)\n", "\tif (0)\n"),
    "links: older ones always count": ("account/thread.bpf.h", "thread->links < state", "true"),
    "links: older ones need a note": ("account/thread.bpf.h", "thread->links < state", "thread->links == state - 1"),
    "links: nothing is noted": ("account/thread.bpf.h", "\tthread->links = state;\n", ""),
    "links: those that go count": ("account/thread.bpf.h", "!counts && others_end", "!counts"),
    "links: at a ret all count": (
        "alloc.bpf.c", "\tbarrier_var(returned);\n\tif (!link_counts(thread, cookie))\n\t\treturn 0;\n", ""),

    "pages: a note stays where there is room for a mapping": ("pages.bpf.c", "\trange.nr = info->length >> PAGE_BITS;\n", ""),
    "pages: all notes of a leaf go": (
        "pages.bpf.c", "\t\tif (is_in_range(range, key.leaf << LEAF_BITS | at, &ignored))\n\t\t\tleaf->", "\t\t\tleaf->"),
    "pages: a folio takes all of its leaves": (
        "pages.bpf.c", "\t\tif (is_in_range(range, key.leaf << LEAF_BITS | at, &ignored))\n\t\t\tput", "\t\t\tput"),
    "pages: an mremap that may fail takes its notes away": (
        "pages.bpf.c", "\tto_leaf->traceback[to & (LEAF_PAGES - 1)] = traceback;\n",
        "\tto_leaf->traceback[to & (LEAF_PAGES - 1)] = traceback;\n\tleaf->traceback[from & (LEAF_PAGES - 1)] = PAGE_UNSEEN;\n"),
    "pages: an mremap takes no notes": ("pages.bpf.c", "\tto_leaf->traceback[to & (LEAF_PAGES - 1)] = traceback;\n", ""),
    "pages: any room is an mremap's": ("pages.bpf.c", "SYSCALL_NUMBER_CORE(regs) != NR_MREMAP || ", ""),
    "pages: without room they are not counted": (
        "pages.bpf.c", "\t\tprocess_count_loss(process, LOSS_pages_dropped);\n", ""),
    "pages: a read that may fail brings one": ("pages.bpf.c", "bpf_get_current_task_btf()->pagefault_disabled ? 0 : ", ""),
    "pages: the kernel's are a process's": ("pages.bpf.c", " || (long)address < 0", ""),
    "pages: a tracepoint waits with interrupts off": ("account/thread.bpf.h", "may_wait && ", ""),
    "pages: they come to every process": (
        "pages.bpf.c", "pages_of_all || process->pages_image == process->image", "true"),
    "pages: a next program has them, too": ("account/thread.bpf.h", "\tprocess->pages_image = 0;\n", ""),
    "pages: they end with the traces": ("account/thread.bpf.h", "keeps_pages ? process->image : 0", "0"),
    "pages: a process takes all the room": ("pages.bpf.c", " || (__s64)process->leaves >= (__s64)leaves_most", ""),
    "pages: their leaves are not counted": ("pages.bpf.c", "\t\t__sync_fetch_and_add(&process->leaves, 1);\n", ""),
    "pages: a kernel thread has code": ("pages.bpf.c", "task->flags & PF_IO_WORKER", "0"),
    "pages: they come while nothing is recorded": ("pages.bpf.c", "records_pages(process) && is_recording(process)", "records_pages(process)"),
    "pages: a folio is one page": ("pages.bpf.c", "_flags_1) & 31)", "_flags_1) & 0)"),
    "pages: before 6.6 a folio is one page": ("pages.bpf.c", "_folio_order) & 31)", "_folio_order) & 0)"),
    "pages: another process has code": ("pages.bpf.c", "task->mm == mm && !(task->flags & PF_KTHREAD)", "true"),
    "pages: a kernel thread is the process": ("pages.bpf.c", "task->mm == mm && !(task->flags & PF_KTHREAD)", "task->mm == mm"),
    "pages: any memory is its owner's": ("pages.bpf.c", "owner && owner->mm == mm ?", "owner ?"),
    "pages: a huge page of others takes them over": ("pages.bpf.c", "range->traceback, range->keeps", "range->traceback, false"),
    "pages: readers make a page of others": ("pages.bpf.c", "& ~2ULL) == (__u64)task", "& ~3ULL) == (__u64)task"),
    "pages: an mremap that failed has moved them": ("pages.bpf.c", "(long)to < 0 || to == from ||", "to == from ||"),
    "pages: an mremap in place has moved them": ("pages.bpf.c", "(long)to < 0 || to == from ||", "(long)to < 0 ||"),
    "pages: an old note is where they move to": (
        "pages.bpf.c", "\tforget_pages(&range);\n\tcopy_notes(&range, from);\n\trange", "\tcopy_notes(&range, from);\n\trange"),
    "pages: notes stay where pages moved from": (
        "pages.bpf.c", "\trange.first = from >> PAGE_BITS;\n\tforget_pages(&range);\n", ""),
    "pages: each page is a sample": (
        "pages.bpf.c", "page != chosen_page(unit, pages_shift, settings.hash_seed) || ", ""),
    "pages: a sample stands for itself": ("pages.bpf.c", "(PAGE_BITS + pages_shift)", "PAGE_BITS"),
    "pages: bytes that came before the traces were cleared": ("account/thread.bpf.h", "\tprocess->pages_bytes = 0;\n", ""),
}
