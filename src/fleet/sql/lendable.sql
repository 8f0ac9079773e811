-- The places that have more names in some snapshots than in others. {disputed}: a condition on those of which snapshots say
-- different things, so that no names are lent; or 1.
SELECT place FROM place GROUP BY place HAVING min(detail) < max(detail) AND {disputed}
