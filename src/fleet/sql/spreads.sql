-- Like origins.sql: what the samples stand for besides themselves, and how sure that is. Several snapshots of one process
-- have largely the same blocks, so that their deviations add up, and not their variances: is_alike is 1 then.
SELECT traceback_id, domain, sum(beyond_1) AS beyond_s, sum(variance_1) AS variance_s, sum(covariance_1) AS covariance_s,
       sum(beyond_2) AS beyond_c, sum(variance_2) AS variance_c, sum(covariance_2) AS covariance_c
FROM (
    SELECT traceback_id, domain, beyond_1, beyond_2,
           if({is_alike}, d1 * d1, v1) AS variance_1, if({is_alike}, s1 * s1 * s1, c1) AS covariance_1,
           if({is_alike}, d2 * d2, v2) AS variance_2, if({is_alike}, s2 * s2 * s2, c2) AS covariance_2
    FROM (
        SELECT traceback_id, domain, process_nr, sum(size_beyond) AS beyond_1, sum(count_beyond) AS beyond_2,
               sum(size_variance) AS v1, sum(sqrt(size_variance)) AS d1, sum(size_covariance) AS c1,
               sum(cbrt(size_covariance)) AS s1, sum(count_variance) AS v2, sum(sqrt(count_variance)) AS d2,
               sum(count_covariance) AS c2, sum(cbrt(count_covariance)) AS s2
        FROM sample
        INNER JOIN (SELECT chosen_id AS upload_id, process_nr FROM chosen) AS processes USING (upload_id)
        WHERE time BETWEEN {first} AND {last} AND upload_id IN (SELECT chosen_id FROM chosen)
        GROUP BY traceback_id, domain, process_nr
    ) AS of_processes
) AS alike
GROUP BY traceback_id, domain
