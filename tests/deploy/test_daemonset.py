# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The DaemonSet's container, with exactly its rights, beside two pods; without one of its rights; and the other uses of the
image."""
import json
import pathlib
import re
import subprocess

import manifest
from node import IMAGE, LIMITS, Agent
from harness import Skip, check, check_equal, rows, wait_for

# include/uapi/linux/capability.h
NUMBERS = {"DAC_READ_SEARCH": 2, "SYS_PTRACE": 19, "LEASE": 28, "PERFMON": 38, "BPF": 39, "CHECKPOINT_RESTORE": 40}
ENGINES_OWN = "/proc", "/dev", "/sys", "/etc", "/run/.containerenv", "/run/secrets"  # mounts that an engine makes itself


def shown_of(node, agent, path):
    folder = agent.container.folders["snapshots"]
    return json.loads(node.allocsnap(folder, "show", str(path.relative_to(folder)), "--json"))


def metadata(node, agent, path):
    return shown_of(node, agent, path)["metadata"]


def statistics(node, agent, path):
    folder = agent.container.folders["snapshots"]
    return node.allocsnap(folder, "stats", str(path.relative_to(folder)))


def check_rights(agent):
    """The kernel's facts about the process, against the manifest."""
    proc = pathlib.Path(f"/proc/{agent.pid()}")
    status = dict(line.split(":\t", 1) for line in (proc / "status").read_text(encoding="ascii").splitlines())
    bound = sum(1 << NUMBERS[name] for name in agent.container.capabilities)
    check_equal(int(status["CapBnd"], 16) & ~bound, 0, "capabilities beyond the manifest's")
    check_equal((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), "NoNewPrivs and Seccomp")
    mounts = [line.split() for line in (proc / "mountinfo").read_text(encoding="utf-8").splitlines()]
    writable = {mount[4] for mount in mounts if "rw" in mount[5].split(",") and not mount[4].startswith(ENGINES_OWN)}
    expected = {mount["mountPath"] for mount in agent.container.mounts.values() if not mount.get("readOnly")}
    check_equal(writable, expected, "folders that it can write to")


def test_daemonset_records_two_pods_and_names_them(node):
    node.image()
    pods = node.start_two_pods()
    agent = Agent(node, node.daemonset())
    check(agent.begin(), agent.said())
    check_rights(agent)
    paths = agent.pass_now()
    check_equal(len(paths), 2, "snapshots of a pass")
    shown = [metadata(node, agent, path) for path in paths]
    for pod in pods:
        check(pod.labels in [{key: facts.get(key) for key in pod.labels} for facts in shown], f"{pod.labels} is not in {shown}")
    check_equal({facts["host"] for facts in shown} | {path.parents[1].name for path in paths}, {manifest.NODE_NAME}, "host")
    for path in paths:
        check("in remember" in statistics(node, agent, path), f"{path} has no names")
        check_equal({name: nr for name, nr in shown_of(node, agent, path)["losses"].items() if nr}, {}, "losses")
    check_equal(agent.end(), 0, f"exit status: {agent.said()}")
    folder = agent.container.folders["snapshots"]
    listed = {process["pod"] for process in json.loads(node.allocsnap(folder, "list", ".", "--json"))["processes"]}
    check_equal(listed, {f"{pod.namespace}/{pod.name}" for pod in pods}, "listed pods")
    metrics = (agent.empty / "allocsnap.prom").read_text(encoding="utf-8")
    node.allocsnap(folder, "fleet", "index", "--catalogue", "fleet.db", ".")
    for pod in pods:
        wanted = f'namespace="{pod.namespace}",pod="{pod.name}",container="{pod.container}"}}'
        check(wanted in metrics, f"no {wanted} in the metrics")
        node.allocsnap(folder, "fleet", "stats", "--catalogue", "fleet.db", "--all-processes", "--where", f"pod={pod.name}")


# ---- without a right ----

def ends_with(text):
    def breaks(_node, agent, _pods):
        check(not agent.begin(), "it records")
        check(re.search(text, agent.said()), agent.said())
        check_equal(agent.end(), 1, "exit status")
        return f"nothing is recorded: {text}"
    return breaks


def has_no_files(node, agent, pods):
    check(agent.begin(), agent.said())
    for path in agent.pass_now():
        has_own_allocator = metadata(node, agent, path)["label.k8s.pod.name"] == pods[1].name
        said = statistics(node, agent, path)
        check("remember" not in said and ("count=0" if has_own_allocator else "/srv/leak+0x") in said, said)
    return "the programs cannot be read: no function has a name, and an allocator in a program is not found"


def leases():
    """Inodes with a lease."""
    return {int(re.search(r":(\d+) ", line)[1]) for line in pathlib.Path("/proc/locks").read_text(encoding="ascii").splitlines()
            if " LEASE " in line}


def has_no_lease(_node, agent, pods):
    check(agent.begin(), agent.said())
    agent.pass_now()
    check(pods[1].program.stat().st_ino not in leases(), "the program of another user has a lease")
    return "a process that writes to a probed file of another user would not wait until its probes are gone"


BREAKS = {
    "BPF": ends_with("no permission to load BPF programs"),
    "PERFMON": ends_with("no permission to load BPF programs"),
    "SYS_PTRACE": has_no_files,
    "CHECKPOINT_RESTORE": ends_with("Operation not permitted"),
    "DAC_READ_SEARCH": has_no_files,
    "LEASE": has_no_lease,
}


@rows({name: (name,) for name in BREAKS})
def test_daemonset_needs(node, capability):
    """A capability that is added to the manifest without a row here fails, and so does one that nothing needs."""
    node.image()
    container = node.daemonset()
    check_equal(set(container.capabilities), set(BREAKS), "capabilities of the manifest, each with what breaks without it")
    container.capabilities.remove(capability)
    pods = node.start_two_pods()
    agent = Agent(node, container)
    said = BREAKS[capability](node, agent, pods)
    agent.end()
    return said


def test_daemonset_has_leases(node):
    """LEASE is for this."""
    node.image()
    pods = node.start_two_pods()
    agent = Agent(node, node.daemonset())
    check(agent.begin(), agent.said())
    wait_for(lambda: pods[1].program.stat().st_ino in leases(), "a lease of another user's program")
    agent.end()


@rows({"pods": ("pods", "label.k8s.pod.name"), "containers": ("containers", "label.k8s.container.name")})
def test_daemonset_needs_the_names_of(node, mount, label):
    node.image()
    container = node.daemonset()
    del container.mounts[mount]
    node.start_two_pods()
    agent = Agent(node, container)
    check(agent.begin(), agent.said())
    for path in agent.pass_now():
        facts = metadata(node, agent, path)
        check(label not in facts and "label.k8s.pod.uid" in facts, f"{facts}")
    agent.end()


def test_daemonset_needs_the_hosts_processes(node):
    node.image()
    container = node.daemonset()
    container.pod["hostPID"] = False
    ends_with("pid namespace")(node, Agent(node, container), [])


def test_daemonset_names_a_seccomp_profile_that_forbids_bpf(node):
    """As CRI-O's may, whose profile podman has."""
    if "CAP_BPF" in manifest.PODMANS_PROFILE.read_text(encoding="utf-8"):
        raise Skip("podman's profile permits it here")
    node.image()
    container = node.daemonset()
    container.seccomp = manifest.PODMANS_PROFILE
    ends_with("seccomp")(node, Agent(node, container), [])


# ---- the image alone ----

def run_image(node, *options):
    return subprocess.run(node.podman("run", "--rm", *LIMITS, *options), capture_output=True, text=True, check=False)


def test_image_says_what_it_lacks(node):
    """By itself it runs the doctor, which says what to add."""
    node.image()
    done = run_image(node, "--network=none", "--cap-drop=all", IMAGE)
    check_equal(done.returncode, 1, "exit status")
    for row in "pid namespace", "CAP_BPF":
        check(re.search(rf"NO +{row} ", done.stdout), done.stdout + done.stderr)


def test_image_finds_a_leak_of_a_pod(node):
    """As `kubectl debug node/NODE --profile=sysadmin` starts it: with the host's processes and all privileges."""
    node.image()
    pod, _ = node.start_two_pods()
    done = run_image(node, "--network=host", "--pid=host", "--ipc=host", "--privileged", IMAGE,
                     "allocsnap", "leaks", node.inspect(pod.podman, "{{.State.Pid}}"), "--for", "6s")
    check(re.search(r"LEAKS .*remember", done.stdout), done.stdout + done.stderr)
