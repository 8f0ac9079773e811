-- The sums of each traceback and domain. chosen is a table that is sent along: uploads, and the numbers of their
-- processes and hosts. The places have the first and the last time of its snapshots: partitions of other times are not
-- read. about shows a sum that is too large for an integer, and row_nr rows that are missing.
SELECT traceback_id, domain, sum(size) AS bytes, sum(count) AS blocks, sum(size * 1.0) AS about, toInt64(count()) AS row_nr
FROM allocation WHERE time BETWEEN {first} AND {last} AND upload_id IN (SELECT chosen_id FROM chosen)
GROUP BY traceback_id, domain
