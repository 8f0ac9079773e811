#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Names of 10,000 calls of each program beside llvm-addr2line, eu-addr2line and gdb.

A difference that has a kind of KINDS is counted; one without a kind is a failure. docs/testing.md explains the kinds.
Usage: run.py [PROGRAM…]
"""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
WORKLOADS = HERE.parent / "workloads"
NAMES_OF = os.environ.get("NAMES_OF", ".output/names_of")
CALLS = 10000
SHOWN = 3  # examples of differences without a kind

Frame = collections.namedtuple("Frame", "function file line")

RUST = """use std::collections::HashMap;
fn main() {
    let mut words: HashMap<String, Vec<u64>> = HashMap::new();
    for word in std::env::args() { words.entry(word.clone()).or_default().push(word.len() as u64); }
    println!("{:?}", words);
}
"""
GO = """package main
import ("fmt"; "net/http")
func main() { fmt.Println(http.Get("http://127.0.0.1:1/")) }
"""


def built(folder, name, text, *command):
    """A program of this source; "" if there is no such compiler."""
    if not shutil.which(command[0]):
        return ""
    source, program = folder / name, folder / pathlib.Path(name).stem
    source.write_text(text, encoding="ascii")
    subprocess.run([*command, "-o", program, source], check=True, cwd=folder,
                   env={**os.environ, "GOCACHE": str(folder / "cache"), "GO111MODULE": "off"})
    return program


PROGRAMS = {
    "libc": lambda _: "/lib/x86_64-linux-gnu/libc.so.6",
    "python3": lambda _: shutil.which("python3.11", path="/usr/bin") or "",
    "sqlite3": lambda _: "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
    "redis": lambda _: "/usr/bin/redis-server",
    "clang": lambda _: next(map(str, pathlib.Path("/usr/lib").glob("llvm-*/lib/libclang-cpp.so.*")), ""),
    "c++": lambda folder: built(folder, "templates.cc", (WORKLOADS / "templates.cc").read_text(), "g++", "-g", "-O2", "-static",
                                "-pthread", "-I", WORKLOADS),
    "rust": lambda folder: built(folder, "words.rs", RUST, "/usr/bin/rustc", "-g", "-O"),
    "go": lambda folder: built(folder, "get.go", GO, "go", "build"),
}


# ---- calls ----

def calls_of(path):
    """The addresses behind calls, as many as CALLS, from all of the file."""
    found, is_call = [], False
    with subprocess.Popen(["objdump", "-d", "--no-show-raw-insn", path], stdout=subprocess.PIPE, text=True) as objdump:
        for line in objdump.stdout:
            match = re.match(r"\s*([0-9a-f]+):\t(\S+)", line)
            if match and is_call:
                found.append(int(match[1], 16))
            is_call = match[2] == "call" if match else is_call
    return found[::max(1, len(found) // CALLS)][:CALLS]


def output_of(*command, text=None, **environment):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C.UTF-8", **environment}).stdout


class Symbols:
    """The symbols of a file and of its debug file."""

    def __init__(self, path):
        build_id = re.search(r"Build ID: (\w+)", output_of("readelf", "-n", path))
        debug = f"/usr/lib/debug/.build-id/{build_id[1][:2]}/{build_id[1][2:]}.debug" if build_id else ""
        text = "".join(output_of("nm", "-S", *of) for of in ((path,), ("-D", path), (debug,)))
        self.rows = [(int(address, 16), int(size or "0", 16), without_copies(name))
                     for address, size, name in re.findall(r"(?m)^([0-9a-f]+)(?: ([0-9a-f]+))? \w (\S+)$", text)]
        self.addresses = collections.defaultdict(set)
        for address, _, name in self.rows:
            self.addresses[name].add(address)

    def are_of_one_place(self, name, other):
        return bool(self.addresses[without_copies(name)] & self.addresses[without_copies(other)])

    def has(self, name):
        return bool(self.addresses[name])

    def cover(self, address):
        return any(begin <= address < begin + size for begin, size, _ in self.rows)


# ---- answers: a list of frames for each call, the innermost first ----

def ours(path, calls):
    loads = [[int(number, 16) for number in row] for row in
             re.findall(r"LOAD\s+0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", output_of("readelf", "-lW", path))]
    offsets = (next(call - address + offset for offset, address, size in loads if address < call <= address + size)
               for call in calls)
    answers = []
    for line in output_of(NAMES_OF, path, text="".join(f"{offset:x}\n" for offset in offsets)).splitlines():
        if "\t" not in line:
            answers.append([])
            continue
        function, file, number = line.split("\t")
        answers[-1].append(Frame(function, file, int(number)))
    return answers


def by_addr2line(*command):
    def ask(path, calls):
        answers, function = [], None
        text = "".join(f"{call - 1:#x}\n" for call in calls)
        for line in output_of(*command, "-i", "-f", "-C", "-a", "-e", path, text=text).splitlines():
            if re.fullmatch(r"0x[0-9a-f]+", line):
                answers.append([])
                function = None
            elif function is None:
                function = line
            else:
                place = re.match(r"(.*?):(\d+)(?::\d+)?(?: .*)?$", line)
                file, number = (place[1], int(place[2])) if place else ("", 0)
                answers[-1].append(Frame(function.split(" inlined at ")[0], "" if file == "??" else file, number))
                function = None
        return answers
    return ask


def by_gdb(path, calls):
    """gdb knows the functions of the frames, but only the innermost line."""
    with tempfile.NamedTemporaryFile("w", encoding="ascii") as addresses:
        addresses.write("".join(f"{call - 1:x}\n" for call in calls))
        addresses.flush()
        lines = output_of("gdb", "-nx", "-batch", "-x", str(HERE / "gdb_names.py"), path, ADDRESSES=addresses.name)
    answers = []
    for line in lines.splitlines():
        if line.count("\t") != 2:
            continue
        functions, file, number = line.split("\t")
        frames = [Frame(function, None, None) for function in functions.split("\x1f")]
        answers.append([Frame(frames[0].function, file, int(number)), *frames[1:]])
    return answers


TOOLS = {
    "llvm": by_addr2line("llvm-addr2line", "--debug-file-directory=/usr/lib/debug"),
    "elfutils": by_addr2line("eu-addr2line"),
    "gdb": by_gdb,
}

# ---- differences ----

COPY = re.compile(r"(?:\.(?:part|constprop|isra|cold|lto_priv|llvm|abi0)(?:\.\d+)*)+(?=@|$)")
ENCODED = {"$LT$": "<", "$GT$": ">", "$RF$": "&", "$BP$": "*", "$C$": ",", "$u20$": " ", "$u27$": "'", "$u5b$": "[",
           "$u5d$": "]", "$u7b$": "{", "$u7d$": "}", "$LP$": "(", "$RP$": ")", "..": "::"}


def without_copies(name):
    return COPY.sub("", name).split("@")[0]


OPERATOR = re.compile(r"operator\s*(?:\(\)|\[\]|<=>|(?:<<|>>)=?|->\*?|&&|\|\||[-+*/%^&|=!<>~]=?)")


def last_part(name):
    """The name of a function without its scopes, arguments and types, as each tool writes them in its own way."""
    name = without_copies(re.sub(r" \((?:\.\w+)+\)$| \[clone .*$|->", "", name)).replace("·", ".")
    mangled = re.fullmatch(r"_ZN(.*)17h[0-9a-f]{16}E", name)
    if mangled:
        name = re.sub(r"(?<![0-9a-f$])\d+(?=\D)", "::", mangled[1])
    for code, text in ENCODED.items():
        name = name.replace(code, text)
    name = OPERATOR.sub("operator", re.sub(r"::h[0-9a-f]{16}$", "", name))
    while True:
        shorter = re.sub(r"<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}|#\d+", "", name)
        if shorter == name:
            parts = [part for part in re.split(r"::|\.", re.sub(r" const$", "", name).strip()) if part.strip("_ ")]
            return parts[-1].split(" ")[-1] if parts else name
        name = shorter


class Difference:
    """Frames of a tool beside ours, for one call."""

    def __init__(self, call, mine, theirs, symbols, arbiter):
        self.call, self.mine, self.theirs, self.symbols, self.arbiter = call, mine, theirs, symbols, arbiter

    def names(self):
        """Pairs of functions: those around all others, if the tool has another number of frames."""
        first = 0 if len(self.mine) == len(self.theirs) else -1
        return [(mine.function, theirs.function) for mine, theirs in zip(self.mine[first:], self.theirs[first:])]

    def kinds(self):
        found = set()
        if len(self.mine) != len(self.theirs):
            found.add(self.kind_of_frames())
        else:
            found |= {kind for kind in map(self.kind_of_line, self.mine, self.theirs) if kind}
        return found | {kind for pair in self.names() if (kind := self.kind_of_name(*pair))}

    def kind_of_frames(self):
        if len(self.theirs) == 1 and not self.theirs[0].file:
            return "no debug information found"
        if len(self.mine) > 1 and self.mine[-1].file == "<autogenerated>":
            return "calls inlined in Go's wrappers"
        if len(self.theirs) == 1 and self.arbiter and len(self.arbiter) == len(self.mine):
            return "no inlined calls found"
        if self.arbiter and len(self.arbiter) == len(self.mine):
            return "frames that LLVM has as we have"
        return None

    def kind_of_line(self, mine, theirs):
        if theirs.line is None or (os.path.basename(mine.file), mine.line) == (os.path.basename(theirs.file), theirs.line):
            return None
        if not theirs.file:
            return "no debug information found"
        if not mine.line:
            return "line 0"
        if self.arbiter and self.arbiter[0].line == self.mine[0].line:
            return "a line that LLVM has as we have"
        if os.path.basename(mine.file).startswith("cgo_") and mine.file.endswith(".go"):
            return "cgo's line in Go's table"
        return "?"

    def kind_of_name(self, mine, theirs):
        theirs = "" if theirs == "??" else theirs
        if mine == theirs:
            return None
        if without_copies(mine) == without_copies(theirs):
            return "a copy's suffix"
        if last_part(mine) == last_part(theirs) or mine.replace(" ", "") == theirs.replace(" ", ""):
            return "the same name, written differently"
        if self.symbols.are_of_one_place(mine, theirs):
            return "an alias"
        if theirs.startswith(("_Z", "_R")) and last_part(mine).strip("~") in theirs:
            return "the same name, written differently"
        if theirs == mine + "64" or "::" in theirs and "::" not in mine and self.symbols.has(mine):
            return "a name that the source gives to the symbol"
        if theirs.endswith("(.text)"):
            return "the name of a whole section"
        if not theirs:
            return "no name found"
        if not mine and not self.symbols.cover(self.call - 1):
            return "a symbol that has ended before"
        return "?"


def compare(program, tool, rows):
    """Prints one line, and what has no kind. Returns how many these are."""
    counts, strange = collections.Counter(), []
    for row in rows:
        kinds = row.kinds()
        counts.update(kinds or {"same": 1})
        if kinds & {"?", None}:
            strange.append(row)
    kinds = ", ".join(f"{kind} {counts[kind]}" for kind in sorted(counts - collections.Counter({"same": counts["same"]}), key=str)
                      if kind not in ("?", None))
    print(f"{program:8} {tool:9} {len(rows):6} calls, same {counts['same']}{', ' if kinds else ''}{kinds}, unexplained {len(strange)}",
          flush=True)
    for row in strange[::max(1, len(strange) // SHOWN)][:SHOWN]:
        print(f"    {row.call:#x}\n      ours {row.mine}\n      {tool} {row.theirs}")
    return len(strange)


def compare_program(name, path):
    calls, symbols = calls_of(path), Symbols(path)
    mine, strange, arbiter = ours(path, calls), 0, [None] * len(calls)
    for tool, ask in TOOLS.items():
        theirs = ask(path, calls)
        if not len(calls) == len(mine) == len(theirs):
            sys.exit(f"{name}: {len(calls)} calls, {len(mine)} answers of ours, {len(theirs)} of {tool}")
        strange += compare(name, tool, [Difference(*row, symbols, judge) for *row, judge in zip(calls, mine, theirs, arbiter)])
        if tool == "llvm":
            arbiter = theirs
    return strange


def main(wanted):
    strange = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, find in PROGRAMS.items():
            if wanted and name not in wanted:
                continue
            path = find(pathlib.Path(folder))
            if not os.path.exists(path):
                print(f"{name:8} skipped: it is not installed")
                continue
            strange += compare_program(name, os.path.realpath(path))
    sys.exit(strange > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
