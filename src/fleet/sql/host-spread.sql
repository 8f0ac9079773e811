-- Part of hosts.sql: the median of the distances. A host without the site is as far away as the median is large: those
-- have their places after all smaller distances. {host_nr}: host-number.sql; {ranked_distances}: ranks.sql or
-- ranks-arrays.sql of host-distances.sql.
SELECT site_text, site_number,
       CASE WHEN half <= nearer THEN at_half WHEN half <= nearer + lacking THEN site_median
            ELSE at_half_of_others END AS site_mad
FROM (
    SELECT site_text, site_number, max(median) AS site_median, max(middle) AS half, max(without) AS lacking,
           sum(CASE WHEN amount < median THEN 1 ELSE 0 END) AS nearer,
           sum(CASE WHEN place = middle THEN amount ELSE 0 END) AS at_half,
           sum(CASE WHEN place = middle - without THEN amount ELSE 0 END) AS at_half_of_others
    FROM (
        SELECT site_text, site_number, median, amount, place, nr - hosts AS without, (nr + 1 - (nr + 1) % 2) / 2 AS middle
        FROM (
            SELECT site_text, site_number, median, hosts, amount, place, {host_nr} AS nr FROM ({ranked_distances}) AS ranked
        ) AS counted
    ) AS placed
    GROUP BY site_text, site_number
) AS measured
