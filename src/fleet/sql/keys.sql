-- What a site is for each --group-by: {text} and {number} of sites.sql, over the columns of frame. Code without a line
-- is known by its name and file, code without a name by its place in one build of the file.

-- lineno {text}
CASE WHEN line > 0 THEN file WHEN func <> '' THEN module || ' ' || func WHEN build_id <> '' THEN module || '@' || substr(build_id, 1, 12) || ' ' ELSE module || ' ' END
-- lineno {number}
CASE WHEN line > 0 THEN line WHEN func <> '' THEN 0 ELSE offset END
-- filename {text}
CASE WHEN line > 0 THEN file ELSE module END
-- filename {number}
0
-- function {text}
CASE WHEN func <> '' THEN func WHEN build_id <> '' THEN '<unknown> in ' || module || '@' || substr(build_id, 1, 12) ELSE '<unknown> in ' || module END
-- function {number}
0
-- object {text}
module
-- object {number}
0
-- traceback {text}
''
-- traceback {number}
stack
-- drift {text}
CASE WHEN line > 0 THEN file || ':' || func WHEN func <> '' THEN module || ' ' || func ELSE module || '@' || substr(build_id, 1, 12) || ' ' END
-- drift {number}
CASE WHEN line > 0 THEN line - first_line WHEN func <> '' THEN 0 ELSE offset END
