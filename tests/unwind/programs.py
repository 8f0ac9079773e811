# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The programs whose live threads are unwound, and their work."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import typing

from harness import Skip

QUERY = ("with recursive c(x) as (values(1) union all select x + 1 from c where x < 300000) "
         "select count(*) from (select x, printf('%d-%s', x, hex(x)) as y from c order by y);")
SCRIPT = """
import json, re, threading
def work():
    while True:
        text = json.dumps({str(i): list(range(i % 50)) for i in range(300)})
        sorted(re.findall("[0-9]+", text)); json.loads(text)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
work()
"""
# Before its first script node reads the certificates of this: 400,000 allocations.
os.environ.pop("NODE_EXTRA_CA_CERTS", None)
NODE = """
function work(n) {
    const text = JSON.stringify(Array.from({length: 99}, (_, i) => [i, "x" + i]));
    return JSON.parse(text).reduce((sum, pair) => sum + new ArrayBuffer(pair[0] + n).byteLength, 0);
}
for (let n = 0;; n++) work(n % 99);
"""

# Much to compile, without any header.
BIG = "\n".join(f"""
struct s{i} {{ int a[{i % 7 + 2}]; struct s{i} *next; double d; }};
double f{i}(struct s{i} *s, int n) {{
    double sum = 0;
    for (int i = 0; i < n; i++, s = s->next) {{
        switch (s->a[i % {i % 7 + 2}] % 5) {{
        case 0: sum += s->d * n; break;
        case 1: sum -= s->d / (n + 1); break;
        case 2: sum *= 1.5; break;
        case 3: for (int j = 0; j < n; j++) sum += s->a[j % 2] * j; break;
        }}
    }}
    return sum;
}}""" for i in range(300))


@contextlib.contextmanager
def nothing(_folder):
    yield


@contextlib.contextmanager
def redis_load(folder):
    """Until the server is gone for good; redis-benchmark ends whenever it loses its connection."""
    loop = subprocess.Popen(
        ["sh", "-c", "while :; do timeout 60 redis-benchmark -s redis.sock -n 1000000 -c 10 -P 8 "
                     "-t set,lpush,hset,zadd,lrange -r 10000 -q; sleep 0.2; done"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(loop.pid, 9)
        loop.wait()


def cc1():
    done = subprocess.run(["gcc", "-print-prog-name=cc1"], capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() or "cc1"


class Program(typing.NamedTuple):
    argv: list
    busy: typing.Callable = nothing  # a context that keeps it busy
    is_complete: bool = True  # nearly all of its stacks are

    def command(self):
        if not shutil.which(self.argv[0]):
            raise Skip(f"{self.argv[0]} is not installed")
        return self.argv

    def work(self, folder):
        """The context in which it runs, in this folder."""
        pathlib.Path(folder, "big.c").write_text(BIG, encoding="utf-8")
        return self.busy(folder)


OWN, WORKLOADS = os.environ["UNWIND"], os.environ["WORKLOADS"]
TABLE = {
    "frames": Program([f"{OWN}/frames"]),
    "exceptions": Program([f"{WORKLOADS}/exceptions", "100000"]),
    "sqlite3": Program(["sqlite3", ":memory:", QUERY]),
    "python3": Program(["/usr/bin/python3", "-c", SCRIPT]),
    "git": Program(["git", "-C", "/usr/include", "grep", "--no-index", "-c", "-E", "([a-z]+_)+(t|s)"]),
    "cc1": Program([cc1(), "-quiet", "-O2", "big.c", "-o", "/dev/null"]),
    "clang": Program(["clang", "-O2", "-c", "big.c", "-o", "/dev/null"]),
    "redis": Program(["redis-server", "--port", "0", "--unixsocket", "redis.sock", "--save", "", "--io-threads", "2"],
                            redis_load),
    # Code that V8 compiles has no call frame information: most of its stacks stop there.
    "node": Program(["node", "-e", NODE], is_complete=False),
}
