//! Adds requests, and the ends of connections, to the sums of their services.

use super::class::ConnectionClass;
use super::contrast_digest::RequestTraits;
use super::endpoint::{ECONNRESET, EPIPE, Endpoint, EndpointId};
use super::exchanges::SILENT_NS;
use super::part::{PartTimes, RequestPart};
use super::pauses::may_be_pings;
use super::request::Request;
use super::request_table::RequestTable;
use super::resets::{LostRequest, ReadExtent};
use super::runs::SeriesRequest;
use super::series::ConnectionSeries;
use super::service::{RequestSums, Side};
use super::turns::{Exchange, Turns};

impl RequestTable {
    /// Adds a request to the sums of its service.
    pub(super) fn count(&mut self, request: &Request, series: &mut ConnectionSeries) {
        let endpoint = self.endpoints.get(request.endpoint);
        let (id, breakdown) = (request.id, &request.breakdown);
        let digest = self.services.digest_mut(endpoint.service);
        let other = endpoint.peer.map(|peer| self.endpoints.get(peer).pid);
        let other = other.filter(|pid| *pid != endpoint.pid);
        let mut peer = PartTimes::default();
        for step in &breakdown.steps {
            let pid = step.thread.map(|thread| self.history.get(thread).pid);
            if pid.is_some() && pid == other {
                peer.add(step.part, step.length_ns());
                continue;
            }
            digest.wakes_ns += step.wake_ns();
            let about = step.subject.endpoint;
            let service = about.map(|it| self.endpoints.get(it).service);
            let stack = step.subject.stack;
            let stack = stack.and_then(|it| self.names.distinct_stack(it));
            digest.subjects.add(step, stack, service);
        }
        for time in breakdown.unkept.iter() {
            let pid = time.thread.map(|thread| self.history.get(thread).pid);
            if pid.is_some() && pid == other {
                peer.add(time.part, time.ns);
                continue;
            }
            digest.wakes_ns += time.wake_ns;
            digest.subjects.add_unkept(&time);
        }
        if breakdown.parts.get(RequestPart::Upstream) > 0 {
            digest.asking_ns += request.duration_ns();
        }
        let time = (request.begin_ns, request.end_ns);
        digest.add(&RequestSums {
            id,
            time,
            parts: &breakdown.parts,
            peer: &peer,
            functions: &breakdown.functions,
            queue: breakdown.queue_most,
        });
        digest
            .contrast
            .add(request.duration_ns(), id, || RequestTraits {
                duration_ns: request.duration_ns(),
                id,
                numbers: [
                    request.request.bytes(),
                    request.response.bytes(),
                    request.calls,
                    breakdown.queue_most,
                ],
                endpoint: request.endpoint,
                thread: request.thread,
                parts: breakdown.parts,
            });
        if let Some(pool) = &request.pool {
            let stack = pool.stack.and_then(|it| self.names.distinct_stack(it));
            digest.pool.add(pool, stack);
        }
        if let Some(gap) = &request.output {
            let stack = gap.stack.and_then(|it| self.names.distinct_stack(it));
            digest.output.add(gap, stack);
        }
        if let Some(gap) = request.sleep {
            let stack = gap.stack.and_then(|it| self.names.distinct_stack(it));
            digest.sleep.add(gap, stack);
        }
        if let Some(wait) = request.loop_pool {
            digest.loop_pools.add(wait);
        }
        if let Some(path_ns) = endpoint.min_rtt_ns {
            let known_ns = digest.path_ns.unwrap_or(path_ns);
            digest.path_ns = Some(known_ns.min(path_ns));
        }
        digest
            .repeats
            .add(request.endpoint, request.begin_ns, request.again);
        let (asked, answered) = (request.request.bytes(), request.response.bytes());
        let mut pauses = request.pauses;
        if may_be_pings(asked, answered, series.largest_bytes()) {
            pauses.unasked_ns = breakdown.parts.get(RequestPart::Timer);
        }
        digest.pauses.add(pauses, &request.pace);
        if let Some(holders) = &request.holders {
            digest.holders.add(holders);
        }
        let ns = request.duration_ns();
        digest.connections.add(request.endpoint.index() as u32, ns);
        digest.processes.add(endpoint.pid, ns);
        if let Some(pid) = other {
            digest.others.add(pid, ns);
        }
        if endpoint.side == Side::Server {
            digest.queue.add(&breakdown.queue);
            digest
                .blockers
                .add(&breakdown.parts, &breakdown.behind_long);
            let of = request.endpoint;
            let is_first = request.request.first == 0;
            let worker = (endpoint.pid, of);
            digest.workers.add(worker, time, &breakdown.parts, is_first);
        }
        let before = (endpoint.service, request.thread);
        let run = self.runs.entry(before).or_default();
        digest.series.add(series, run.before(), time);
        let credit_bytes = series.credit_bytes(asked, answered);
        digest.series.credits += u64::from(credit_bytes > 0);
        digest.resets.follow(request.thread, request.begin_ns);
        let on_path_ns = breakdown.parts.get(RequestPart::Network) - peer.get(RequestPart::Network);
        let path_ns = endpoint.min_rtt_ns.filter(|_| !endpoint.is_within_host);
        let in_series = SeriesRequest {
            time,
            served: request.served,
            round_trip_ns: path_ns.unwrap_or(0).min(on_path_ns),
            credit_bytes,
        };
        match endpoint.side {
            Side::Client => digest.runs.add(run, &in_series),
            Side::Server => run.pass(request.end_ns),
        }
    }

    /// Counts a request without a response, as its connection ended: as cut off by a reset, unanswered, or as a
    /// farewell.
    pub(super) fn count_reset(&mut self, id: EndpointId, turns: &Turns, request: &Exchange) {
        let answered_ns = turns.answered_ns;
        let may_be_farewell = turns.tracker.may_be_farewell(request);
        let endpoint = self.endpoints.get(id);
        let is_reset = matches!(endpoint.errno, Some(ECONNRESET | EPIPE));
        let begin_ns = request.asked_ns;
        if endpoint.side != Side::Client || request.response.is_some() {
            return;
        }
        if may_be_farewell && !self.is_awaited(endpoint, request) {
            let digest = self.services.digest_mut(endpoint.service);
            digest.resets.farewells += u64::from(is_reset);
            return;
        }
        let is_transfer = is_reset && answered_ns.is_none() && is_transfer(endpoint, request);
        if is_transfer && endpoint.errno == Some(EPIPE) {
            let digest = self.services.digest_mut(endpoint.service);
            digest.resets.transfers += 1;
            return;
        }
        if !is_reset {
            // where nothing was ever answered, one end may have nothing to say
            let is_answering = answered_ns.is_some() && endpoint.errno.is_none();
            let closed_ns = endpoint.closed_ns.filter(|_| is_answering);
            let digest = self.services.digest_mut(endpoint.service);
            digest.resets.unanswered += u64::from(closed_ns.is_some());
            let waited_ns = closed_ns.map_or(0, |ns| ns.saturating_sub(begin_ns));
            digest.resets.unanswered_ns += waited_ns;
            return;
        }
        let read_end = endpoint.peer.and_then(|peer| self.request_end(peer));
        let lost = LostRequest {
            conn: endpoint.conn,
            read: ReadExtent::new(request.request, read_end),
            responses: endpoint.opened_ns.map(|_| turns.responses),
            begin_ns,
            closed_ns: endpoint.closed_ns.unwrap_or(begin_ns),
            idle_ns: answered_ns.map(|ns| begin_ns.saturating_sub(ns)),
            is_after_fin: endpoint.errno == Some(EPIPE),
            next_ns: None,
        };
        if is_transfer {
            self.reset_transfers
                .push((id, request.request_thread, lost));
            return;
        }
        let digest = self.services.digest_mut(endpoint.service);
        digest.resets.add(request.request_thread, lost);
    }

    /// Counts transfers that a RST ended without a FIN, once all calls are known: the program got an error, or it had made its
    /// last call and never knew.
    pub(super) fn count_reset_transfers(&mut self) {
        for (id, thread, lost) in std::mem::take(&mut self.reset_transfers) {
            let endpoint = self.endpoints.get(id);
            let resets = &mut self.services.digest_mut(endpoint.service).resets;
            match endpoint.has_reset_error || !self.is_lossless {
                true => resets.add(thread, lost),
                false => resets.transfers += 1,
            }
        }
    }

    /// Returns the offset after the last byte of requests that an end moved, be its turns over or not.
    fn request_end(&self, id: EndpointId) -> Option<u64> {
        match self.turns[id.index()].as_deref() {
            Some(turns) => turns.tracker.request_end(),
            None => self.endpoints.get(id).request_end,
        }
    }

    /// Returns whether a thread waited for a response to the connection's last message.
    fn is_awaited(&self, endpoint: &Endpoint, request: &Exchange) -> bool {
        let end_ns = request.requested_ns;
        let closed_ns = endpoint.closed_ns.unwrap_or(u64::MAX);
        let is_woken = endpoint.woken.is_some_and(|(ns, _)| ns > end_ns);
        closed_ns.saturating_sub(end_ns) >= SILENT_NS && (is_woken || !self.has_waits)
    }

    /// Counts a connection by class and service, and its broken turns.
    pub(super) fn count_class(&mut self, id: EndpointId, turns: &Turns) {
        let counts = &turns.tracker.counts;
        let class = counts.class();
        if class != ConnectionClass::OneSided {
            self.broken += counts.broken;
            self.unanswered += counts.unanswered;
        }
        if class == ConnectionClass::TurnTaking {
            self.unfinished += counts.unfinished;
        }
        let service = self.endpoints.get(id).service;
        *self.classes.entry((service, class)).or_default() += 1;
    }
}

/// Returns whether a connection without any response sent data for most of its time until the RST: nothing shows that a response
/// was due.
fn is_transfer(endpoint: &Endpoint, request: &Exchange) -> bool {
    let sent_ns = request.requested_ns.saturating_sub(request.asked_ns);
    let waited_ns = |closed_ns: u64| closed_ns.saturating_sub(request.requested_ns);
    endpoint.closed_ns.is_some_and(|ns| sent_ns > waited_ns(ns))
}
