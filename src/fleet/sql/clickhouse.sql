-- The row tables on one server of ClickHouse; `fleet init --print` shows this text with its parts in their places.
-- Only what version 18.16 and current versions both have. Times are whole seconds since 1970, unless they end in _ns.
--
-- upload_id: one attempt to push one snapshot. The snapshot's own row is pushed last: without it, rows of the attempt
-- count for nothing. A snapshot that was pushed twice has two upload_ids; questions take the smaller one.
-- Partitions are weeks. A server that removes old rows removes a snapshot's own row first, and its other rows a week later,
-- so that no question sees a part of it.

CREATE TABLE IF NOT EXISTS {local}schema_version (version Int64) ENGINE = MergeTree ORDER BY version;

-- One process at one time. clock_ns times the snapshots of a process by a clock that is not set, if the host has one.
-- moment orders them: of one time, a part (`convert`) comes before the whole. interval_ns: when the next one was due; 0:
-- not known. host_id, boot and task are hashes: of the host, of its boot (0: not known), and of the process in it,
-- whichever program it runs.
CREATE TABLE IF NOT EXISTS {local}snapshot (upload_id Int64, snapshot_id Int64, process_id Int64,
    time Int64, moment Int64, clock_ns Int64, time_ns Int64, monotonic_ns Int64, recording_ns Int64, interval_ns Int64,
    host String, comm String, exe String, exe_build_id String, cgroup String, container String, boot_id String, kernel String, version String,
    trigger String, ending String, path String, pid Int64, start_ticks Int64, exec_count Int64, size Int64,
    count Int64, gap_size Int64, gap_count Int64, row_nr Int64, traceback_limit Int64, is_sampled Int64,
    sample_bytes_most Int64, is_part Int64, host_id Int64, boot Int64, task Int64)
ENGINE = MergeTree PARTITION BY intDiv(time, 604800) ORDER BY (snapshot_id, upload_id){ttl};

CREATE TABLE IF NOT EXISTS {local}label (upload_id Int64, time Int64, name String, value String)
ENGINE = MergeTree PARTITION BY intDiv(time, 604800) ORDER BY (upload_id, name){parts_ttl};

CREATE TABLE IF NOT EXISTS {local}loss (upload_id Int64, time Int64, name String, value Int64)
ENGINE = MergeTree PARTITION BY intDiv(time, 604800) ORDER BY (upload_id, name){parts_ttl};

-- All blocks of a snapshot with one traceback in one domain; of a sampled snapshot, the samples themselves.
CREATE TABLE IF NOT EXISTS {local}allocation (upload_id Int64, time Int64, traceback_id Int64, domain Int64, size Int64,
    count Int64)
ENGINE = MergeTree PARTITION BY intDiv(time, 604800) ORDER BY (upload_id, traceback_id, domain){parts_ttl};

-- What the samples stand for besides themselves, and how sure that is.
CREATE TABLE IF NOT EXISTS {local}sample (upload_id Int64, time Int64, traceback_id Int64, domain Int64,
    size_beyond Float64, size_variance Float64, size_covariance Float64, count_beyond Float64, count_variance Float64,
    count_covariance Float64)
ENGINE = MergeTree PARTITION BY intDiv(time, 604800) ORDER BY (upload_id, traceback_id, domain){parts_ttl};

-- Names, by ids that are hashes of what they name. Several hosts may push the same row, so questions take each id
-- once. own_position is that of the first frame that is no wrapper, as the allocsnap with these rules sees it. stack is
-- the same for tracebacks whose frames have the same names.
CREATE TABLE IF NOT EXISTS {local}traceback (traceback_id Int64, verify Int64, own_position Int64, own_frame_id Int64,
    stack Int64, rules Int64)
ENGINE = ReplacingMergeTree ORDER BY traceback_id;

-- Position 0 is the most recent call.
CREATE TABLE IF NOT EXISTS {local}traceback_frame (traceback_id Int64, position Int64, frame_id Int64)
ENGINE = ReplacingMergeTree ORDER BY (traceback_id, position);

CREATE TABLE IF NOT EXISTS {local}frame (frame_id Int64, verify Int64, func String, file String, line Int64,
    first_line Int64, module String, build_id String, offset Int64, flags Int64)
ENGINE = ReplacingMergeTree ORDER BY frame_id;

-- What tracebacks say of a place in code (build-id and offset), so that those without names get the names of others: a
-- chain is inlined calls and the frame that they were inlined into. detail: 0 no names, 1 a function, 2 lines. outer_name and
-- names are the same for the same outermost function, and for the same names of all frames.
CREATE TABLE IF NOT EXISTS {local}place (place Int64, chain Int64, traceback_id Int64, position Int64, frame_id Int64,
    detail Int64, outer_name Int64, names Int64)
ENGINE = ReplacingMergeTree ORDER BY (place, chain, position, traceback_id);

-- number is what a catalogue calls it.
CREATE TABLE IF NOT EXISTS {local}domain (domain Int64, name String, number Int64)
ENGINE = ReplacingMergeTree ORDER BY (domain, name, number);
