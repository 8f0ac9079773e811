-- The same as ranks.sql for a ClickHouse without window functions.
SELECT site_text, site_number, median, hosts, amount, place
FROM (
    SELECT site_text, site_number, median, hosts, arraySort(groupArray(amount)) AS sorted
    FROM ({amounts}) AS amounts
    GROUP BY site_text, site_number, median, hosts
) AS grouped
ARRAY JOIN sorted AS amount, arrayEnumerate(sorted) AS place
