# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""This machine as a node: pods in containers of podman, in control groups as the kubelet and container runtimes name them,
with names of log files as the kubelet gives them. No registry is asked: debian:12 is made by mmdebstrap."""
import contextlib
import os
import pathlib
import re
import resource
import secrets
import shutil
import signal
import subprocess
import tempfile
import uuid

from made import FOLDER, ONE, ROOT, leaking_program, made, made_system, run
from manifest import Container
from harness import Failure, Skip, check, tool, wait_for

IMAGE = "localhost/allocsnap"
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
LIMITS = f"--ulimit=nofile={FILES}:{FILES}", "--ulimit=nproc=4096:4096"  # root of a container may have no higher ones
LOGS = pathlib.Path("/var/log/pods"), pathlib.Path("/var/log/containers")


def unified_hierarchy():
    for line in pathlib.Path("/proc/self/mountinfo").read_text(encoding="ascii").splitlines():
        if " - cgroup2 " in line:
            return pathlib.Path(line.split()[4])
    raise Skip("there are no control groups of version 2")


class Pod:
    """A container of a pod. systemd: the names of groups are systemd's, or cgroupfs'. flags: of its program's linker."""

    def __init__(self, namespace, name, container, systemd, *flags):
        self.flags = flags
        self.namespace, self.name, self.container = namespace, name, container
        self.uid, self.id = str(uuid.uuid4()), secrets.token_hex(32)
        if systemd:
            self.groups = ("kubepods.slice", "kubepods-burstable.slice", f"kubepods-burstable-pod{self.uid.replace('-', '_')}.slice",
                           f"cri-containerd-{self.id}.scope")
        else:
            self.groups = "kubepods", "besteffort", f"pod{self.uid}", self.id
        pods, containers = LOGS
        self.log = pods / f"{namespace}_{name}_{self.uid}"
        self.link = containers / f"{name}_{namespace}_{container}-{self.id}.log"
        self.podman = f"pod-{self.uid}"

    @property
    def labels(self):
        return {"label.k8s.pod.name": self.name, "label.k8s.namespace.name": self.namespace, "label.k8s.container.name": self.container,
                "label.k8s.pod.uid": self.uid, "container_id": self.id, "cgroup": f"/{'/'.join(self.groups)}"}


class Node:
    """As a context manager: what a test makes goes with it; images stay."""

    def __init__(self):
        self.stack = contextlib.ExitStack()
        self.hierarchy = unified_hierarchy()

    def __enter__(self):
        self.folder = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="allocsnap-node.")))
        for folder in LOGS:
            self._make(folder)
        return self

    def __exit__(self, *error):
        self.stack.close()

    # ---- podman ----

    @staticmethod
    def podman(*argv):
        """With a store of its own."""
        return [tool("podman"), "--root", str(FOLDER / "images"), "--runroot", str(FOLDER / "run"), "--log-level=error",
                "--cgroup-manager=cgroupfs", "--events-backend=none", "--runtime=runc", *argv]

    def start_container(self, name, *options, **popen):
        argv = self.podman("run", "--rm", f"--name={name}", *LIMITS, *options)
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, text=True, errors="replace", **popen)
        self.stack.callback(process.wait)
        self.stack.callback(run, *self.podman("rm", "--force", "--ignore", "--time=0", name))
        return process

    def has_image(self, name):
        return not subprocess.run(self.podman("image", "exists", name), check=False).returncode

    def image(self):
        """Made by deploy/Containerfile of the package of this commit."""
        if not self.has_image("localhost/debian:12"):
            system = made_system("bookworm")
            with subprocess.Popen(["tar", "-C", str(system), "-c", "--exclude=./dev/*", "."], stdout=subprocess.PIPE) as tar:
                subprocess.run(self.podman("import", "-", "debian:12"), stdin=tar.stdout, capture_output=True, check=True)
        package, = (path for path in made("deb", ONE, "deb/*.deb").values() if re.match(r"allocsnap_.*\.deb", path.name))
        said = run(*self.podman("build", "--isolation=chroot", "--network=host", "--layers", f"--tag={IMAGE}",
                                f"--file={ROOT / 'deploy/Containerfile'}", str(package.parent)))
        check("registry" not in said and "docker.io" not in said, said)
        return IMAGE

    # ---- pods ----

    def _make(self, folder):
        if not folder.exists():
            folder.mkdir()
            self.stack.callback(remove_folder, folder)

    def start_pod(self, pod):
        """A program that leaks. It has a user of its own, and only this user may read its file."""
        self._make(pod.log)
        pod.link.symlink_to(pod.log / "gone")
        self.stack.callback(pod.link.unlink)
        group = self.hierarchy
        for name in pod.groups:
            group = group / name
            self._make(group)
        program = pod.program = self.folder / f"leak-{pod.name}"
        shutil.copy(leaking_program(*pod.flags), program)
        user = 10001 + len(list(self.folder.iterdir()))
        shutil.chown(program, user, user)
        program.chmod(0o700)
        self.start_container(pod.podman, "--network=none", f"--user={user}", "--cap-drop=all", "--memory=64m",
                             f"--volume={program}:/srv/leak:ro", "localhost/debian:12", "/srv/leak")
        wait_for(lambda: self.inspect(pod.podman, "{{.State.Pid}}") not in ("", "0"), f"the start of {pod.name}")
        pid = self.inspect(pod.podman, "{{.State.Pid}}")
        wait_for(lambda: pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8") == "leak\n", f"the program of {pod.name}")
        (group / "cgroup.procs").write_text(pid, encoding="ascii")
        return pod

    def start_two_pods(self):
        """The names of groups are of both kinds; one program has its allocator in its own file."""
        return [self.start_pod(pod) for pod in (Pod("shop", "web-0", "server", True),
                                                Pod("bank", "ledger-0", "db", False, "-static"))]

    def inspect(self, name, what):
        done = subprocess.run(self.podman("inspect", "--format", what, name), capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def allocsnap(self, folder, *argv, status=0):
        """Asks the image's allocsnap about snapshots, without any right."""
        argv = self.podman("run", "--rm", "--network=none", "--cap-drop=all", *LIMITS, f"--volume={folder}:/snapshots",
                           "--workdir=/snapshots", IMAGE, "allocsnap", *argv)
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != status:
            raise Failure(f"{argv}: status {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
        return done.stdout

    def daemonset(self):
        snapshots = pathlib.Path(tempfile.mkdtemp(prefix="snapshots.", dir=self.folder))
        return Container(snapshots)


def remove_folder(folder):
    def is_removed():
        with contextlib.suppress(OSError):
            folder.rmdir()
        return not folder.exists()

    wait_for(is_removed, f"the end of {folder}")


class Agent:
    """The DaemonSet's container, which runs until end()."""

    def __init__(self, node, container):
        self.node, self.container = node, container
        self.name = f"agent-{secrets.token_hex(4)}"
        self.empty = pathlib.Path(tempfile.mkdtemp(prefix="run.", dir=node.folder))
        self.log = node.folder / f"{self.name}.log"
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = node.start_container(self.name, *container.options(self.empty), IMAGE, *container.argv,
                                                stdout=log, stderr=subprocess.STDOUT)

    def said(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def begin(self):
        """Whether it records; otherwise it has ended."""
        wait_for(lambda: self.process.poll() is not None or re.search(r"^recording", self.said(), re.MULTILINE), "a recording or its end")
        return self.process.poll() is None

    def pid(self):
        return int(self.node.inspect(self.name, "{{.State.Pid}}"))

    def end(self):
        """Its exit status. With SIGTERM, as the kubelet ends it."""
        if self.process.poll() is None:
            run(*self.node.podman("stop", "--time=60", self.name))
        return self.process.wait()

    def snapshots(self):
        return sorted(pathlib.Path(self.container.folders["snapshots"]).rglob("*.snap"))

    def pass_now(self):
        """The snapshots of a pass."""
        before = self.snapshots()
        os.kill(self.pid(), signal.SIGUSR1)
        wait_for(lambda: len(self.snapshots()) >= len(before) + 2, f"snapshots of two pods: {self.said()}")
        return [path for path in self.snapshots() if path not in before]
