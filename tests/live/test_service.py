# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Recording as a service does it: few privileges, fewer when all is loaded; and its messages."""
import json
import os
import pathlib
import re
import shutil
import socket
import stat

import exposition
import unit_file
import harness
from harness import (ALLOCSNAP, NO_LINKS, WORKLOADS, Workload, check, check_equal, environment, link_holder_of, reader_of, tool,
                     wait_for)
from privileged import (KEEPING, LEFT, OPENING, RECORDING, SOMEBODY, all_threads, allocsnap_with, bits, folder_of, status)
from test_heaps import check_work, is_probed, start
from test_targets import check_answers

FAILED = 1
SETS = ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")


def somebodys_known(bench, uid):
    """The program with known answers, as a process of another user and from a file that only this user can read."""
    folder = folder_of(bench, f"home.{uid}", uid)
    path = shutil.copy(os.path.join(WORKLOADS, "known"), folder)
    os.chown(path, uid, uid)
    os.chmod(path, 0o700)
    os.chmod(bench.folder, 0o755)
    argv = [tool("setpriv"), f"--reuid={uid}", f"--regid={uid}", "--clear-groups", path]
    return bench.start(argv, kind=Workload).ready()


def attach_as(bench, targets, capabilities, *options, uid=SOMEBODY, **more):
    """A recording by a user, into a folder of the user."""
    return bench.attach(targets, *options, command=allocsnap_with(bench, capabilities, uid),
                        folder=folder_of(bench, f"out.{len(bench.processes)}", uid), **more)


# ---- capabilities by process ---------------------------------------------------------------------

def main_has(recording, names):
    found = status(recording.pid)
    for name in ("CapEff", "CapPrm", "CapBnd"):
        check_equal(hex(found[name]), hex(bits(names)), name)
    check_equal((found["CapInh"], found["CapAmb"], found["NoNewPrivs"]), (0, 0, 1),
                "inheritable, ambient, no new privileges")


def not_empty(recording):
    """The permitted sets that are not empty, of all threads of all processes; none may gain new privileges. The
    process that opens files and the one that keeps the probes are skipped while they have their own sets only."""
    threads = list(all_threads(recording.pid))
    check(len({process for process, _ in threads}) >= (4 if NO_LINKS else 5),
          f"who is there: {threads}")
    return [found["CapPrm"] for _, found in threads
            if (found["CapPrm"] or not found["NoNewPrivs"]) and not has_its_task_only(found)]


def has_its_task_only(found):
    names = {"allocsnap-files": OPENING, "allocsnap-open": OPENING, "allocsnap-links": KEEPING}.get(found["Name"])
    return names and found["NoNewPrivs"] and found["CapPrm"] == bits(names)


def all_have_given_up(recording, left):
    """All sets are empty but the main thread's. Threads and processes that have just begun get a moment."""
    wait_for(lambda: not_empty(recording) == [bits(left)], "only one thread has what is left")


def test_service_drops_capabilities_of_root(bench):
    known, recording = bench.recorded("known")
    main_has(recording, LEFT)
    all_have_given_up(recording, LEFT)
    check_answers(bench, known, recording)


def test_service_run_keeps_the_capabilities_of_its_program(bench):
    argv = ["/usr/bin/python3", "-c", "print(open('/proc/self/status').read())"]
    own = bench.run(argv)[0]
    told = bench.run([ALLOCSNAP, "run", "-o", bench.path("out"), "--", *argv])[0]
    for name in (*SETS, "NoNewPrivs", "Uid", "Seccomp"):
        line = re.search(rf"^{name}:.*$", own, re.M)[0]
        check(re.search(f"^{re.escape(line)}$", told, re.M), f"not as without us: {line}")


def test_service_run_drops_its_own_capabilities(bench):
    recording = bench.start([ALLOCSNAP, "run", "-o", bench.path("out"), "--", "/usr/bin/sqlite3"])
    wait_for(lambda: status(recording.pid)["NoNewPrivs"], "the program runs")
    wait_for(lambda: not [found for process, found in all_threads(recording.pid)
                          if process == recording.pid and found["CapPrm"] & ~bits([*LEFT, "kill"])],
             "all its threads have given up what is not needed")
    main_has(recording, [*LEFT, "kill"])
    recording.popen.stdin.close()
    check_equal(recording.wait(), 0, "its exit status")


# ---- with few from the start ---------------------------------------------------------------------

def test_service_as_a_user_records_a_process_of_root(bench):
    known = bench.workload("known")
    recording = attach_as(bench, [known], RECORDING)
    check_equal(status(recording.pid)["Uid"], SOMEBODY, "user of the recorder")
    check_equal(status(reader_of(recording))["Uid"], SOMEBODY, "user of the sandbox")
    all_have_given_up(recording, [name for name in LEFT if name in RECORDING])
    holder = recording.pid if NO_LINKS else link_holder_of(recording.pid)
    locks = pathlib.Path("/proc/locks").read_text().splitlines()
    check(any("LEASE" in line and f" {holder} " in line for line in locks), "no writer would wait")
    path = recording.snapshot()
    found = os.stat(path)
    check_equal((found.st_uid, stat.S_IMODE(found.st_mode)), (SOMEBODY, 0o600), "owner and mode of the file")
    check_answers(bench, known, recording)


def test_service_as_a_user_records_a_process_of_another_user(bench):
    known = somebodys_known(bench, SOMEBODY + 1)
    check_answers(bench, known, attach_as(bench, [known], RECORDING))


@harness.core
def test_service_as_root_with_few_capabilities_records(bench):
    """In a container the sandbox cannot become user "nobody", but has no capability either."""
    known = somebodys_known(bench, SOMEBODY + 1)
    recording = attach_as(bench, [known], RECORDING, uid=0)
    reader = status(reader_of(recording))
    check_equal((reader["Uid"], reader["CapPrm"], reader["CapEff"]), (0, 0, 0), "user of the sandbox")
    all_have_given_up(recording, [name for name in LEFT if name in RECORDING])
    check_answers(bench, known, recording)


def test_service_as_a_user_records_a_library_loaded_later(bench):
    program, library, domain = start(bench, "jemalloc")
    recording = attach_as(bench, [program], RECORDING)
    program.order("load")
    wait_for(lambda: is_probed(bench, recording.snapshot(), os.path.basename(os.path.realpath(library))),
             "it is probed")
    check_work(bench, program, recording, domain, "as somebody, loaded later")


def test_service_as_a_user_pauses(bench):
    """Probes come and go all the time, long after the privileges were given up."""
    known = bench.workload("known")
    with environment("ALLOCSNAP_PAUSE_EVERY_MS", "20"):
        recording = attach_as(bench, [known], RECORDING)
    wait_for(lambda: len(bench.show(recording.snapshot())["gaps"]) > 3, "it has paused")
    known.is_unharmed()


def test_service_as_a_user_follows_children(bench):
    """Children are recorded by system-wide probes."""
    shell = bench.start(["/bin/sh", "-c", "read go; /usr/bin/sqlite3 :memory: 'select 1'; read go"])
    recording = attach_as(bench, [shell], RECORDING, "--follow-forks")
    shell.write("\n")
    paths = [recording.path()]
    check("sqlite3." in paths[0], f"no snapshot of the child: {paths}")
    check_equal(bench.show(paths[0])["metadata"]["comm"], "sqlite3", "comm")
    shell.write("\n")
    check_equal(len(recording.end()), 1, "last snapshots")


# The message when one capability is missing and the process belongs to another user.
MISSING = {
    "bpf": "no permission to load BPF programs",
    "perfmon": "no permission to load BPF programs",
    "sys_ptrace": "Permission denied",
    "dac_read_search": "Permission denied",
    "checkpoint_restore": "Operation not permitted|Permission denied",
}


def test_service_needs_each_of_its_capabilities(bench):
    """The unit gives no capability that is not needed."""
    known = somebodys_known(bench, SOMEBODY + 1)
    for missing, said in MISSING.items():
        some = [name for name in RECORDING if name != missing]
        if "sys_admin" in some and missing in ("bpf", "perfmon", "checkpoint_restore"):
            continue  # it stands for these
        recording = attach_as(bench, [known], some, "--duration", "500ms", wait=False)
        check_equal(recording.wait(), FAILED, f"exit status without {missing} ({recording.stderr()!r})")
        check(re.search(said, recording.stderr()), f"without {missing}: {recording.stderr()!r}")
    known.is_unharmed()


def machine_checks(bench, capabilities, status=0):
    out, _ = bench.run([*allocsnap_with(bench, capabilities), "doctor", "--json"], status)
    return {row["name"]: (row["state"], row["found"])
            for row in json.loads(out)["machine"]["checks"] if row["name"].startswith("CAP_")}


def test_service_doctor_lists_held_capabilities(bench):
    """The doctor finds the unit's capabilities sufficient, and says how long each is needed."""
    found = machine_checks(bench, RECORDING)
    check_equal(found["CAP_BPF"], ("ok", "held; needed as long as it records"), "CAP_BPF")
    check_equal(found["CAP_PERFMON"], ("ok", "held; needed until all is loaded"), "CAP_PERFMON")
    check_equal(found["CAP_SYS_ADMIN"], ("ok", "held; needed as long as it records, as probes are perf events"
                                         if NO_LINKS else "missing; not needed, as probes are links"),
                "CAP_SYS_ADMIN")
    check_equal(found["CAP_SETUID"][0], "costs", "CAP_SETUID")
    check_equal([name for name, (state, _) in found.items() if state in ("no", "unknown")], [],
                "missing capabilities")


def test_service_doctor_lists_missing_capabilities(bench):
    """The doctor lists each capability that attach needs always or for some processes."""
    for missing in ("checkpoint_restore", "sys_ptrace", "dac_read_search"):
        some = [name for name in RECORDING if name not in (missing, "sys_admin")]
        fails = NO_LINKS or missing == "checkpoint_restore"  # without links CAP_SYS_ADMIN is missed, too
        found = machine_checks(bench, some, FAILED if fails else 0)
        state, text = found[f"CAP_{missing.upper()}"]
        check_equal(state, "no" if missing == "checkpoint_restore" else "costs", missing)
        check(text.startswith("missing: "), f"{missing}: {text!r}")
    found = machine_checks(bench, ["perfmon"], FAILED)
    check_equal(found["CAP_BPF"], ("no", "missing: no BPF programs or maps"), "CAP_BPF")


# ---- the output folder ---------------------------------------------------------------------------

def test_service_writes_to_a_folder_of_another_user(bench):
    """`sudo allocsnap attach` in a user's own folder needs one more capability, which is kept."""
    known = bench.workload("known")
    folder = folder_of(bench, "theirs", SOMEBODY)
    recording = bench.attach([known], folder=folder)
    main_has(recording, [*LEFT, "dac_override"])
    check_answers(bench, known, recording)


def test_service_writes_to_a_shared_folder_without_more_capabilities(bench):
    known = bench.workload("known")
    folder = folder_of(bench, "theirs", SOMEBODY)
    os.chmod(folder, 0o777)
    recording = bench.attach([known], folder=folder)
    main_has(recording, LEFT)


# ---- messages ------------------------------------------------------------------------------------

def journal(bench):
    """A stream socket as the journal's, and what names it."""
    ours, theirs = socket.socketpair()
    found = os.fstat(theirs.fileno())
    return ours, theirs, f"{found.st_dev}:{found.st_ino}"


def test_service_writes_priorities_to_the_journal(bench):
    ours, theirs, stream = journal(bench)
    process = bench.start_raw([ALLOCSNAP, "attach", "4194305"], stderr=theirs,
                              env=dict(os.environ, JOURNAL_STREAM=stream))
    theirs.close()
    check_equal(process.wait(20), FAILED, "exit status")
    with ours.makefile() as lines:
        check_equal(lines.read(), "<3>no process 4194305\n", "what the journal got")
    ours.close()


def test_service_metrics_are_read_by_prometheus(bench):
    """A strict sandbox and Prometheus's own library read the same samples."""
    path = bench.path("allocsnap.prom")
    bench.run([os.path.join(WORKLOADS, "write_metrics"), path])
    data = pathlib.Path(path).read_bytes()
    families = exposition.parse(data)
    strict = {(name, labels): float(value) for name, (_, samples) in families.items()
              for labels, value in samples.items()}
    check_equal(strict, exposition.parse_as_prometheus_does(data), "samples")
    check_equal(len(families["allocsnap_process_traced_bytes"][1]), 1000, "processes")
    check_equal(families["allocsnap_processes_omitted"][1][()], "200", "omitted processes")
    check_equal(families["allocsnap_losses_total"][1][(("loss", "tracebacks_guessed"),)],
                str(2 ** 64 - 1), "the largest number")
    comms = {dict(labels)["comm"] for labels in families["allocsnap_process_traced_bytes"][1]}
    check({'a"b\\c', "\\n", 'a\\x0ab', '{pid="1"}', "\\xff\\xfe", "ä€", ""} <= comms, f"names: {comms}")


# ---- the unit ------------------------------------------------------------------------------------

def test_service_units_are_valid(bench):
    """Each runs an existing program, and systemd knows all of its settings; the second one has the network in addition."""
    paths = [unit_file.write(bench, os.path.dirname(ALLOCSNAP), name) for name in unit_file.OURS]
    for path in paths:
        check_equal(bench.run([tool("systemd-analyze"), "verify", "--man=no", str(path)])[1], "", "findings")
    recorder, pusher = (exposed_by(bench, path) for path in paths)
    check_equal(pusher - recorder, {"PrivateNetwork=", "IPAddressDeny=", "RestrictAddressFamilies=~AF_(INET|INET6)"},
                "what pushing exposes")


def exposed_by(bench, path):
    """The settings that `systemd-analyze security` finds fault with."""
    out, _ = bench.run([tool("systemd-analyze"), "security", "--offline=true", "--no-pager", str(path)])
    return set(re.findall(r"^✗ (\S+)", out, re.M))


EXPOSURE_MOST = 1.5  # README.md


def test_service_unit_has_the_documented_exposure_level(bench):
    path = unit_file.write(bench, "/usr/bin")
    out, _ = bench.run([tool("systemd-analyze"), "security", "--offline=true", "--no-pager", str(path)])
    level = float(re.search(r"Overall exposure level for allocsnap\.service: ([0-9.]+)", out)[1])
    check(level <= EXPOSURE_MOST, f"exposure level {level}")
    readme = pathlib.Path(__file__).parents[2] / "README.md"
    check(f"exposure level {EXPOSURE_MOST}" in " ".join(readme.read_text().split()), "README.md has another")


def test_service_unit_has_the_needed_capabilities(bench):
    """The unit's capabilities are those that the tests above record with."""
    path = unit_file.write(bench, "/usr/bin")
    check_equal(set(unit_file.capabilities(path)), set(RECORDING) - {"sys_admin"}, "capabilities")


def test_service_records_under_the_unit(bench):
    """The recorder runs with the unit's user, capabilities, limits, mounts and system call filter."""
    path = unit_file.write(bench, "/usr/bin")
    folder = folder_of(bench, "state", SOMEBODY)
    program, library, domain = start(bench, "jemalloc")
    command = allocsnap_with(bench, RECORDING, by=unit_file.under_filter(bench, path))
    recording = bench.attach([program], command=[*unit_file.in_namespaces(folder, path), *command], folder=folder,
                             preexec_fn=lambda: unit_file.set_limits(path))
    check_equal(status(recording.pid)["Seccomp"], 2, "seccomp mode")
    check(os.stat(f"/proc/{recording.pid}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino,
          "it is in our network namespace")
    program.order("load")
    wait_for(lambda: is_probed(bench, recording.snapshot(), os.path.basename(os.path.realpath(library))),
             "what is loaded later is probed")
    check_work(bench, program, recording, domain, "as the service")
