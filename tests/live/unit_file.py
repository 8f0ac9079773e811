# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Applies the service's unit as a manager would, on a machine without one: user, capabilities, limits, the
system call filter, and those namespaces that keep the service from writing elsewhere.
"""
import errno
import pathlib
import re
import resource
import socket
import struct
import subprocess

from harness import Skip, check, private_mounts, tool

SCRIPTS = pathlib.Path(__file__).parents[2] / "scripts"
OURS = "allocsnap", "allocsnap-push"
HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h")
LIMITS = {"LimitNOFILE": resource.RLIMIT_NOFILE, "LimitMEMLOCK": resource.RLIMIT_MEMLOCK}
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def write(bench, binary_folder, name="allocsnap"):
    """The unit as installed, with the programs in that folder: its path."""
    path = pathlib.Path(bench.path(f"{name}.service"))
    path.write_text((SCRIPTS / f"{path.name}.in").read_text().replace("@bindir@", binary_folder))
    return path


def settings(path):
    """{name: [values]} of [Service]."""
    found = {}
    section = path.read_text().partition("[Service]")[2].partition("[Install]")[0]
    for line in section.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def capabilities(path):
    """As setpriv names them."""
    found = settings(path)
    bounding, ambient = (found[name][0].split() for name in ("CapabilityBoundingSet",
                                                             "AmbientCapabilities"))
    check(bounding == ambient, f"bounding {bounding}, ambient {ambient}")
    return [name.removeprefix("CAP_").lower() for name in bounding]


def limits(path):
    """[(limit, value)]; where we may not raise one, it is left."""
    for name, values in settings(path).items():
        if name in LIMITS:
            number, unit = re.fullmatch(r"([0-9]+)([KMG]?)", values[0]).groups()
            most = resource.getrlimit(LIMITS[name])[1]
            wanted = int(number) * UNITS[unit]
            yield LIMITS[name], wanted if most == resource.RLIM_INFINITY else min(wanted, most)


# ---- system calls --------------------------------------------------------------------------------

def members(group):
    """The system calls of a group, such as @system-service, and of the groups in it."""
    lines = subprocess.run([tool("systemd-analyze"), "syscall-filter", "--no-pager", group],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    names = {line.strip() for line in lines[1:] if line.strip() and "#" not in line}
    for nested in [name for name in names if name.startswith("@")]:
        names.remove(nested)
        names |= members(nested)
    return names


def allowed(path):
    names = members("@default")
    for line in settings(path)["SystemCallFilter"]:
        some = set()
        for word in line.removeprefix("~").split():
            some |= members(word) if word.startswith("@") else {word}
        names = names - some if line.startswith("~") else names | some
    return names


def numbers(names):
    header = next(path for path in map(pathlib.Path, HEADERS) if path.exists())
    known = dict(re.findall(r"#define __NR_(\w+) (\d+)", header.read_text()))
    return sorted(int(known[name]) for name in names if name in known)


# include/uapi/linux/{bpf_common,filter,seccomp,audit}.h
LOAD, IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE, NO_FAMILY, KILL = 0x7fff0000, 0x00050001, 0x00050000 | errno.EAFNOSUPPORT, 0x80000000
SOCKET = 41
AUDIT_ARCH_X86_64 = 0xc000003e


def families(path):
    """The numbers of RestrictAddressFamilies."""
    return [getattr(socket, name) for line in settings(path)["RestrictAddressFamilies"] for name in line.split()]


def filter_program(calls, kinds):
    """The system calls that are allowed; socket() only for kinds of addresses."""
    steps = [(LOAD, 0, 0, 4), (IF_EQUAL, 1, 0, AUDIT_ARCH_X86_64), (RETURN, 0, 0, KILL),
             (LOAD, 0, 0, 0), (IF_EQUAL, 0, 2 + 2 * len(kinds), SOCKET), (LOAD, 0, 0, 16)]
    for kind in kinds:
        steps += [(IF_EQUAL, 0, 1, kind), (RETURN, 0, 0, ALLOW)]
    steps.append((RETURN, 0, 0, NO_FAMILY))
    for number in calls:
        steps += [(IF_EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    steps.append((RETURN, 0, 0, REFUSE))
    return b"".join(struct.pack("HBBI", *step) for step in steps)


# In a process that has changed its user already: the filter would refuse that. 22, 2: PR_SET_SECCOMP,
# SECCOMP_MODE_FILTER.
ENTER = """
import ctypes, os, struct, sys
steps = open(sys.argv[1], "rb").read()
at = ctypes.create_string_buffer(steps)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps) // 8, ctypes.addressof(at)))
if ctypes.CDLL(None).prctl(22, 2, program, 0, 0):
    sys.exit("there is no filter")
os.execv(sys.argv[2], sys.argv[2:])
"""


def under_filter(bench, path):
    """The command that runs another one, named by its path, with the unit's system calls only."""
    steps = pathlib.Path(bench.path("filter"))
    steps.write_bytes(filter_program(numbers(allowed(path)), families(path)))
    return ["/usr/bin/python3", "-c", ENTER, str(steps)]


# As ProtectSystem=strict, ProtectHome, ProtectKernelTunables; /proc/PID must stay to be seen.
ENTER_MOUNTS = """
mount --bind "$0" "$0" && mount -o remount,ro,bind / &&
for folder in /sys /proc/sys; do
	mount --bind "$folder" "$folder" && mount -o remount,ro,bind "$folder" || exit
done && mount -t tmpfs -o ro none /home && exec "$@"
"""


def in_namespaces(folder, path):
    """The prefix of a command that has the unit's network, or none, and can write to that folder only."""
    network = ["--net"] if "PrivateNetwork" in settings(path) else []
    command = [*private_mounts(), *network, "--ipc", "--uts", "sh", "-c", ENTER_MOUNTS, folder]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        raise Skip("/ is no mount point of its own, and cannot be made read-only")
    return command


def set_limits(path):
    """For Popen's preexec_fn."""
    for limit, value in limits(path):
        resource.setrlimit(limit, (value, value))
