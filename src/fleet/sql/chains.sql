-- What tracebacks say of some places, in their order: the lendable places of the frames in chosen, and the disputed ones
-- of all, which an answer counts. {lendable}, {disputed}: lendable.sql.
SELECT chain, position, frame_id
FROM (
    SELECT place, chain, position, frame_id, min(traceback_id) AS least_id
    FROM place
    WHERE (place IN ({lendable}) AND place IN (SELECT place FROM place WHERE frame_id IN (SELECT chosen_id FROM chosen)))
        OR place IN ({disputed})
    GROUP BY place, chain, position, frame_id
) AS known
ORDER BY least_id, place, chain, position
