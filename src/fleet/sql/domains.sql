-- fleet stats --group-by domain. A domain without a name
-- is #NUMBER, until one is known. {chosen}: latest.sql or
-- all-times.sql.
SELECT name, bytes, blocks
FROM (
    SELECT domain, sum(size) AS bytes, sum(count) AS blocks
    FROM allocation WHERE upload_id IN ({chosen})
    GROUP BY domain
) AS sums
INNER JOIN (
    SELECT domain, max(pushed_name) AS name FROM (SELECT domain, name AS pushed_name FROM domain) AS pushed GROUP BY domain
) AS names USING (domain)
