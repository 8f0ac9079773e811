# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The rows of mutants.py about CPython: name: (file, old text, new text)."""

MUTANTS = {
    "python: a call by pointer counts at the jump": (
        "python/python_calls.bpf.h", "(!python_calls[row].asks_zf || ZERO_FLAG(ctx))", "true"),
    "python: calloc does not multiply": (
        "python/python_calls.bpf.h", "\t\tret->size = product(count, ret->size);", "\t\t;"),
    "python: size and pointer are swapped": (
        "python/python_calls.bpf.h", "argument_value(ctx, &call->size, &ret->size) || argument_value(ctx, &call->pointer, &ret->pointer)",
        "argument_value(ctx, &call->pointer, &ret->size) || argument_value(ctx, &call->size, &ret->pointer)"),
    "python: small blocks are larger": ("python/python_calls.bpf.h", "#define SMALL_MAX 512", "#define SMALL_MAX 1024"),
    "python: a class has another pool": ("python/python_calls.bpf.h", "(((size) - 1) / CLASS_BYTES)", "((size) / CLASS_BYTES)"),
    "python: a free pool always begins anew": (
        "python/python_calls.bpf.h", "read_half(pool + POOL_CLASS) == class ? read_word(pool + POOL_FREEBLOCK) : ", ""),
    "python: a used pool is never empty": ("python/python_calls.bpf.h", " || header[1] == pool)", ")"),
    "python: an address in no arena is in a pool": (
        "python/python_calls.bpf.h", "\tif (nr >= read_half(base + python->max_arenas))\n\t\treturn 0;\n", ""),
    "python: a realloc always stays": (
        "python/python_calls.bpf.h", "bytes <= room && 4 * bytes > 3 * room ? old", "bytes <= room ? old"),
    "python: a realloc's own malloc counts": (
        "python/python_calls.bpf.h", "address && address == granted &&", "false && address == granted &&"),
    "python: a realloc's own free is unknown": (
        "python/python_calls.bpf.h", "if (thread && thread->python.freed == address)", "if (false)"),
    "python: any call of the heap serves it": (
        "python/python_calls.bpf.h", "\tif (size != thread->python.raw_bytes)\n\t\treturn 1;\n", ""),
    "python: a request of the heap stays": (
        "python/python_calls.bpf.h", "{\n\tthread->python.has_raw = false;\n\tif (size !=", "{\n\tif (size !="),
    "python: the allocator's own memory is Python's": (
        "python/python_calls.bpf.h", "\tif (makes_arena(python))\n\t\treturn 0;\n", ""),
    "python: a block of a new arena is forgotten": (
        "python/python_calls.bpf.h", "\t\tsettle_first(process, thread);\n", "\t\t;\n"),
    "python: only the thread that made an arena finds its block": (
        "python/python_calls.bpf.h", "\tif (!knows_python(process) || !python->deferred.size)",
        "\tif (!knows_python(process) || !python->deferred.size || python->deferred.thread != (__u32)bpf_get_current_pid_tgid())"),
    "python: a realloc into a new arena counts twice": (
        "python/python_calls.bpf.h", "size == python->deferred.size && makes_arena(python)", "false"),
    "python: a raw call of another thread makes the arena": (
        "python/python_calls.bpf.h", "python->deferred.thread == (__u32)bpf_get_current_pid_tgid() &&", "true &&"),
    "python: what a library tells again is there twice": (
        "python/python_calls.bpf.h", "\tpython_remove(process, thread, address);\n\treturn python_enter", "\treturn python_enter"),
    "python: a library's block stays": (
        "python/python_calls.bpf.h", "operation == PYTHON_FREE || operation == PYTHON_UNTRACK || ", "operation == PYTHON_FREE || "),
    "python: other interpreters have the same pools": (
        "python/python_calls.bpf.h", "\treturn !state || read_word(state", "\treturn true || read_word(state"),
    "python: code that was freed keeps its number": (
        "python/frames.bpf.h", "\terr = bpf_map_delete_elem(&python_codes, &key);", "\terr = -1;"),
    "python: code that was freed stays in the cache": ("python/frames.bpf.h", "\t\tcached->check = 0;\n", "\t\t;\n"),
    "python: code that was freed stays with the thread that met it": (
        "python/frames.bpf.h", "\t__sync_fetch_and_add(&process->python.code_ended_nr, 1);\n", ""),
    "python: a thread has met any code": ("python/frames.bpf.h", "if (met->check == check)", "if (met->check)"),
    "python: a place has the thread state of the place before": (
        "python/python_calls.bpf.h", "\tthread->walk.thread_state = 0;\n", ""),
    "python: the layout of an earlier program holds": (
        "python/frames.bpf.h", "python.memory == process->memory;", "python.memory;"),
    "python: more frames count than tracemalloc counts": (
        "python/frames.bpf.h", "\t\ttraceback->total_nframe = FRAMES_MOST;\n", "\t\t;\n"),
    "python: frames behind the eighth are left out": (
        "python/frames.bpf.h", "\tsteps->frame = next;\n\treturn 0;\n", "\tsteps->frame = next;\n\treturn 1;\n"),
    "python: code stays in the cache over a gap": (
        "python/frames.bpf.h", "process->memory) ^ resumed_ns(process));", "process->memory));"),
    "python: no code is marked": ("python/frames.bpf.h", "\t\t__sync_fetch_and_or(mark, bit);\n", "\t\t;\n"),
    "python: any code is in the cache": (
        "python/frames.bpf.h", "if ((*(volatile __u64 *)&cached->check ^ known) == key)", "if (cached->check)"),
    "python: what is behind the window is in it": (
        "python/frames.bpf.h", "at >= walk->frames.room ||", "at >= WINDOW_BYTES ||"),
    "python: the window of the last traceback stays": (
        "python/frames.bpf.h", "\t\t.end = end, .salt", "\t\t.room = walk->frames.room, .end = end, .salt"),
    "python: code holds over a gap": (
        "python/frames.bpf.h", "if (known && known->resumed_ns == new.resumed_ns)", "if (known)"),
    "python: code without room is told": (
        "python/frames.bpf.h", "\t\tnew.id = PYTHON_CODE_UNKNOWN;\n", "\t\t;\n"),
    "python: frames that have not begun count": (
        "python/frames.bpf.h", "at < (__s32)known)", "false)"),
    "python: generators that have not begun do not count": (
        "python/frames.bpf.h", "owner != offsets->owner_generator && at", "at"),
    "python: frames of C code count": (
        "python/frames.bpf.h", "\tif (owner >= offsets->owner_shim)\n\t\treturn;\n", ""),
    "python: instructions are counted in bytes": (
        "python/frames.bpf.h", "code - offsets->code_instructions) >> 1", "code - offsets->code_instructions)"),
    "python: a frame that cannot be read is no loss": (
        "python/frames.bpf.h", "\t\t__sync_fetch_and_add(&process->loss[LOSS_python_frames_broken], 1);\n", "\t\t;\n"),
    "python: each key is one of the first table": (
        "python/frames.bpf.h", "\tif (key >= GLIBC_KEYS_OF_TABLE)\n", "\tif (false)\n"),
    "python: a thread without state is no loss": (
        "python/frames.bpf.h", "\t\t__sync_fetch_and_add(&process->loss[LOSS_python_states_missing], 1);\n", "\t\t;\n"),
    "python: a large block is one of the raw domain": (
        "python/python_calls.bpf.h", "|| (thread->python.has_raw && thread->walk.has_gil);", ";"),
    "mixed: the next C frame has the entry": (
        "python/frames.bpf.h", "return address >= sp && address < callers_sp;", "return address >= callers_sp;"),
    "mixed: each C frame has the entry": (
        "python/frames.bpf.h", "return address >= sp && address < callers_sp;", "return address >= sp;"),
    "mixed: a run has no frame": ("python/frames.bpf.h", "is_rest ? 0 : run->end, run->left);", "is_rest ? 0 : run->end, 0);"),
    "mixed: a run never ends": ("python/frames.bpf.h", "is_rest ? 0 : run->end, run->left);", "0, run->left);"),
    "mixed: the rest is left out": ("python/frames.bpf.h", "\t\tmixed_take_run(walk, process, true);\n", "\t\t;\n"),
    "mixed: the rest is not counted": (
        "python/frames.bpf.h", "\t\t\tprocess_count_loss(process, LOSS_python_frames_unplaced);\n", "\t\t\t;\n"),
    "mixed: the stack's words stay in the window": ("python/frames.bpf.h", "\twalk->window_words = 0;", "\t;"),
    "mixed: Python code is exact": ("python/frames.bpf.h", "\t\tclear_bit(walk->traceback.exact, nr);\n", ""),
    "mixed: 3.11 has entries as 3.12": (
        "python/frames.bpf.h", "return offsets->cframe_back != PYTHON_NO_OFFSET;", "return false;"),
    "native: the registers are lost": (
        "python/python_calls.bpf.h", "\tpython_note_place(ctx, thread, CALLER_EXACT);\n\tif (python_read", "\tif (python_read"),
    "native: the place of a probe is a return address": (
        "python/python_calls.bpf.h", "caller_at(ctx, kind);", "caller_at(ctx, CALLER_RETURN);"),
    "creations: a new block is walked again": (
        "python/creations.bpf.h", "return address && address != fresh ?", "return address ?"),
    "creations: a block is new forever": ("python/creations.bpf.h", "\tthread->python.fresh = 0;\n", ""),
    "creations: a block is new after other calls": (
        "python/python_calls.bpf.h", "\tthread->python.fresh = 0;\n", ""),
    "creations: objects begin where their blocks do": (
        "python/creations.bpf.h", "\tif (flags & PYTHON_TYPE_HAS_GC)\n\t\tobject -= offsets->object_header;\n", ""),
    "creations: nothing else is before an object": (
        "python/creations.bpf.h", "return flags & PYTHON_TYPE_HAS_PREHEADER ? object - offsets->object_preheader : object;",
        "return object;"),
    "creations: the traceback stays": ("python/creations.bpf.h", "\tblock.traceback = hash;\n", ""),
    "creations: the birth stays": ("python/creations.bpf.h", "\tblock.birth_ns = bpf_ktime_get_ns();\n", ""),
    "creations: the epoch stays": ("python/creations.bpf.h", "\tblock.epoch = now;\n", ""),
    "creations: a block of a new arena is not looked for": (
        "python/creations.bpf.h", "\tsettle_first(process, thread);\n", ""),
    "creations: what cannot be read is no loss": (
        "python/creations.bpf.h", "\t\tprocess_count_loss(process, LOSS_python_calls_unread);\n", "\t\t;\n"),
    "growth: a pool is one block": (
        "python/python_calls.bpf.h", "python_record(thread, pool, size, 0, python->pool_bytes);",
        "python_record(thread, pool, size, 0, 0);"),
    "growth: any number is a size class": (
        "python/python_calls.bpf.h", "if (!pool || size > SMALL_MAX) {", "if (!pool) {"),
    "growth: limits of size do not apply": (
        "python/python_calls.bpf.h", "\tif (size < settings.min_size || (settings.max_size && size > settings.max_size))\n"
        "\t\treturn 0;\n\tpython_record", "\tpython_record"),
    "growth: a pool is a thread's newest block": (
        "python/python_calls.bpf.h", "\tthread->layer[LAYER_POOL].newest = 0; /* the pool's end is not the free of a block */\n", ""),
    "growth: large blocks are no samples": (
        "account/sample.bpf.h", "return (struct estimate){ 1, bytes, is_estimating() };",
        "return (struct estimate){ 1, bytes, is_sampling() };"),
    "growth: a code object's end is not noticed": (
        "python/python_calls.bpf.h", "if (operation == PYTHON_FREE || operation == PYTHON_CODE_END)",
        "if (operation == PYTHON_FREE)"),
    "growth: a code object's end frees its block": (
        "python/python_calls.bpf.h", "if (!is_recording(process) || operation == PYTHON_CODE_END)",
        "if (!is_recording(process))"),
    "hooks: a block is as large as what is asked for": (
        "python/python_calls.bpf.h", "__u64 bytes = size + python->hook_bytes, address;", "__u64 bytes = size, address;"),
    "hooks: a realloc's block is as large as what is asked for": (
        "python/python_calls.bpf.h", "bytes = size + python->hook_bytes, room", "bytes = size, room"),
    "hooks: a new arena's block is as large as what is asked for": (
        "python/python_calls.bpf.h", "CLASS_OF(python->deferred.size + python->hook_bytes)", "CLASS_OF(python->deferred.size)"),
    "hooks: the heap is asked for as much as they are": (
        "python/python_calls.bpf.h", "raw_bytes = size + python->hook_bytes ?: 1", "raw_bytes = size ?: 1"),
    "hooks: a large object passes one hook": (
        "python/python_calls.bpf.h", "\tif (!python->hook_bytes || !thread->python.has_raw || size != thread->python.raw_bytes)\n",
        "\tif (true)\n"),
    "hooks: a large object is freed by one hook": (
        "python/python_calls.bpf.h", "return python->hook_bytes && domain != PYTHON_RAW && address &&", "return false &&"),
    "hooks: they give out whole blocks": ("python/python_calls.bpf.h", "\t\tpointer -= python->hook_head;", "\t\t;"),
    "hooks: an object begins with its block": ("python/creations.bpf.h", "\t\taddress -= python->hook_head;\n", "\t\t;\n"),
    "hooks: any domain's call of a raw one counts": (
        "python/python_calls.bpf.h", " &&\n\t       (!python_calls[row].asks_letter || is_of_raw(ctx))", ""),
    "python: layouts hold after an exec": (
        "python/python_calls.bpf.h", "\t\tprocess_count_loss(process, LOSS_python_calls_early);\n", ""),
    "python: the heap counts, too": ("account/calls.bpf.h", "\tif (heap_is_hidden(process, layer))\n\t\treturn 1;\n", ""),
    "python: frees of the heap are unknown": (
        "account/calls.bpf.h", "layer >= LAYER_NR || heap_is_hidden(process, layer))", "layer >= LAYER_NR)"),
    "python: a call of the heap that has begun counts": (
        "account/calls.bpf.h", " || heap_is_hidden(process, call->layer) ||", " ||"),
    "python: a forked child's heap counts": ("process.bpf.c", "\tkeep_python(process, parent);\n", ""),
    "python: one process may have all code objects": (
        "python/frames.bpf.h", "!is_there && python->code_nr >=", "false && python->code_nr >="),
    "python: code that was freed is held": (
        "python/frames.bpf.h", "\t__sync_fetch_and_sub(&python_codes_held, 1);\n", ""),
    "python: other links' phases count for its probes": (
        "alloc.bpf.c", "\telse\n\t\tcost_begin(*ret_thread);\n\treturn !is_bystander;",
        "\telse\n\t\tcost_begin(*ret_thread);\n\treturn !is_bystander && link_counts(*ret_thread, cookie);"),
}
