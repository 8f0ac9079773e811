-- After clickhouse.sql on each server of the cluster: tables with the same names over all its shards, so that a question
-- is the same text on one server and on many.
CREATE TABLE IF NOT EXISTS schema_version AS local_schema_version
ENGINE = Distributed({cluster}, {database}, local_schema_version, rand());
CREATE TABLE IF NOT EXISTS snapshot AS local_snapshot
ENGINE = Distributed({cluster}, {database}, local_snapshot, snapshot_id);
CREATE TABLE IF NOT EXISTS label AS local_label ENGINE = Distributed({cluster}, {database}, local_label, upload_id);
CREATE TABLE IF NOT EXISTS loss AS local_loss ENGINE = Distributed({cluster}, {database}, local_loss, upload_id);
CREATE TABLE IF NOT EXISTS allocation AS local_allocation
ENGINE = Distributed({cluster}, {database}, local_allocation, traceback_id);
CREATE TABLE IF NOT EXISTS sample AS local_sample
ENGINE = Distributed({cluster}, {database}, local_sample, traceback_id);
CREATE TABLE IF NOT EXISTS traceback AS local_traceback
ENGINE = Distributed({cluster}, {database}, local_traceback, traceback_id);
CREATE TABLE IF NOT EXISTS traceback_frame AS local_traceback_frame
ENGINE = Distributed({cluster}, {database}, local_traceback_frame, traceback_id);
CREATE TABLE IF NOT EXISTS frame AS local_frame ENGINE = Distributed({cluster}, {database}, local_frame, frame_id);
CREATE TABLE IF NOT EXISTS domain AS local_domain ENGINE = Distributed({cluster}, {database}, local_domain, domain);
CREATE TABLE IF NOT EXISTS place AS local_place ENGINE = Distributed({cluster}, {database}, local_place, place);
