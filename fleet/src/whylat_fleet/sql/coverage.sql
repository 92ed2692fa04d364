-- The agents' rows of the window.
SELECT
    c.host AS host,
    c.begin_ns AS begin_ns,
    c.length_us AS length_us,
    c.poll_gap_us AS poll_gap_us,
    c.clock_error_us AS clock_error_us,
    c.detail AS detail,
    c.lost AS lost,
    c.connections AS connections,
    c.dropped_files AS dropped_files,
    c.agent AS agent,
    c.boot_id AS boot_id
FROM fleet_coverage AS c
WHERE c.begin_ns >= ${begin_ns} AND c.begin_ns < ${end_ns}
