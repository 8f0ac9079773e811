# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The DaemonSet's words about its container, as options of podman. A word that has no translation here is a failure: what
the container is given must be what the DaemonSet gives."""
import json
import pathlib

import yaml
from harness import check_equal

PODMANS_PROFILE = pathlib.Path("/usr/share/containers/seccomp.json")
MANIFEST = pathlib.Path(__file__).resolve().parents[2] / "deploy/daemonset.yaml"
NODE_NAME = "node-1.example"
# Words of the pod that change nothing for a single container on this machine.
BESIDE = {"automountServiceAccountToken": False, "enableServiceLinks": False, "terminationGracePeriodSeconds": 60,
          "tolerations": [{"operator": "Exists"}]}


def pod_of_daemonset():
    daemonset, = (part for part in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8")) if part["kind"] == "DaemonSet")
    return daemonset["spec"]["template"]["spec"]


def write_runtime_default(path):
    """containerd's RuntimeDefault, of podman's profile: of these two calls, containerd (1.7 and later) and Docker (23 and later) ask
    for the capability of the call's own, Debian 12's podman for CAP_SYS_ADMIN (containerd pull request 7301, moby 43987)."""
    own = {"bpf": "CAP_BPF", "perf_event_open": "CAP_PERFMON"}
    profile = json.loads(PODMANS_PROFILE.read_text(encoding="utf-8"))
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in own]
    profile["syscalls"] = [rule for rule in profile["syscalls"] if rule["names"]]
    for call, capability in own.items():
        profile["syscalls"] += [{"names": [call], "action": "SCMP_ACT_ALLOW", "includes": {"caps": [capability]}},
                                {"names": [call], "action": "SCMP_ACT_ERRNO", "errnoRet": 1, "excludes": {"caps": [capability]}}]
    path.write_text(json.dumps(profile), encoding="utf-8")


def used(words, known, what):
    check_equal(set(words) - set(known), set(), f"words of {what} without a meaning here")
    return words


class Container:
    """The DaemonSet's container. A test takes rights away from it. snapshots: the folder that stands for the node's."""

    def __init__(self, snapshots):
        self.pod = used(pod_of_daemonset(), {*BESIDE, "hostPID", "containers", "volumes"}, "the pod")
        for name, value in BESIDE.items():
            check_equal(self.pod.get(name), value, name)
        self.spec, = self.pod["containers"]
        used(self.spec, {"name", "image", "command", "args", "env", "resources", "securityContext", "volumeMounts"}, "the container")
        self.security = used(self.spec["securityContext"], {
            "runAsUser", "privileged", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "seccompProfile", "appArmorProfile",
            "seLinuxOptions", "capabilities"}, "securityContext")
        check_equal(self.security["capabilities"]["drop"], ["ALL"], "dropped capabilities")
        self.capabilities = list(self.security["capabilities"]["add"])
        self.mounts = {mount["name"]: mount for mount in self.spec["volumeMounts"]}
        self.folders = {}
        for volume in self.pod["volumes"]:
            self.folders[volume["name"]] = volume["hostPath"]["path"] if "hostPath" in volume else None
        self.folders["snapshots"] = str(snapshots)
        self.seccomp = snapshots.parent / "runtime-default.json"
        write_runtime_default(self.seccomp)

    @property
    def argv(self):
        return [*self.spec["command"], *self.spec["args"]]

    def options(self, empty):
        """podman's. empty: a folder for the volume that begins empty."""
        check_equal(self.security["privileged"], False, "privileged")
        check_equal(self.security["seccompProfile"], {"type": "RuntimeDefault"}, "seccompProfile")
        check_equal(self.security["appArmorProfile"], {"type": "Unconfined"}, "appArmorProfile")
        check_equal(self.security["seLinuxOptions"], {"type": "spc_t"}, "seLinuxOptions")
        found = ["--cgroupns=private", "--network=none", "--ipc=private", "--uts=private", f"--user={self.security['runAsUser']}",
                 f"--security-opt=seccomp={self.seccomp}", "--security-opt=apparmor=unconfined", "--security-opt=label=type:spc_t", "--cap-drop=all",
                 f"--memory={self.spec['resources']['limits']['memory'].lower().removesuffix('i')}"]
        if self.pod["hostPID"]:
            found.append("--pid=host")
        if not self.security["allowPrivilegeEscalation"]:
            found.append("--security-opt=no-new-privileges")
        if self.security["readOnlyRootFilesystem"]:
            found += ["--read-only", "--read-only-tmpfs=false"]
        if self.capabilities:
            found.append(f"--cap-add={','.join(self.capabilities)}")
        for variable in self.spec["env"]:
            check_equal(variable["valueFrom"], {"fieldRef": {"fieldPath": "spec.nodeName"}}, variable["name"])
            found.append(f"--env={variable['name']}={NODE_NAME}")
        for name, mount in self.mounts.items():
            used(mount, {"name", "mountPath", "readOnly"}, "a mount")
            how = "ro" if mount.get("readOnly") else "rw"
            found.append(f"--volume={self.folders[name] or empty}:{mount['mountPath']}:{how}")
        return found
