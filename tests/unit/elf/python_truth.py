# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Checks what a reader says of the CPython that runs this: lines "name value" on the standard input, against its own memory."""
import collections
import ctypes
import sys
import threading

NONE = 0xFFFF
api = ctypes.pythonapi
failures = []


def u64(address):
    return ctypes.c_uint64.from_address(address).value


def u32(address):
    return ctypes.c_uint32.from_address(address).value


def expect(is_true, what):
    if not is_true:
        failures.append(what)


def check_tables(info, bias):
    """The tables hold the functions that the file says, and calls go through them."""
    for domain in range(3):
        for operation in range(4):
            there = u64(bias + info[f"table{domain}"] + 8 * (operation + 1))
            expect(there == bias + info[f"function{domain}.{operation}"], f"table {domain}, function {operation}")


def thread_state(info, bias):
    libc = ctypes.CDLL(None)
    libc.pthread_getspecific.restype = ctypes.c_void_p
    api.PyGILState_GetThisThreadState.restype = ctypes.c_void_p
    state = libc.pthread_getspecific(u32(bias + info["tss_key"]))
    expect(state == api.PyGILState_GetThisThreadState(), "the key of the thread state")
    return state


def check_interpreter(info, bias, state):
    api.PyInterpreterState_Main.restype = ctypes.c_void_p
    main = u64(bias + info["main_interpreter"])
    expect(main == api.PyInterpreterState_Main(), "the main interpreter")
    expect(u64(state + info["tstate_interp"]) == main, "the interpreter of a thread")
    expect(bias + info["type_type"] == id(type), "PyType_Type")
    return main


def check_states(info, bias, main, state):
    """Each thread's state is in the list, and says which thread it is of."""
    expect(u32(bias + info["tss_key"] - 4) == 1, "that there is a key")
    listed, one = [], u64(main + info["states_first"])
    while one and len(listed) < 100:
        listed.append(one)
        one = u64(one + 8)
    expect(state in listed, "the list of states")
    expect(u64(state + info["state_thread"]) == threading.get_ident(), "the thread of a state")


def frames(info, state):
    """(address of the frame, code object) of each frame with Python code, innermost first."""
    frame = u64(state + info["tstate_frame"])
    if info["cframe_frame"] != NONE:
        frame = u64(frame + info["cframe_frame"])
    while frame:
        owner = 0 if info["frame_owner"] == NONE else ctypes.c_uint8.from_address(frame + info["frame_owner"]).value
        if owner < info["owner_shim"]:
            yield frame, u64(frame + info["frame_code"]) & info["code_mask"], owner
        frame = u64(frame + info["frame_back"])


def text_of(info, address):
    state, length = u32(address + info["string_state"]), u64(address + info["string_length"])
    kind, is_ascii = state >> 2 & 7, state >> 6 & 1
    data = ctypes.string_at(address + info["string_ascii" if is_ascii else "string_compact"], length * kind)
    return data.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind])


def check_code(info, address, code):
    expect(u64(address + info["code_filename"]) == id(code.co_filename), "co_filename")
    expect(text_of(info, id(code.co_filename)) == code.co_filename, "the text of a file's name")
    name = getattr(code, "co_qualname", code.co_name)
    expect(text_of(info, u64(address + info["code_name"])) == name, "the name of a function")
    expect(u32(address + info["code_first_line"]) == code.co_firstlineno, "co_firstlineno")
    table = u64(address + info["code_lines"])
    data = ctypes.string_at(table + info["bytes_data"], u64(table + info["bytes_length"]))
    expect(data == (getattr(code, "co_linetable", None) or code.co_lnotab), "the table of lines")


def check_instruction(info, address, code, frame, lasti):
    """The instruction of a frame that has called, in bytes, is f_lasti, or behind it by its inline caches."""
    if info["instruction_kind"] == 2:
        at = u64(frame + info["frame_instruction"]) - address - info["code_instructions"]
        expect(at == lasti, f"an instruction: {at}, f_lasti {lasti}")
        expect(u32(address + info["code_first_traceable"]) < 64, "the first instruction that is traced")
        opcodes = ctypes.string_at(address + info["code_instructions"], len(code.co_code))
        expect(len(opcodes) == len(code.co_code), "the instructions")
    else:
        units = u32(frame + info["frame_instruction"])
        expect(units * (2 if info["instruction_kind"] == 1 else 1) == lasti, f"an instruction: {units}, f_lasti {lasti}")


def check_frames(info, state):
    found = list(frames(info, state))
    true = []
    frame = sys._getframe()
    while frame:
        true.append(frame)
        frame = frame.f_back
    # further in are frames of the functions that read them
    codes = [address for _, address, _ in found]
    expect([id(f.f_code) for f in true] == codes[-len(true):], "the code objects of the frames")
    for frame, (place, address, owner) in zip(true[1:], found[-len(true) + 1:]):
        check_code(info, address, frame.f_code)
        check_instruction(info, address, frame.f_code, place, frame.f_lasti)
        expect(owner == 0, "the owner of a frame")


def in_generator(info, state):
    owner = next(owner for _, code, owner in frames(info, state) if code == id(in_generator.__code__))
    expect(info["frame_owner"] == NONE or owner == info["owner_generator"], "the owner of a generator's frame")
    yield


def check_pools(info, bias, main):
    """The small blocks of this process lie in arenas, and in pools of their size."""
    kept = [object() for _ in range(1000)] + [bytearray(n) for n in range(1, 400, 7)]
    expect(info["pools_known"] == 1, "pymalloc's variables are known")
    base = bias
    if info["in_interpreter"]:
        base = main + info["pools_state"]
        if info["in_interpreter"] == 2:
            base = u64(base)
    arenas, count = u64(base + info["arenas"]), u32(base + info["max_arenas"])
    ranges = [u64(arenas + 48 * i) for i in range(count)]
    ranges = [start for start in ranges if start]
    expect(0 < len(ranges) <= count < 100000, f"{len(ranges)} arenas of {count}")
    inside = sum(any(start <= id(one) < start + info["arena_bytes"] for start in ranges) for one in kept)
    expect(inside == len(kept), f"{inside} of {len(kept)} small objects lie in arenas")
    usable = u64(base + info["usable_arenas"])
    expect(usable == 0 or (usable - arenas) % 48 == 0 and 0 <= (usable - arenas) // 48 < count, "usable_arenas")
    check_used_pools(info, base, ranges)


def check_used_pools(info, base, ranges):
    used = outside = 0
    for size_class in range(32):
        pool = u64(base + info["used_pools"] + 16 * size_class)
        if u64(pool + 16) == pool:
            continue
        used += 1
        outside += not any(start <= pool < start + info["arena_bytes"] for start in ranges)
        expect(pool % info["pool_bytes"] == 0, "a pool's address")
        expect(u32(pool + 36) == size_class, f"the pool of class {size_class} has class {u32(pool + 36)}")
    # an arena may have come since they were listed
    expect(outside * 4 < used, f"{outside} of {used} pools lie in no arena")
    expect(used > 5, f"{used} classes have pools")


def main():
    info = collections.defaultdict(int)
    for line in sys.stdin:
        name, value = line.split()
        info[name] = int(value)
    expect((info["major"], info["minor"], info["micro"]) == sys.version_info[:3], "the version")
    bias = id(type) - info["type_type"]
    expect(ctypes.addressof(ctypes.c_char.in_dll(api, "_PyRuntime")) == bias + info["runtime"], "_PyRuntime")
    check_tables(info, bias)
    state = thread_state(info, bias)
    interpreter = check_interpreter(info, bias, state)
    check_states(info, bias, interpreter, state)
    check_frames(info, state)
    list(in_generator(info, state))
    check_pools(info, bias, interpreter)
    thread = threading.Thread(target=lambda: check_frames(info, thread_state(info, bias)))
    thread.start()
    thread.join()
    if failures:
        sys.exit("wrong: " + "; ".join(sorted(set(failures))))


main()
