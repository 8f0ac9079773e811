# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs in containers: namespaces of their own, a read-only root, a C library that is in no other file system. Nothing
of allocsnap is in there, neither its files nor its process ids.
"""
import json
import os
import re
import shutil
import subprocess

from bench import ALLOCSNAP, FOLDER, PATIENCE_S, Process, check_whole_way, injector
from harness import Failure, Law, Skip, wait_for
from harness.suite import for_each


def make_root(bench):
    """A folder with the program, and the libraries that it needs."""
    root = os.path.join(bench.folder, "root")
    if os.path.exists(root):
        return root
    needed = subprocess.run(["ldd", os.path.join(FOLDER, "storm")], capture_output=True, text=True, check=True).stdout
    os.makedirs(os.path.join(root, "proc"))
    os.mkdir(os.path.join(root, "dev"))
    shutil.copy(os.path.join(FOLDER, "storm"), root)
    for library in re.findall(r"(/\S+) \(", needed):
        os.makedirs(root + os.path.dirname(library), exist_ok=True)
        shutil.copy(os.path.realpath(library), root + library)
    return root


def by_unshare(_, root):
    mounts = (f"mount --bind {root} {root} && mount -t proc proc {root}/proc && mount -o remount,bind,ro {root} && "
              f"exec chroot {root} /storm alloc")
    return ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--fork",
            "--kill-child", "sh", "-c", mounts]


def by_bwrap(_, root):
    return ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev",
            "/storm", "alloc"]


def by_runc(bench, root):
    """The defaults of runc: few capabilities, masked paths."""
    bundle = os.path.join(bench.folder, "bundle")
    os.makedirs(bundle, exist_ok=True)
    subprocess.run(["runc", "spec"], cwd=bundle, check=True)
    with open(os.path.join(bundle, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    config["process"] |= {"terminal": False, "args": ["/storm", "alloc"], "user": {"uid": 1000, "gid": 1000}}
    config["root"] = {"path": root, "readonly": True}
    with open(os.path.join(bundle, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    name = f"inject-{os.getpid()}"
    bench.callback(subprocess.run, ["runc", "--root", bundle, "delete", "--force", name], capture_output=True, check=False)
    return ["runc", "--root", bundle, "run", "--bundle", bundle, name]


CONTAINERS = {"unshare": by_unshare, "bwrap": by_bwrap, "runc": by_runc}


def start_in_container(bench, kind):
    if not shutil.which(kind):
        raise Skip(f"no {kind}")
    process = Process(CONTAINERS[kind](bench, make_root(bench)))
    bench.callback(process.kill)
    try:
        wait_for(lambda: process.ask()[0] > 0, "the first round", PATIENCE_S)
    except Failure as error:
        raise Skip(f"{kind} starts nothing here: {error}") from None
    process.enter_container("storm")
    return process


@for_each(CONTAINERS)
def test_container(bench, kind):
    process = start_in_container(bench, kind)
    assert not os.path.exists(f"/proc/{process.pid}/root/usr/bin"), "it sees the machine's files"
    check_whole_way(process)
    process.end()


def test_recorder_of_a_container_that_is_killed(bench):
    """attach --inject; the keeper ejects, and the next recording injects again."""
    process = start_in_container(bench, "unshare")
    maps, code = process.library("libc.so.6"), process.code("libc.so.6")
    for killed in True, False:
        recorder, folder = bench.start_attach(process.pid, "--inject=4K")
        assert process.maps("memfd:allocsnap-sampler"), "nothing is mapped"
        process.goes_on()
        if killed:
            recorder.popen.kill()
        else:
            recorder.popen.terminate()
        recorder.popen.wait()
        wait_for(lambda: process.library("libc.so.6") == maps and process.code("libc.so.6") == code, "its own pages",
                 PATIENCE_S, Law)
        process.goes_on()
    names = [os.path.join(path, name) for path, _, files in os.walk(folder) for name in files if name.endswith(".snap")]
    said = subprocess.run([ALLOCSNAP, "show", "--json", max(names)], capture_output=True, text=True, check=True).stdout
    shown = json.loads(said)
    assert shown["counters"]["allocations"] > 0 and shown["metadata"]["sampler_kind"] == "injected", said
    if process.maps("memfd:allocsnap-sampler"):  # a thread was in it
        injector("eject", process.pid)
    process.end()
