# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Files and folders that cannot be indexed get a line each, and the rest is indexed; and files that are no
catalogues."""
import os
import pathlib
import random
import shutil
import subprocess
import sys

from fleet import dump
from harness import ALLOCSNAP, Skip, check, check_equal, private_mounts, runs_core
from test_killed import forget, small_fleet

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../damage"))
from snapfile import file_of, sections_of, sample, with_header  # pylint: disable=wrong-import-position,wrong-import-order

MARKS = ("core",)

REPAIR = os.environ.get("REPAIR", ".output/damage/repair")
FEW = ("--hosts", 4, "--sites", 50, "--tracebacks", 1200, "--frames", 600)  # 80 files
NOBODY = 65534


def repaired(path, data):
    path.write_bytes(data)
    subprocess.run([REPAIR, path], check=True)


def put_damaged(folder, good):
    """Parts of a file, and files with other bytes; a snapshot of a later version."""
    data, chance, bad = good.read_bytes(), random.Random(8), []
    for part in range(0, 10):
        bad.append(folder / f"part-{part}.snap")
        bad[-1].write_bytes(data[:len(data) * part // 10])
    for number in range(40):
        at = chance.randrange(len(data))
        flipped = data[at] ^ 1 << chance.randrange(8)
        bad.append(folder / f"flipped-{number:02}.snap")
        bad[-1].write_bytes(data[:at] + bytes([flipped]) + data[at + 1:])
    bad.append(folder / "later.snap")
    repaired(bad[-1], with_header(data, "version", 2))
    return bad


def put_foreign(folder):
    """Files with the name of a snapshot and other contents."""
    bad = [folder / f"{name}.snap" for name in ("text", "sqlite", "nobodys")]
    bad[0].write_text("not a snapshot\n" * 100)
    bad[1].write_bytes(b"SQLite format 3\0" + bytes(4080))
    repaired(bad[2], file_of(sections_of(sample())))
    return bad


def put_duplicates(folder, good):
    """The same again: copied, and as `allocsnap convert` writes it."""
    bad = [folder / "copy.snap", folder / "converted.snap"]
    shutil.copy(good, bad[0])
    subprocess.run([ALLOCSNAP, "convert", good, "-o", bad[1]], check=True)
    check(bad[1].stat().st_size != good.stat().st_size, "the converted file is the same")
    return bad


def lines_about(text, paths, what):
    """Each path in a line of its own, and no path twice."""
    for path in paths:
        lines = [line for line in text.splitlines() if str(path) in line]
        check_equal(len(lines), 1, f"{what}: lines about {path.name}: {lines}")


def test_index_skips_and_reports_bad_files(_large):
    with small_fleet("bad", *FEW) as fleet:
        fleet.index()
        expected = fleet.json("stats", "--all-times")
        forget(fleet)
        good = sorted(fleet.data.rglob("*.snap"))[40]
        folder = fleet.data / "zz-bad"
        folder.mkdir()
        bad = put_damaged(folder, good) + put_foreign(folder) + put_duplicates(folder, good)
        (folder / "notes.txt").write_text("no concern of ours")
        (folder / "circle").symlink_to(fleet.data)
        os.mkfifo(folder / "pipe.snap")
        out, err = fleet.index(status=1)
        lines_about(out + err, bad, "first")
        found = fleet.json("stats", "--all-times")
        check_equal(found["statistics"], expected["statistics"], "what was indexed")
        check_equal(found["selection"], expected["selection"], "selection")
        before = dump(fleet.catalogue)
        fleet.index(status=None)
        check_equal(dump(fleet.catalogue), before, "run again")


def test_index_reads_a_repaired_file_again(_large):
    """A damaged file that has been replaced is read again."""
    with small_fleet("mended", *FEW) as fleet:
        paths = sorted(fleet.data.rglob("*.snap"))
        data = paths[7].read_bytes()
        paths[7].write_bytes(data[:-8])
        fleet.index(status=1)
        check_equal(fleet.json("stats", "--all-times")["selection"]["snapshots"], len(paths) - 1, "snapshots")
        paths[7].write_bytes(data)
        fleet.index()
        check_equal(fleet.json("stats", "--all-times")["selection"]["snapshots"], len(paths), "snapshots")


def for_nobody(fleet):
    """Options of subprocess.run() for a user who is not root and may read and write the fleet."""
    if os.geteuid():
        return {}
    for path in (fleet.folder, *fleet.folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    program = fleet.folder / "allocsnap"
    shutil.copy(ALLOCSNAP, program)
    program.chmod(0o755)
    return {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": fleet.folder,
            "program": program}


def test_index_reports_unreadable_files_and_folders(_large):
    with small_fleet("unreadable", *FEW) as fleet:
        options = for_nobody(fleet)
        hosts = sorted(fleet.data.iterdir())
        hosts[1].chmod(0)
        path = sorted(hosts[2].rglob("*.snap"))[3]
        path.chmod(0)
        out, err = fleet.index(status=1, **options)
        lines_about(out + err, [hosts[1], path], "unreadable")
        hosts[1].chmod(0o700)
        path.chmod(0o600)
        fleet.index(**options)
        found = dump(fleet.catalogue)
        check_equal(found.count('INSERT INTO "snapshot"'), 80, "snapshots")


def test_index_of_a_missing_folder_creates_no_catalogue(_large):
    with small_fleet("none", *FEW) as fleet:
        _, err = fleet.index(fleet.folder / "nothing", status=1)
        check(not fleet.catalogue.exists(), "a catalogue of nothing")
        check("nothing" in err and err.count("\n") <= 2, f"stderr is {err!r}")


def test_index_reports_a_full_disk_and_continues_later(_large):
    """The index reports a full disk and ends; with room it goes on with the same catalogue."""
    if os.geteuid():
        raise Skip("only root can mount a small disk")
    with small_fleet("full", *FEW) as fleet:
        fleet.index()
        expected, size = dump(fleet.catalogue), fleet.catalogue.stat().st_size
        disk = fleet.folder / "disk"
        disk.mkdir()
        script = (f"mount -t tmpfs -o size={size * 6 // 10 >> 10}k none {disk} || exit 99; "
                  f'"$0" fleet index {fleet.data} --catalogue {disk}/fleet.db; echo "first $?"; '
                  f"mount -o remount,size=64m {disk} || exit 99; "
                  f'"$0" fleet index {fleet.data} --catalogue {disk}/fleet.db || exit 98; '
                  f"cp {disk}/fleet.db {fleet.folder}/copy.db")
        process = subprocess.run([*private_mounts(), "sh", "-c", script, ALLOCSNAP], capture_output=True,
                                 text=True, check=False)
        check_equal(process.returncode, 0, f"exit status ({process.stdout!r}, {process.stderr!r})")
        check("first 1" in process.stdout, f"the first one: {process.stdout!r}")
        check("full" in process.stderr or "No space left" in process.stderr, f"stderr is {process.stderr!r}")
        check_equal(dump(fleet.folder / "copy.db"), expected, "the catalogue")


def garbage(good):
    """Files that are no catalogues: (name, bytes)."""
    yield "text", b"this is no catalogue\n" * 500
    yield "empty header", good[:16] + bytes(len(good) - 16)
    yield "half", good[:len(good) // 2]
    yield "holes", good[:8192] + bytes(len(good) - 8192)
    chance = random.Random(3)
    yield "noise", good[:100] + chance.randbytes(len(good) - 100)


def test_garbage_catalogue_is_refused_and_not_changed(_large):
    """The command prints a line, exits with 1, and does not change the catalogue."""
    with small_fleet("garbage", *FEW) as fleet:
        fleet.index()
        good = fleet.catalogue.read_bytes()
        for name, data in garbage(good):
            for command in (["stats"], ["hosts"], ["index", fleet.data]):
                forget(fleet)
                fleet.catalogue.write_bytes(data)
                _, err = fleet.run(*command, status=1)
                check("fleet.db" in err, f"{name}, {command[0]}: it says {err!r}")
                check_equal(fleet.catalogue.read_bytes() == data, True, f"{name}: unchanged by {command[0]}")


def test_damaged_catalogue_never_crashes_a_command(_large):
    """Any flipped bit gives an answer or an error, never a crash."""
    with small_fleet("flipped", *FEW) as fleet:
        fleet.index()
        good, chance = fleet.catalogue.read_bytes(), random.Random(4)
        for _ in range(50 if runs_core() else 150):
            data = bytearray(good)
            for _ in range(chance.choice((1, 8, 64))):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            forget(fleet)
            fleet.catalogue.write_bytes(data)
            for command in ("stats", "hosts", "leaks"):
                argv = [ALLOCSNAP, "fleet", command, "--catalogue", fleet.catalogue]
                process = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
                check(process.returncode in (0, 1, 3), f"{command}: {process.returncode}, {process.stderr!r}")


def test_read_only_catalogue_can_be_queried(_large):
    """The catalogue can be queried, and an index into it fails."""
    with small_fleet("read-only", *FEW) as fleet:
        fleet.index()
        expected = fleet.json("stats")
        more = fleet.folder / "more"
        shutil.copytree(sorted(fleet.data.iterdir())[0], more)
        place = fleet.folder / "place"
        place.mkdir()
        catalogue = pathlib.Path(shutil.copy(fleet.catalogue, place))
        options = for_nobody(fleet)
        catalogue.chmod(0o444)
        place.chmod(0o555)
        found = fleet.json("stats", catalogue=catalogue, **options)
        check_equal(found["statistics"], expected["statistics"], "statistics")
        before = catalogue.read_bytes()
        _, err = fleet.index(more, catalogue=catalogue, status=1, **options)
        check(err.strip(), "it prints nothing")
        check_equal(catalogue.read_bytes() == before, True, "unchanged")
        place.chmod(0o755)
