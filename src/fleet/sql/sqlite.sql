-- The row tables in a file of SQLite: what `fleet export` writes. clickhouse.sql has the same columns, and says what
-- they are.
PRAGMA user_version = 3;
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO schema_version VALUES (3);
CREATE TABLE snapshot (upload_id INTEGER PRIMARY KEY, snapshot_id INTEGER NOT NULL,
    process_id INTEGER NOT NULL, time INTEGER NOT NULL, moment INTEGER NOT NULL, clock_ns INTEGER NOT NULL,
    time_ns INTEGER NOT NULL,
    monotonic_ns INTEGER NOT NULL, recording_ns INTEGER NOT NULL, interval_ns INTEGER NOT NULL, host TEXT NOT NULL, comm TEXT NOT NULL,
    exe TEXT NOT NULL, exe_build_id TEXT NOT NULL, cgroup TEXT NOT NULL, container TEXT NOT NULL,
    boot_id TEXT NOT NULL, kernel TEXT NOT NULL, version TEXT NOT NULL, trigger TEXT NOT NULL, ending TEXT NOT NULL,
    path TEXT NOT NULL, pid INTEGER NOT NULL, start_ticks INTEGER NOT NULL, exec_count INTEGER NOT NULL,
    size INTEGER NOT NULL, count INTEGER NOT NULL, gap_size INTEGER NOT NULL, gap_count INTEGER NOT NULL,
    row_nr INTEGER NOT NULL, traceback_limit INTEGER NOT NULL, is_sampled INTEGER NOT NULL,
    sample_bytes_most INTEGER NOT NULL, is_part INTEGER NOT NULL, host_id INTEGER NOT NULL, boot INTEGER NOT NULL,
    task INTEGER NOT NULL);
CREATE TABLE label (upload_id INTEGER NOT NULL, time INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL);
CREATE TABLE loss (upload_id INTEGER NOT NULL, time INTEGER NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL);
CREATE TABLE allocation (upload_id INTEGER NOT NULL, time INTEGER NOT NULL, traceback_id INTEGER NOT NULL,
    domain INTEGER NOT NULL, size INTEGER NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (upload_id, traceback_id, domain)) WITHOUT ROWID;
CREATE TABLE sample (upload_id INTEGER NOT NULL, time INTEGER NOT NULL, traceback_id INTEGER NOT NULL,
    domain INTEGER NOT NULL, size_beyond REAL NOT NULL, size_variance REAL NOT NULL, size_covariance REAL NOT NULL,
    count_beyond REAL NOT NULL, count_variance REAL NOT NULL, count_covariance REAL NOT NULL,
    PRIMARY KEY (upload_id, traceback_id, domain)) WITHOUT ROWID;
CREATE TABLE traceback (traceback_id INTEGER PRIMARY KEY, verify INTEGER NOT NULL, own_position INTEGER NOT NULL,
    own_frame_id INTEGER NOT NULL, stack INTEGER NOT NULL, rules INTEGER NOT NULL);
CREATE TABLE traceback_frame (traceback_id INTEGER NOT NULL, position INTEGER NOT NULL, frame_id INTEGER NOT NULL,
    PRIMARY KEY (traceback_id, position)) WITHOUT ROWID;
CREATE TABLE frame (frame_id INTEGER PRIMARY KEY, verify INTEGER NOT NULL, func TEXT NOT NULL, file TEXT NOT NULL,
    line INTEGER NOT NULL, first_line INTEGER NOT NULL, module TEXT NOT NULL, build_id TEXT NOT NULL,
    offset INTEGER NOT NULL, flags INTEGER NOT NULL);
CREATE TABLE place (place INTEGER NOT NULL, chain INTEGER NOT NULL, traceback_id INTEGER NOT NULL,
    position INTEGER NOT NULL, frame_id INTEGER NOT NULL, detail INTEGER NOT NULL, outer_name INTEGER NOT NULL,
    names INTEGER NOT NULL, PRIMARY KEY (place, chain, position)) WITHOUT ROWID;
CREATE TABLE domain (domain INTEGER PRIMARY KEY, name TEXT NOT NULL, number INTEGER NOT NULL);
