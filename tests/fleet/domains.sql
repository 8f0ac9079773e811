-- fleet stats --group-by domain. The program's own domains have numbers of the fleet's here, by their names.
SELECT name, bytes, blocks
FROM (
    SELECT domain, sum(size) AS bytes, sum(count) AS blocks
    FROM allocation WHERE snapshot_id IN ({latest})
    GROUP BY domain
) AS sums
INNER JOIN domain USING (domain)
