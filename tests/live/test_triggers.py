# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Snapshots by triggers: on growth, at a peak, at an OOM kill."""
import os
import signal

from cgroup import memory_group
import harness
from harness import WORKLOADS, check, check_equal, rows_of_file, wait_for

STEP = 300 << 10
BLOCK = 4099
MEMORY_LIMIT = 64 << 20


def trigger_of(bench, path):
    return bench.show(path)["metadata"]["trigger"]


def size_of(bench, path):
    return bench.show(path)["traced_memory"]["current"]


def check_asked_for(bench, recording):
    """The next snapshot is the one for SIGUSR1, so no trigger came before it. Returns its size."""
    path = recording.snapshot()
    check_equal(trigger_of(bench, path), "signal", "trigger")
    return size_of(bench, path)


def settled(bench, recording):
    """The size of a snapshot for SIGUSR1, whatever came before it."""
    recording.popen.send_signal(signal.SIGUSR1)
    while trigger_of(bench, path := recording.path()) != "signal":
        pass
    return size_of(bench, path)


def check_triggered(bench, recording, trigger, least, most):
    """One snapshot was taken by the trigger, with a size in these limits."""
    path = recording.path()
    check_equal(trigger_of(bench, path), trigger, "trigger")
    size = size_of(bench, path)
    check(least <= size <= most, f"{size} bytes, expected {least} to {most}")
    return path


@harness.core
def test_growth_by_size_triggers_a_snapshot(bench):
    """A program leaks: a snapshot at every 300 KiB, and not before."""
    peak, recording = bench.recorded("peak", "--on-growth", "300K")
    peak.order(f"rise {STEP - BLOCK}")
    last = check_asked_for(bench, recording)
    check_equal(last, STEP - BLOCK + BLOCK - (STEP - BLOCK) % BLOCK, "live")
    for _ in range(4):
        peak.order(f"rise {last + STEP - BLOCK}")
        last = check_asked_for(bench, recording)
        _, done = peak.order(f"rise {last + STEP}")
        check_triggered(bench, recording, "growth", last + STEP, done["size"])
        last = check_asked_for(bench, recording)
        check_equal(last, done["size"], "live")
    paths = recording.end(signal.SIGINT)
    check_equal([trigger_of(bench, path) for path in paths], ["last"], "triggers at the end")


def test_growth_by_percent_triggers_a_snapshot(bench):
    """The percentage is of the last snapshot, even if an earlier snapshot was larger."""
    peak, recording = bench.recorded("peak", "--on-growth", "50%")
    peak.order("rise 2000000")
    peak.order("fall 1000000")
    check(settled(bench, recording) <= 1000000, "more is live")
    peak.order("rise 1400000")
    last = check_asked_for(bench, recording)
    _, done = peak.order(f"rise {last * 3 // 2 + BLOCK}")
    check_triggered(bench, recording, "growth", last * 3 // 2, done["size"])


def test_growth_starts_anew_after_exec(bench):
    """The new program has no snapshot yet, however much the old one had."""
    peak, recording = bench.recorded("peak", "--on-growth", "300K")
    peak.order("rise 3000000")
    settled(bench, recording)
    peak.write(f"exec {os.path.join(WORKLOADS, 'peak')}\n")
    peak.ready()
    check_equal(settled(bench, recording), 0, "live in the new program")
    _, done = peak.order(f"rise {STEP + BLOCK}")
    check_triggered(bench, recording, "growth", STEP, done["size"])


def check_near_peak(bench, recording, size):
    """A snapshot comes that shows 100/105 of it; they are all taken at peaks."""
    while True:
        path = recording.path()
        check_equal(trigger_of(bench, path), "peak", "trigger")
        if size_of(bench, path) * 1.05 >= size:
            return path


@harness.core
def test_peak_is_in_a_snapshot(bench):
    """The peak is in a snapshot though none was requested then, and stats finds it."""
    peak, recording = bench.recorded("peak", "--on-peak", "5%")
    for size in (5000000, 40000000):
        _, done = peak.order(f"rise {size}")
        path = check_near_peak(bench, recording, done["size"])
        peak.order("fall 100000")
    check_equal(check_asked_for(bench, recording), 100000 // BLOCK * BLOCK, "live")
    peak.order("rise 30000000")  # less than what a snapshot has
    check_equal(check_asked_for(bench, recording) // 1000000, 30, "MB live")
    peak.order("fall 0")
    recording.end(signal.SIGINT)
    share = 100 * size_of(bench, path) / done["size"]
    check(share >= 95, f"{share} % of the peak")
    out, err = bench.allocsnap("stats", "--at-peak", os.path.dirname(path), "--group-by", "function")
    check(out.startswith("rise_here: size="), f"stats --at-peak: {out!r}")
    check(path in err and f"{share:.1f} % of the peak" in err and "(peak)" in err, f"stderr: {err!r}")


def test_peak_that_is_too_short_triggers_no_snapshot(bench):
    """The peak is over before the recorder can look: the doorbell rings, and no snapshot is taken."""
    peak, recording = bench.recorded("peak", "--on-peak", "5%")
    for _ in range(50):
        peak.order("spike 2000000")
    _, done = peak.order("rise 3000000")
    check_near_peak(bench, recording, done["size"])


def test_peak_of_sampled_bytes_triggers_a_snapshot(bench):
    """Sampled live bytes are an estimate, and trigger the snapshot as well."""
    peak, recording = bench.recorded("peak", "--on-peak", "20%", "--sample", "16K")
    peak.order("rise 20000000")
    while size_of(bench, recording.path()) < 14000000:
        pass


def test_trigger_applies_to_each_child(bench):
    """Followed children have sizes of their own."""
    fork, recording = bench.recorded("fork", "--follow-forks", "--on-growth", "1")
    fork.order("go")
    check_equal(trigger_of(bench, recording.path()), "growth", "trigger")
    recording.popen.send_signal(signal.SIGINT)
    fork.write("quit\n")
    recording.wait()


def test_trigger_is_named_in_each_snapshot(bench):
    """Each snapshot names its trigger."""
    peak = bench.workload("peak")
    recording = bench.attach([peak], interval="300ms")
    seen = {trigger_of(bench, recording.path()) for _ in range(2)}
    check_equal(seen, {"interval"}, "triggers")
    peak.write("quit\n")
    peak.wait()
    check_equal(trigger_of(bench, recording.end()[-1]), "end", "trigger of the last one")
    _, recording = bench.recorded("peak", "--duration", "1s")
    paths = recording.end()
    check_equal([trigger_of(bench, path) for path in paths], ["duration"], "trigger at the end")


def test_compact_recording_gives_the_same_answers(bench):
    """The same answers, from half of the bytes."""
    sizes = {}
    for option in ("--compact", "--no-compact"):
        peak, recording = bench.recorded("peak", option)
        _, done = peak.order("rise 4000000")
        path = recording.snapshot()
        rows = rows_of_file(bench.stats(path), "peak.c")
        check_equal(list(rows.values()), [(done["count"], done["size"])], "rows")
        sizes[option] = os.path.getsize(path)
        resolution = bench.show(path)["metadata"].get("birth_resolution_ns")
        check_equal(resolution, 1000000000 if option == "--compact" else None, "resolution")
        recording.end(signal.SIGINT)
        peak.is_unharmed()
    check(sizes["--compact"] * 2 < sizes["--no-compact"], f"bytes: {sizes}")


# ---- the OOM killer ----

def join(group, process):
    (group.folder / "cgroup.procs").write_text(str(process.pid))


def snapshots_of(paths, process):
    return [path for path in paths if f".{process.pid}/" in path]


def end_all(recording):
    """Every path that is printed up to the end."""
    recording.popen.send_signal(signal.SIGINT)
    return list(iter(recording.line, None))


def test_oom_kill_triggers_snapshots_of_the_whole_cgroup(bench):
    """The victim's last snapshot says so; its neighbour in the group gets a snapshot; a process outside none."""
    victim, neighbour, other = (bench.workload("peak") for _ in range(3))
    recording = bench.attach([victim, neighbour, other], "--on-oom")
    for process, size in (victim, 1000000), (neighbour, 500000), (other, 200000):
        process.order(f"rise {size}")
    with memory_group(bench, MEMORY_LIMIT) as group:
        join(group, victim)
        join(group, neighbour)
        victim.order("touch")
        victim.wait(60)
        check_equal(group.kill_count(), 1, "kills of the OOM killer")
        seen = []
        while not snapshots_of(seen, neighbour) or not snapshots_of(seen, victim):
            seen.append(recording.path())
        join_back = end_all(recording)
        neighbour.is_unharmed()
    seen += join_back
    check_equal(snapshots_of(seen[:-len(join_back)], other), [], "snapshots of the process outside the cgroup")
    shown = bench.show(snapshots_of(seen, neighbour)[0])
    check_equal(shown["metadata"]["trigger"], "oom", "trigger of the neighbour's")
    check_equal(shown["traced_memory"]["current"] // 500000, 1, "what it has")
    shown = bench.show(snapshots_of(seen, victim)[-1])
    check_equal((shown["metadata"]["end"], shown["metadata"]["trigger"]),
                ("killed by the OOM killer", "oom"), "the victim's last one")
    check_equal(shown["traced_memory"]["current"] // 1000000, 1, "what it has")
    said = f"peak ({victim.pid}) was killed by the OOM killer"
    wait_for(lambda: said in recording.stderr(), f"'{said}'")


def test_oom_kill_of_an_unrecorded_process_triggers_snapshots_of_its_cgroup(bench):
    """A recorded process in the same cgroup gets a snapshot."""
    victim, neighbour = (bench.workload("peak") for _ in range(2))
    recording = bench.attach([neighbour], "--on-oom")
    with memory_group(bench, MEMORY_LIMIT) as group:
        join(group, victim)
        join(group, neighbour)
        victim.order("touch")
        check_equal(trigger_of(bench, recording.path()), "oom", "trigger")
        recording.end(signal.SIGINT)
        neighbour.is_unharmed()


def test_oom_kill_is_reported_without_the_trigger(bench):
    """Without the trigger, too, the victim's last snapshot says how it ended."""
    victim, recording = bench.recorded("peak")
    with memory_group(bench, MEMORY_LIMIT) as group:
        join(group, victim)
        victim.order("touch")
        paths = recording.end()
    metadata = bench.show(paths[-1])["metadata"]
    check_equal((metadata["end"], metadata["trigger"]), ("killed by the OOM killer", "end"), "its end")
