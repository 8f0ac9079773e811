# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An initramfs: programs of this machine with their libraries, and files of this tree, in the kernel's cpio format."""
import glob
import os
import pathlib
import re
import shutil
import stat
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GUEST_ROOT = "/allocsnap"
# Programs of init and of the tests, beside essential_programs(). Without a program here, its tests are skipped there.
PROGRAMS = ("mount", "umount", "ip", "sqlite3", "jq", "git", "redis-server", "redis-benchmark", "redis-cli", "objcopy", "strip",
            "readelf", "nm", "apparmor_parser", "bpftool", "ps", "pmap", "strace", "make", "debuginfod", "gdb", "gh", "node", "rg",
            "systemd-analyze", "tmux")
# libgcc_s is opened when a thread ends, libcurl when it is needed.
OTHERS = ("/bin/sh", "/usr/share/gdb", "/lib/systemd/system", "/lib/terminfo", "/usr/lib/locale/C.utf8", "/usr/bin/python3", "/usr/lib/python3.*",
          "/usr/lib/python3/dist-packages/prometheus_client", "/usr/lib/python3/dist-packages/decorator.py", "/lib/*-linux-gnu/libgcc_s.so.1",
          *(f"/usr/lib/*-linux-gnu/lib{name}.so.*" for name in ("asan", "jemalloc", "tcmalloc_minimal", "mimalloc", "curl", "python3.*")),
          "/etc/passwd", "/etc/group", "/etc/services", "/etc/ld.so.cache", "/etc/ld.so.conf")
# Debug files of these are there, too, if the system has them: they name what is static in the C library.
NAMED = "/lib/*-linux-gnu/libc.so.6", "/lib*/ld-linux-*.so.*"
# Tests build C and C++ programs with these.
COMPILER = ("/usr/bin/g[c+][c+]", "/usr/bin/*-linux-gnu-g[c+][c+]", "/usr/bin/musl-gcc", "/usr/bin/as", "/usr/bin/ld", "/usr/include",
            "/usr/lib/*-linux-musl", "/lib/ld-musl-*", "/usr/lib/*-linux-gnu/*crt*.o",
            *(f"/usr/lib/gcc/*/*/{name}" for name in
              ("cc1", "cc1plus", "collect2", "lto1", "lto-wrapper", "liblto_plugin.so", "include", "*.o", "libgcc*", "libstdc++.*")),
            *(f"/usr/lib/*-linux-gnu/lib{name}.{kind}" for kind in ("a", "so") for name in
              ("c", "c_nonshared", "m", "m-*", "mvec", "pthread", "dl", "jemalloc", "jemalloc_pic", "tcmalloc_minimal", "mimalloc")))
LEFT_OUT = re.compile(r"test|idlelib|ensurepip|lib2to3|config-3.*|clang.*|llvm.*|node|unicode")  # of Python and of headers
TREE = (*(f"tests/{name}" for name in ("harness", "live", "workloads", "ledger", "inject", "placement", "report")), "include", "src", "scripts",
        "README.md", "VERSION")
FOLDERS_OF_PROGRAMS = "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"
FOLDERS = {"/dev", "/home", "/proc", "/sys", "/tmp", "/run", "/var", "/var/log", "/var/tmp"}


class Image:
    """The files, by their path in the guest. A path below a link is the path that the link leads to."""

    def __init__(self, root=""):
        """root: the folder of a system whose programs and libraries the guest has; this machine's otherwise."""
        self.root = str(root)
        self.files = {}  # path in the guest: path here

    def which(self, program):
        """Its path in the system, or None."""
        return shutil.which(program, path=os.pathsep.join(self.root + folder for folder in FOLDERS_OF_PROGRAMS))

    def add(self, path, guest=None):
        """A file, a link and what it leads to, or a folder with all that is in it. Without `guest` it is one of the system."""
        path = os.path.abspath(path)
        if not guest:
            self.add_links_above(path)
            path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        guest = guest or path[len(self.root):]
        if guest in self.files:
            return
        self.files[guest] = path
        if os.path.islink(path):
            target = os.readlink(path)
            self.add(self.root + target if target.startswith("/") else os.path.join(os.path.dirname(path), target))
        elif os.path.isdir(path):
            for name in sorted(name for name in os.listdir(path) if not LEFT_OUT.fullmatch(name)):
                self.add(os.path.join(path, name), os.path.join(guest, name))
        elif is_elf(path):
            self.add_libraries(path)

    def add_links_above(self, path):
        """/lib is a link to usr/lib, for instance."""
        above = os.path.dirname(path)
        while above != (self.root or "/"):
            if os.path.islink(above):
                self.files.setdefault(above[len(self.root):], above)
            above = os.path.dirname(above)

    def add_libraries(self, path):
        """ldd asks the loader, which does not run another machine's files."""
        argv = ["readelf", "-ldW", path] if self.root else ["ldd", path]
        text = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(/\S+) \(0x|interpreter: (/[^]]+)", text):
            self.add(self.root + "".join(library))
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", text):
            for library in pathlib.Path(self.root).glob(f"usr/lib/*-linux-gnu/{name}"):
                self.add(library)
            for library in pathlib.Path(self.root).glob(f"lib/*-linux-gnu/{name}"):
                self.add(library)

    def add_debug_file(self, path):
        """By the file's build-id."""
        notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=False).stdout
        for build_id in re.findall(r"Build ID: ([0-9a-f]+)", notes):
            debug = f"{self.root}/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
            if os.path.exists(debug):
                self.add(debug)

    def write(self, path):
        """Folders come before what is in them."""
        folders = {str(parent) for guest in self.files for parent in pathlib.PurePosixPath(guest).parents} - {"/"}
        with open(path, "wb") as out:
            for folder in sorted((folders | FOLDERS) - set(self.files)):
                write_entry(out, folder, stat.S_IFDIR | 0o755, b"")
            for guest, source in sorted(self.files.items()):
                status = os.lstat(source)
                mode, time = status.st_mode, int(status.st_mtime)
                if stat.S_ISLNK(mode):
                    data = os.readlink(source).encode()
                else:
                    data = b"" if stat.S_ISDIR(mode) else pathlib.Path(source).read_bytes()
                write_entry(out, guest, mode, data, time)
            write_entry(out, "/TRAILER!!!", 0, b"")


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def write_entry(out, guest, mode, data, time=0):
    """A header of the "newc" form: 13 numbers of 8 hexadecimal digits; names and data end at multiples of 4 bytes.
    Python's compiled modules are good for sources of their time."""
    name = guest[1:].encode() + b"\0"
    numbers = (0, mode, 0, 0, 1, time, len(data), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08x" % number for number in numbers)
    out.write(header + name + b"\0" * (-(len(header) + len(name)) % 4))
    out.write(data + b"\0" * (-len(data) % 4))


def essential_programs():
    """The programs of the packages that every Debian system has, as on this machine: paths."""
    listed = subprocess.run(["dpkg-query", "-W", "-f", "${Essential} ${Package}\n"], capture_output=True, text=True, check=True).stdout
    packages = re.findall(r"^yes (.*)", listed, re.MULTILINE)
    files = subprocess.run(["dpkg-query", "-L", *packages], capture_output=True, text=True, check=True).stdout.splitlines()
    return [path for path in files if os.path.dirname(path) in FOLDERS_OF_PROGRAMS]


def make_image(path, allocsnap, out, root="", others=()):
    """An image of the live tests. out: the folder with the programs that they record, and allocsnap's libraries. others: files
    for its .output."""
    image = Image(root)
    for program in map(image.which, PROGRAMS):
        if program:
            image.add(program)
    for name in (*essential_programs(), *OTHERS, *COMPILER):
        for found in glob.glob(image.root + name):
            image.add(found)
    for name in NAMED:
        for found in glob.glob(image.root + name):
            image.add_debug_file(found)
    for name in TREE:
        image.add(ROOT / name, f"{GUEST_ROOT}/{name}")
    for name in ("workloads", "ledger"):
        image.add(os.path.join(out, name), f"{GUEST_ROOT}/.output/{name}")
    for other in (*glob.glob(os.path.join(out, "liballocsnap-*.so")), *others):
        image.add(other, f"{GUEST_ROOT}/.output/{os.path.basename(other)}")
    image.add(allocsnap, f"{GUEST_ROOT}/allocsnap")
    image.add(HERE / "init", "/init")
    image.write(path)
