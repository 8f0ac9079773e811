-- Part of hosts.sql: negative, so that the largest value has the first place. {values}: host-values.sql.
SELECT site_text, site_number, 0 AS median, 0 AS hosts, 0 - bytes AS amount FROM ({values}) AS had
