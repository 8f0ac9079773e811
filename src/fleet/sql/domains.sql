-- fleet stats --group-by domain. Two programs may use one name for domains of their own. {chosen}: latest.sql or
-- all-times.sql.
SELECT name, bytes, blocks
FROM (
    SELECT domain, sum(size) AS bytes, sum(count) AS blocks
    FROM allocation WHERE upload_id IN ({chosen})
    GROUP BY domain
) AS sums
INNER JOIN (SELECT DISTINCT domain, name FROM domain) AS names USING (domain)
