//! Calls of a connection → exchanges, and of those that are judged, requests.

use super::endpoint::EndpointId;
use super::history::{ResponseTimes, ThreadCall, ThreadEventKind};
use super::loop_pool::AskedBefore;
use super::owner::TimedCall;
use super::part::RequestPart;
use super::request::Request;
use super::request_table::{RequestTable, Row, WAITING_LEAST};
use super::service::Side;
use super::turns::{Exchange, MovingCall, StreamRange, TurnChange, TurnTracker, Turns};
use super::{accountant, arrival, output_gap, path, pool, sleep_gap};

/// An end that was silent for so long had nothing to send (`TCP_RTO_MIN`; RFC 5681, 4.1).
pub(super) const SILENT_NS: u64 = 200_000_000;

impl RequestTable {
    /// Adds a call, in the order of time.
    pub(super) fn take_call(&mut self, end_ns: u64, row: Row) {
        let Row::Call {
            endpoint: id,
            thread,
            is_send,
            start_ns,
            unread_ns,
            tcp_ns,
            bytes,
            offset_end,
        } = row
        else {
            return;
        };
        if bytes == 0 {
            // The server may send on after its client has ended its own direction.
            let is_client = self.endpoints.get(id).side == Side::Client;
            if !is_send && is_client && self.is_answered(id) {
                self.finish_connection(id);
            }
            return;
        }
        if self.endpoints.get(id).is_side_open {
            let side = if is_send { Side::Client } else { Side::Server };
            self.endpoints.decide_side(id, side, &mut self.services);
        }
        let endpoint = self.endpoints.get(id);
        let began_after_ns = start_ns.unwrap_or_else(|| self.history.last_ns(thread));
        let begin_ns = match is_send {
            true => start_ns.or(tcp_ns).map_or(end_ns, |ns| ns.min(end_ns)),
            false => self.arrival_ns(
                id,
                (start_ns, end_ns),
                unread_ns,
                offset_end - bytes.min(offset_end),
            ),
        };
        let moving = MovingCall {
            is_request: is_send == (endpoint.side == Side::Client),
            begin_ns,
            is_coarse: !is_send && self.is_coarse(id, unread_ns),
            end_ns,
            began_after_ns,
            range: StreamRange {
                first: offset_end.saturating_sub(bytes),
                end: offset_end,
            },
            thread,
        };
        let side = endpoint.side;
        self.endpoints.note_call(id, end_ns);
        let is_cut = moving.begin_ns < self.window_begin_ns();
        let timed = |served| TimedCall {
            end_ns,
            is_send,
            served,
        };
        if side == Side::Server {
            self.history.count_time(thread, timed(id));
        }
        match is_cut {
            true => self.skip_turn(id),
            false => self.take_turn(id, &moving),
        }
        let call = self.thread_call(id, side, &moving);
        if let (Side::Client, Some(served)) = (side, call.served) {
            self.history.count_time(thread, timed(served));
        }
        let horizon_ns = self.horizon_ns(end_ns);
        let call = ThreadEventKind::Call(call);
        self.history.add(thread, end_ns, call, horizon_ns);
    }

    /// Returns the call with the request that its thread served; a client's call belongs to the
    /// request that asked.
    fn thread_call(&mut self, id: EndpointId, side: Side, call: &MovingCall) -> ThreadCall {
        let is_server = side == Side::Server;
        let turns = self.turns[id.index()].as_mut();
        let open = turns.and_then(|turns| turns.tracker.open());
        let response = open
            .as_ref()
            .filter(|_| !is_server && !call.is_request)
            .map(|open| ResponseTimes {
                asked_ns: open.begin_ns,
                arrived_ns: call.begin_ns,
                release: open.release,
            });
        let offset = open.as_ref().filter(|_| is_server);
        let offset = offset.map(|open| open.request.first);
        let asked_for = open.and_then(|open| Some((open.asked_for?, open.begin_ns)));
        // a later request of that connection did not ask
        let asked_for = asked_for.filter(|(served, asked_ns)| {
            let turns = self.turns[served.index()].as_deref();
            let begin_ns = turns.and_then(|turns| turns.tracker.begin_ns());
            begin_ns.is_none_or(|begin_ns| begin_ns <= *asked_ns)
        });
        ThreadCall {
            endpoint: id,
            is_udp: self.endpoints.get(id).is_udp,
            is_send: is_server != call.is_request,
            offset,
            served: match is_server {
                true => Some(id),
                false => asked_for.map(|(served, _)| served),
            },
            response,
        }
    }

    /// Returns when the first byte of a receive call had arrived, ns.
    fn arrival_ns(
        &self,
        id: EndpointId,
        (start_ns, end_ns): (Option<u64>, u64),
        unread_ns: Option<u64>,
        offset: u64,
    ) -> u64 {
        let endpoint = self.endpoints.get(id);
        let Some(unread_ns) = unread_ns else {
            let peer = endpoint
                .peer
                .and_then(|peer| self.turns[peer.index()].as_deref());
            let sent_ns = peer.and_then(|peer| peer.tracker.sent_ns(offset));
            return arrival::of_unseen(endpoint, start_ns, end_ns, sent_ns);
        };
        let jiffy_ns = self.header.jiffy_ns.unwrap_or(0);
        let is_coarse = self.is_coarse(id, Some(unread_ns));
        let less_ns = if is_coarse { jiffy_ns } else { 0 };
        arrival::of_unread(
            end_ns,
            unread_ns.saturating_sub(less_ns),
            start_ns,
            endpoint.woken,
        )
    }

    /// Returns whether the arrival time of unread bytes is known only to the clock tick. The time
    /// of datagrams is exact, or null.
    fn is_coarse(&self, id: EndpointId, unread_ns: Option<u64>) -> bool {
        let whole = |ns: u64, jiffy_ns: u64| ns >= jiffy_ns && ns.is_multiple_of(jiffy_ns);
        let jiffy_ns = self.header.jiffy_ns.filter(|ns| *ns > 0);
        unread_ns
            .zip(jiffy_ns)
            .is_some_and(|(ns, jiffy_ns)| whole(ns, jiffy_ns) && !self.endpoints.get(id).is_udp)
    }

    /// Returns whether the open request of a connection has a response.
    fn is_answered(&mut self, id: EndpointId) -> bool {
        let turns = self.turns[id.index()].as_mut();
        let open = turns.and_then(|turns| turns.tracker.open());
        open.is_some_and(|open| open.response.is_some())
    }

    /// Adds a call to the turns of its connection.
    fn take_turn(&mut self, id: EndpointId, call: &MovingCall) {
        if self.over[id.index()] {
            return;
        }
        let mut turns = self.take_turns(id);
        let handshake_ns = self.endpoints.get(id).handshake_ns;
        let finished = match call.is_request && handshake_ns > 0 {
            true => turns.tracker.take_finished(handshake_ns),
            false => None,
        };
        self.note_other_asker(id, &mut turns, call);
        match turns.tracker.add(call) {
            TurnChange::None => {}
            TurnChange::Begun(over) => self.begin(id, &mut turns, (over, finished), call),
            TurnChange::Answered => self.take_answer(id, &mut turns, call),
        }
        self.turns[id.index()] = Some(turns);
    }

    /// Notes whether a loop sends on a connection for another request while one has no response there: requests share it, and
    /// none waits for it.
    fn note_other_asker(&self, id: EndpointId, turns: &mut Turns, call: &MovingCall) {
        let is_client = self.endpoints.get(id).side == Side::Client;
        let open = turns.tracker.open().filter(|open| open.response.is_none());
        let asked_for = open.and_then(|open| open.asked_for);
        if let Some(first) = asked_for.filter(|_| is_client && call.is_request) {
            let time = (call.end_ns, false);
            let asking = self.history.asking_endpoint(call.thread, time);
            turns.is_shared |= asking.is_some_and(|asking| asking != first);
        }
    }

    /// Skips a turn with bytes that arrived before the window.
    fn skip_turn(&mut self, id: EndpointId) {
        if !self.over[id.index()] {
            let mut turns = self.take_turns(id);
            turns.tracker.skip();
            self.turns[id.index()] = Some(turns);
        }
    }

    /// Takes the turns of a connection out of the table; makes them for a new connection.
    fn take_turns(&mut self, id: EndpointId) -> Box<Turns> {
        self.turns[id.index()].take().unwrap_or_else(|| {
            let endpoint = self.endpoints.get(id);
            let tracker = TurnTracker::new(endpoint.side, self.is_lossless);
            Box::new(Turns::new(tracker.of_datagrams(endpoint.is_udp)))
        })
    }

    /// Begins a request, and ends the one before.
    fn begin(
        &mut self,
        id: EndpointId,
        turns: &mut Turns,
        (over, finished): (Option<Box<Exchange>>, Option<Box<Exchange>>),
        call: &MovingCall,
    ) {
        let side = self.endpoints.get(id).side;
        if side == Side::Server {
            self.history.begin_serving(call.thread);
        }
        let before = over.as_deref().filter(|_| side == Side::Client);
        let is_same_thread = |before: &&Exchange| before.request_thread == call.thread;
        let may_be_free = !turns.is_shared && !self.endpoints.get(id).is_udp;
        let of_loop = before.filter(|it| is_same_thread(it) && it.response.is_some());
        let of_loop = of_loop.filter(|_| may_be_free);
        let asked = of_loop.map(|before| AskedBefore {
            asked_ns: before.requested_ns,
            read_ns: before.answered_ns,
            by: before.asked_for,
        });
        let before = before.filter(|before| !is_same_thread(before));
        let service_of = |end| self.endpoints.get(end).service;
        let is_of_pool = |other| service_of(other) == service_of(id);
        let pool = before.zip(turns.tracker.open()).and_then(|(before, open)| {
            let times = (open.begin_ns, before.answered_ns);
            pool::wait_before(&self.history, (call.thread, id), times, is_of_pool)
        });
        let opening = over.and_then(|mut over| {
            over.set_next_request(call.begin_ns);
            self.hold_exchange(id, turns, *over)
        });
        let opening = finished.map(|finished| *finished).or(opening);
        let greeted_ns = turns.tracker.greeted_ns();
        if let Some(open) = turns.tracker.open() {
            open.pool = pool;
            open.served = self.history.count_served(call.thread);
            if side == Side::Client {
                self.free.begin_use(self.endpoints.get(id).service, id);
                if open.served == 0 {
                    // else such a wait is a part of what the thread serves
                    let asking = (call.thread, open.begin_ns);
                    let has_response = |target| self.endpoints.has_response(target);
                    open.output = output_gap::gap_before(&self.history, asking, has_response);
                    open.sleep = sleep_gap::sleep_before(&self.history, asking);
                } else {
                    let asking = (self.endpoints.get(id).service, call.thread);
                    let endpoints = &self.endpoints;
                    let is_of_service = |it| endpoints.get(it).service == asking.0;
                    let place: (_, &dyn Fn(EndpointId) -> bool) = (&self.history, &is_of_service);
                    open.release = self.free.ask(place, asking, open.begin_ns, asked);
                }
                let time = (call.end_ns, open.release.is_some());
                open.asked_for = self.history.asking_endpoint(call.thread, time);
            }
            match opening {
                Some(opening) => accountant::join_opening(open, opening),
                None => {
                    let endpoint = self.endpoints.get(id);
                    accountant::join_connecting(&self.history, (endpoint, greeted_ns), open);
                }
            }
            self.waiting.push_back((open.begin_ns, id));
        }
        if self.waiting.len() > self.waiting_most {
            self.forget_answered();
        }
    }

    /// Removes answered requests from the end of the waiting list.
    fn forget_answered(&mut self) {
        let turns = &self.turns;
        self.waiting.retain(|(begin_ns, id)| {
            let turns = turns[id.index()].as_ref();
            turns.and_then(|turns| turns.tracker.waits_since()) == Some(*begin_ns)
        });
        self.waiting_most = WAITING_LEAST.max(2 * self.waiting.len());
    }

    /// Adds bytes of a response to the open request.
    fn take_answer(&mut self, id: EndpointId, turns: &mut Turns, call: &MovingCall) {
        let is_push = self.is_push(id, turns, call);
        let mut is_unasked = is_push;
        let before = self.join_handshake(id, turns);
        if let Some(open) = turns.tracker.open() {
            let finder = path::PathFinder {
                history: &self.history,
                endpoints: &self.endpoints,
                has_waits: self.has_waits && self.is_whole,
                has_most_calls: self.has_most_calls,
                credit: &self.credit,
            };
            self.credit.add_call();
            let peer = self.endpoints.get(id).peer;
            let peer = peer.and_then(|peer| self.turns[peer.index()].as_deref());
            let peer = peer.and_then(|peer| peer.tracker.peer_of(open));
            let timer_ns = |open: &Exchange| open.breakdown.parts.get(RequestPart::Timer);
            let before_ns = (open.answered_ns, timer_ns(open));
            self.accountant
                .account_until(&finder, id, open, (call, peer));
            if is_push {
                let pause_ns = call.end_ns.saturating_sub(before_ns.0);
                let waited_ns = timer_ns(open) - before_ns.1;
                is_unasked = open.pauses.add(call.range.bytes(), pause_ns, waited_ns);
            }
            open.add_response(call);
            turns.answered_ns = Some(call.end_ns);
            let endpoint = self.endpoints.get_mut(id);
            endpoint.has_response = true;
            self.free.end_use(endpoint.service, id);
        }
        turns.tracker.counts.pushes += u64::from(is_unasked);
        if let Some(before) = before {
            self.hold_exchange(id, turns, *before);
        }
    }

    /// Takes the exchange that was kept while it might go on, now that the open one has a response. A handshake becomes a part of
    /// the open one.
    fn join_handshake(&mut self, id: EndpointId, turns: &mut Turns) -> Option<Box<Exchange>> {
        let before = turns.tracker.take_before()?;
        let is_over = before.response.is_some() && !before.has_gap;
        if is_over
            && self.is_handshake(id, &before)
            && let Some(open) = turns.tracker.open()
        {
            accountant::join_opening(open, *before);
            return None;
        }
        Some(before)
    }

    /// Holds an exchange that is over until its connection is judged; returns it if it was a TLS
    /// handshake.
    pub(super) fn hold_exchange(
        &mut self,
        id: EndpointId,
        turns: &mut Turns,
        exchange: Exchange,
    ) -> Option<Exchange> {
        if exchange.response.is_none() || exchange.has_gap {
            turns.responses += u64::from(exchange.response.is_some());
            return None;
        }
        if self.is_handshake(id, &exchange) {
            return Some(exchange);
        }
        turns.responses += 1;
        if turns.judged > 0 && exchange.answered_ns > turns.shared_until_ns {
            self.release_exchanges(id, turns);
        }
        let endpoint = self.endpoints.get(id);
        let shared = self.stages.shared_until(endpoint, id, exchange.answered_ns);
        turns.shared_until_ns = turns.shared_until_ns.max(shared.unwrap_or(0));
        let is_shared = shared.is_some();
        turns.held.push(exchange);
        if turns.tracker.counts.is_due() {
            turns.judge();
            if !is_shared {
                self.release_exchanges(id, turns);
            }
        }
        None
    }

    /// Returns whether the server sends without a request: its thread waited for others or slept
    /// since its last answer. At the client, if the server was silent for long.
    fn is_push(&self, id: EndpointId, turns: &mut Turns, call: &MovingCall) -> bool {
        let open = turns.tracker.open().filter(|open| open.response.is_some());
        let Some(open) = open else {
            return false;
        };
        let answered_ns = open.answered_ns;
        // a datagram that was repeated has an answer of its own
        let expected_ns = answered_ns.max(open.again.last_ns);
        let endpoint = self.endpoints.get(id);
        if endpoint.side == Side::Server {
            return self.history.get(call.thread).is_idle_since(id, answered_ns);
        }
        let peer = endpoint
            .peer
            .and_then(|peer| self.turns[peer.index()].as_ref());
        match peer {
            Some(peer) => peer.tracker.counts.pushes > turns.tracker.counts.pushes,
            None => call.begin_ns.saturating_sub(expected_ns) > SILENT_NS,
        }
    }

    /// Returns whether an exchange is a TLS handshake: a thread waited in a handshake function. The
    /// handshakes of a service are of about the same length, so that one without a wait is known by
    /// its place.
    fn is_handshake(&mut self, id: EndpointId, exchange: &Exchange) -> bool {
        let endpoint = self.endpoints.get(id);
        let known = self.services.digest_mut(endpoint.service);
        if (exchange.asked_ns..=exchange.answered_ns).contains(&endpoint.handshake_ns) {
            known.handshake_bytes = known.handshake_bytes.max(exchange.request.end);
            return true;
        }
        endpoint.handshake_ns > 0 && exchange.request.end <= known.handshake_bytes
    }

    /// Converts the held exchanges that are judged to requests, and counts them.
    pub(super) fn release_exchanges(&mut self, id: EndpointId, turns: &mut Turns) {
        let judged = std::mem::take(&mut turns.judged);
        let mut held: Vec<_> = turns.held.drain(..judged).collect();
        self.stages.share(self.endpoints.get(id), id, &mut held);
        for exchange in held {
            let endpoint = self.endpoints.get(id);
            let request = Request::new(endpoint, id, exchange);
            if self.listing.is_wanted(&request, endpoint, &self.history) {
                self.count(&request, &mut turns.series);
                let service = self.endpoints.get(request.endpoint).service;
                self.listing.add(service, request);
            } else {
                self.excluded += 1;
            }
        }
    }

    /// The connection ended, or the recording did.
    pub(super) fn finish_connection(&mut self, id: EndpointId) {
        let Some(mut turns) = self.turns[id.index()].take() else {
            return;
        };
        self.over[id.index()] = true;
        self.free.end_use(self.endpoints.get(id).service, id);
        let before = turns.tracker.take_before();
        let endpoint = self.endpoints.get(id);
        let may_be_open = endpoint.has_close && endpoint.closed_ns.is_none();
        let recorded_ns = may_be_open.then_some(self.latest_ns);
        let last = turns.tracker.finish(recorded_ns);
        let unanswered = last.clone().filter(|it| it.response.is_none());
        let closed_ns = endpoint.closed_ns;
        for mut exchange in before.into_iter().chain(last) {
            closed_ns
                .into_iter()
                .for_each(|ns| exchange.set_next_request(ns));
            self.hold_exchange(id, &mut turns, *exchange);
        }
        turns.judge();
        self.release_exchanges(id, &mut turns);
        self.count_class(id, &turns);
        self.endpoints.get_mut(id).request_end = turns.tracker.request_end();
        if let Some(request) = unanswered {
            self.count_reset(id, &turns, &request);
        }
    }
}
