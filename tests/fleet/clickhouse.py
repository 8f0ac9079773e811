# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Servers of Debian's clickhouse-server on this machine's loopback, with row tables in them."""
import atexit
import contextlib
import functools
import pathlib
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request

import harness
from harness.ports import reserve_ports
from oracle import RowTables

SERVER = shutil.which("clickhouse-server", path="/usr/sbin:/usr/bin:/sbin:/bin")
DATABASE = "allocsnap"
# A subquery over all shards is run once, and a shard that does not answer is an error.
SETTINGS = {"distributed_product_mode": "global", "skip_unavailable_shards": "0", "insert_distributed_sync": "1",
            "wait_end_of_query": "1"}

CONFIG = """<yandex><logger><level>warning</level><console>1</console></logger><listen_host>127.0.0.1</listen_host>
<http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><interserver_http_host>127.0.0.1</interserver_http_host>
<interserver_http_port>{inter}</interserver_http_port><path>{path}/data/</path><tmp_path>{path}/tmp/</tmp_path>
<users_config>users.xml</users_config><default_profile>default</default_profile>
<default_database>default</default_database><mark_cache_size>67108864</mark_cache_size>
<uncompressed_cache_size>0</uncompressed_cache_size><timezone>UTC</timezone>
<remote_servers><fleet>{shards}</yandex>"""
SHARD = "<shard><replica><host>127.0.0.1</host><port>{}</port></replica></shard>"
TLS = """<https_port>{https}</https_port><openSSL><server><certificateFile>{folder}/server.crt</certificateFile>
<privateKeyFile>{folder}/server.key</privateKeyFile><verificationMode>none</verificationMode>
<loadDefaultCAFile>false</loadDefaultCAFile></server></openSSL>"""
USER = """<{0}><password>{3}</password><networks><ip>127.0.0.1</ip></networks><profile>{1}</profile><quota>{2}</quota></{0}>"""
PASSWORD = "not a secret"
# A reader may ask everything; others not enough.
PROFILES = {"default": "", "reader": "<readonly>2</readonly>", "readonly": "<readonly>1</readonly>",
            "limited": "<max_rows_to_read>100</max_rows_to_read>", "hurried": "<max_execution_time>1</max_execution_time>",
            "breaking": "<max_rows_to_read>100</max_rows_to_read><read_overflow_mode>break</read_overflow_mode>",
            "cutting": "<max_result_rows>10</max_result_rows><result_overflow_mode>break</result_overflow_mode>",
            "unmerged": "<distributed_group_by_no_merge>1</distributed_group_by_no_merge>"}
METERED = "<metered><interval><duration>3600</duration><queries>3</queries></interval></metered>"
USERS = "<yandex><profiles>{}</profiles><users>{}</users><quotas><default/>{}</quotas></yandex>".format(
    "".join(f"<{name}>{settings}</{name}>" for name, settings in PROFILES.items()),
    "".join([*(USER.format(name, name, "default", "") for name in PROFILES),
             USER.format("metered", "default", "metered", ""), USER.format("known", "default", "default", PASSWORD)]),
    METERED)


class Server:
    """One server. more: of its configuration. wrapper: a command that starts it."""

    def __init__(self, folder, ports, shards, more="", wrapper=()):
        self.folder, self.http, self.tcp = folder, ports[0], ports[1]
        self.url = f"http://127.0.0.1:{self.http}"
        folder.mkdir()
        config = CONFIG.format(http=ports[0], tcp=ports[1], inter=ports[2], path=folder,
                               shards=f"{shards}</fleet></remote_servers>{more}")
        (folder / "config.xml").write_text(config, encoding="ascii")
        (folder / "users.xml").write_text(USERS, encoding="ascii")
        self.log = (folder / "log").open("wb")
        self.process = subprocess.Popen([*wrapper, SERVER, f"--config-file={folder}/config.xml"], cwd=folder,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def is_up(self):
        harness.check_equal(self.process.poll(), None, "the server has ended")
        try:
            return urllib.request.urlopen(f"{self.url}/ping", timeout=60).read() == b"Ok.\n"
        except OSError:
            return False

    def request(self, sql, database=DATABASE):
        query = urllib.parse.urlencode({**SETTINGS, "database": database})
        try:
            with urllib.request.urlopen(f"{self.url}/?{query}", data=sql.encode(), timeout=300) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{error.read().decode()[:600]} of {sql[:2000]}") from error

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Servers:
    """One server, or the shards of a cluster "fleet"."""

    def __init__(self, servers):
        self.servers = servers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    @property
    def url(self):
        """The server that questions are asked of."""
        return self.servers[-1].url

    def init_options(self, option="--to"):
        """For `fleet init`: the servers, and that they are a cluster."""
        servers = [word for server in self.servers for word in (option, server.url)]
        return servers + (["--cluster", "fleet"] if len(self.servers) > 1 else [])


class Cluster(Servers):
    """Servers of one test, which may end them. Other tests share the servers of shared_cluster()."""

    def __init__(self, server_nr, **options):
        super().__init__([])
        if not SERVER:
            raise harness.Skip("Debian's clickhouse-server is not installed")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="allocsnap-clickhouse."))
        ports = reserve_ports(3 * server_nr)
        shards = "".join(SHARD.format(ports[3 * i + 1]) for i in range(server_nr))
        for i in range(server_nr):
            self.servers.append(Server(self.folder / f"server{i}", ports[3 * i:3 * i + 3], shards, **options))
        for server in self.servers:
            harness.wait_for(server.is_up, "a server that answers", 120)

    def __exit__(self, *_):
        for server in self.servers:
            server.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def start_shared_servers():
    cluster = Cluster(2)
    atexit.register(cluster.__exit__)
    return cluster


def shared_cluster(server_nr):
    """Servers that run until all tests are over, with empty databases. Their cluster has two shards; one server is the
    first of them."""
    servers = start_shared_servers().servers
    for server in servers:
        for name in server.request("SHOW DATABASES", database="default").split():
            if name not in ("default", "system"):
                server.request(f"DROP DATABASE {name}", database="default")
    return Servers(servers[:server_nr])


def parse_value(text):
    for number in int, float:
        with contextlib.suppress(ValueError):
            return number(text)
    return text.replace("\\'", "'").replace("\\t", "\t").replace("\\n", "\n").replace("\\\\", "\\")


class ClickHouse(RowTables):
    """The row tables in a server, or over all shards of its cluster."""
    def __init__(self, server, database=DATABASE):
        super().__init__()
        self.server, self.database = server, database

    def ask(self, sql):
        return [tuple(map(parse_value, line.split("\t"))) for line in self.server.request(sql, self.database).splitlines()]
