-- Versions of agents and kernels, and the detail.
SELECT c.agent AS agent, c.kernel AS kernel, c.detail AS detail, COUNT(DISTINCT c.host) AS hosts
FROM fleet_coverage AS c
WHERE c.begin_ns >= ${begin_ns} AND c.begin_ns < ${end_ns}
GROUP BY c.agent, c.kernel, c.detail
