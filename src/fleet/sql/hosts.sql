-- fleet hosts: how a group's bytes differ between hosts. A host without the group has 0, and no row. {sums}: host-sums.sql,
-- of one table or of both; grouped is a table that is sent along: the groups of each unit. {nr}: the number of hosts; {half}
-- and {most}: the places of the median and of the 95 % among as many values in ascending order, from 1.
SELECT group_nr, hosts, median, p95, largest, mad, total, about, largest_host,
       toInt64(arrayCount(x -> x - median > 3.5 / 0.6745 * greatest(greatest(mad * 1.0, median / 100.0), 4096.0), sorted))
FROM (
    SELECT group_nr, hosts, sorted, total, about, largest, largest_host, median, p95,
           multiIf({half} <= nearer, distances[{half}], {half} <= nearer + {nr} - hosts, median,
                   distances[{half} - {nr} + hosts]) AS mad
    FROM (
        SELECT group_nr, hosts, sorted, total, about, largest, largest_host, median, p95, distances,
               toInt64(arrayCount(x -> x < median, distances)) AS nearer
        FROM (
            SELECT group_nr, hosts, sorted, total, about, largest, largest_host, median, p95,
                   arraySort(arrayMap(x -> toInt64(abs(x - median)), sorted)) AS distances
            FROM (
                SELECT group_nr, hosts, sorted, total, about, largest,
                       arrayReduce('min', arrayFilter((number, size) -> size = largest, numbers, helds)) AS largest_host,
                       if({half} <= {nr} - hosts, toInt64(0), sorted[{half} - {nr} + hosts]) AS median,
                       if({most} <= {nr} - hosts, toInt64(0), sorted[{most} - {nr} + hosts]) AS p95
                FROM (
                    SELECT group_nr, toInt64(count()) AS hosts, arraySort(groupArray(held)) AS sorted,
                           groupArray(host_nr) AS numbers, groupArray(held) AS helds, max(held) AS largest,
                           sum(held) AS total, sum(held * 1.0) AS about
                    FROM (
                        SELECT group_nr, host_nr, sum(bytes) + toInt64(floor(sum(beyond) + 0.5)) AS held
                        FROM ({sums}) AS of_uploads
                        INNER JOIN (SELECT chosen_id AS upload_id, host_nr FROM chosen) AS hosts USING (upload_id)
                        GROUP BY group_nr, host_nr
                    ) AS of_hosts
                    GROUP BY group_nr
                ) AS gathered
            ) AS placed
        ) AS measured
    ) AS counted
) AS spread
