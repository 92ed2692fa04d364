//! An exchange, each time that bytes of its response move, to the steps of its time since the last time. Its own end is
//! accounted: of a client, from its call to the arrival of the response and on to the call that takes it; of a server,
//! from the arrival of the request to the call that sends.

use super::blockers;
use super::endpoint::{Endpoint, EndpointId};
use super::history::{History, ThreadId};
use super::loop_pool::LoopPoolWait;
use super::pace::ClientTurn;
use super::part::RequestPart;
use super::path::{PathContext, PathFinder};
use super::service::Side;
use super::trail::{StepSubject, Trail};
use super::turns::{Exchange, MovingCall};

/// A connection was opened for a request that was sent so soon after, or within the time that the handshake took.
const OPENED_FOR_NS: u64 = 1_000_000;

/// A thread that was done with its resolver connected so soon after.
pub const RESOLVED_FOR_NS: u64 = 10_000_000;

/// Adds connecting, name look-up and the wait for the server's greeting to the first exchange of a connection that was opened
/// for it. `greeted_ns`: when the greeting had been moved. At a server without a greeting, the first exchange begins with its
/// first byte.
pub fn join_connecting(
    history: &History,
    (endpoint, greeted_ns): (&Endpoint, Option<u64>),
    exchange: &mut Exchange,
) {
    let Some(opened_ns) = endpoint.opened_ns else {
        return;
    };
    let connect_ns = match endpoint.side {
        Side::Client => endpoint.connect_ns,
        Side::Server => greeted_ns.map(|_| opened_ns),
    };
    let Some(connect_ns) = connect_ns else {
        return;
    };
    // the client may answer before the call ends that sends the greeting
    let ready_ns = greeted_ns
        .unwrap_or(0)
        .min(exchange.begin_ns)
        .max(opened_ns);
    let took_ns = ready_ns.saturating_sub(connect_ns);
    let follows = connect_ns <= opened_ns && ready_ns <= exchange.begin_ns;
    let is_first = exchange.request.first == 0;
    if is_first && follows && is_soon(ready_ns, exchange.begin_ns, took_ns) {
        let thread = history.get(exchange.first_thread);
        let resolving_ns = match endpoint.side {
            Side::Client => thread.resolving_since(connect_ns, RESOLVED_FOR_NS),
            Side::Server => None,
        };
        exchange.begin_ns = resolving_ns.unwrap_or(connect_ns);
        exchange.accounted_ns = exchange.begin_ns;
    }
}

/// Adds the TLS handshake to the first exchange after it, if the handshake was made for it.
pub fn join_opening(exchange: &mut Exchange, opening: Exchange) {
    let took_ns = opening.accounted_ns.saturating_sub(opening.begin_ns);
    let gap = (opening.accounted_ns, exchange.begin_ns);
    if gap.0 <= gap.1 && is_soon(gap.0, gap.1, took_ns) {
        exchange.begin_ns = opening.begin_ns;
        exchange.accounted_ns = gap.1;
        exchange.calls += opening.calls;
        exchange
            .breakdown
            .take_over(opening.breakdown, RequestPart::Connect, gap);
    }
}

/// Returns a request at the other end, which serves it since `since_ns` at the earliest, and the subject of its steps on the
/// path; `None`: that end is not recorded.
fn serving_context(
    context: &PathContext,
    peer: &Exchange,
    since_ns: u64,
) -> Option<(PathContext, StepSubject)> {
    let other = context.peer?;
    let about = StepSubject {
        endpoint: Some(other),
        ..StepSubject::default()
    };
    let serving = PathContext {
        own: other,
        peer: Some(context.own),
        side: Side::Server,
        begin_ns: peer.begin_ns.max(since_ns),
        home: (peer.request_thread, peer.requested_ns),
        served: None,
        is_of_peer: true,
        turn: ClientTurn::None,
    };
    Some((serving, about))
}

/// Returns whether the request began soon after its connection was opened.
fn is_soon(opened_ns: u64, begin_ns: u64, took_ns: u64) -> bool {
    begin_ns.saturating_sub(opened_ns) <= took_ns.max(OPENED_FOR_NS)
}

/// Accounts the time of exchanges.
#[derive(Debug, Default)]
pub struct Accountant {
    trail: Trail,
}

impl Accountant {
    /// Accounts the time of an exchange until this call of its response. `peer`: the same exchange
    /// at the other end.
    pub fn account_until(
        &mut self,
        finder: &PathFinder<'_>,
        own: EndpointId,
        exchange: &mut Exchange,
        (call, peer): (&MovingCall, Option<&Exchange>),
    ) {
        let endpoint = finder.endpoints.get(own);
        let context = PathContext {
            own,
            peer: endpoint.peer,
            side: endpoint.side,
            begin_ns: exchange.begin_ns,
            home: (exchange.request_thread, exchange.requested_ns),
            served: exchange.asked_for,
            is_of_peer: false,
            turn: ClientTurn::None,
        };
        let is_first = exchange.response.is_none();
        let peer = peer.filter(|_| endpoint.side == Side::Client);
        let since_ns = match is_first {
            true => exchange.handed_ns(peer).max(exchange.accounted_ns),
            false => exchange.accounted_ns,
        };
        let end_ns = call.end_ns.max(since_ns);
        self.trail.restart(end_ns);
        match endpoint.side {
            Side::Client => {
                self.receive(finder, &context, (call, peer), (since_ns, is_first));
            }
            Side::Server => {
                finder.walk_from_send(&context, call.thread, since_ns, &mut self.trail);
            }
        }
        if is_first {
            self.account_request(finder, &context, (exchange, call.thread));
            self.find_long(finder, &context, call, exchange);
        }
        self.trail.append_to(&mut exchange.breakdown);
        exchange.pace.add(&self.trail.take_pace());
        exchange.add_holders(self.trail.take_holders());
        exchange.loop_pool = LoopPoolWait::join(exchange.loop_pool, self.trail.take_loop_pool());
        exchange.accounted_ns = end_ns;
    }

    /// A client takes bytes of the response: since they arrived its own thread had them; before, the path and the server.
    /// `is_first`: it had taken none before.
    fn receive(
        &mut self,
        finder: &PathFinder<'_>,
        context: &PathContext,
        (call, peer): (&MovingCall, Option<&Exchange>),
        (since_ns, is_first): (u64, bool),
    ) {
        let arrived_ns = call.begin_ns.max(since_ns).min(self.trail.at_ns());
        let taking = PathContext {
            home: (call.thread, arrived_ns),
            turn: match (is_first, context.served) {
                (false, None) => ClientTurn::Reading(call.begin_ns),
                _ => ClientTurn::None,
            },
            ..*context
        };
        finder.walk(&taking, call.thread, arrived_ns, &mut self.trail);
        let woken = finder.endpoints.get(context.own).woken;
        let woken = woken.filter(|(ns, _)| *ns >= since_ns && *ns <= call.end_ns);
        let waker = woken.and_then(|(_, waker)| waker);
        let is_woken_there = waker.is_some_and(|it| finder.is_of_peer(context, it));
        let before_ns = self.trail.ns(RequestPart::Remote);
        match peer {
            Some(peer) if is_first => self.serve(finder, context, (peer, waker), since_ns),
            Some(peer) if !is_woken_there => self.serve_rest(finder, context, peer, since_ns),
            _ => {}
        }
        // the server waited for bytes of this client, or for room in its socket: for the path
        let waited_ns = self.trail.ns(RequestPart::Remote) - before_ns;
        self.trail
            .turn(RequestPart::Remote, RequestPart::Network, waited_ns);
        finder.wait_own(context, since_ns, (None, waker), &mut self.trail, 0);
    }

    /// Accounts the time at a recorded other end, and the time on the path before and after it.
    fn serve(
        &mut self,
        finder: &PathFinder<'_>,
        context: &PathContext,
        (peer, waker): (&Exchange, Option<ThreadId>),
        since_ns: u64,
    ) {
        let Some((serving, about)) = serving_context(context, peer, since_ns) else {
            return;
        };
        let is_done = peer.response.is_some() && peer.answered_ns > since_ns;
        if is_done {
            self.trail
                .add(peer.answered_ns, RequestPart::Network, None, about);
        }
        let waker = waker.filter(|waker| finder.is_of_peer(context, *waker));
        let thread = waker.unwrap_or(peer.request_thread);
        let taken_ns = peer.requested_ns.max(since_ns);
        finder.walk(&serving, thread, taken_ns, &mut self.trail);
        let first_ns = peer.first_call_ns.max(serving.begin_ns);
        finder.walk(&serving, peer.request_thread, first_ns, &mut self.trail);
        self.account_unread(finder, &serving, peer.first_thread);
        self.trail.add(since_ns, RequestPart::Network, None, about);
    }

    /// The other end is recorded, and had sent a part of the response before. What it has sent by now is on the path since its
    /// last send call ended. Until then it may have worked for the rest.
    fn serve_rest(
        &mut self,
        finder: &PathFinder<'_>,
        context: &PathContext,
        peer: &Exchange,
        since_ns: u64,
    ) {
        let Some((serving, about)) = serving_context(context, peer, since_ns) else {
            return;
        };
        let sent_ns = peer.response.map_or(since_ns, |_| peer.answered_ns);
        self.trail
            .add(sent_ns.max(since_ns), RequestPart::Network, None, about);
        finder.walk(&serving, peer.request_thread, since_ns, &mut self.trail);
    }

    /// Accounts the time until the request was given away, or taken. `taker`: the thread that takes or sends the response.
    fn account_request(
        &mut self,
        finder: &PathFinder<'_>,
        context: &PathContext,
        (exchange, taker): (&Exchange, ThreadId),
    ) {
        let begin_ns = exchange.accounted_ns;
        let asking = PathContext {
            begin_ns,
            home: (exchange.first_thread, begin_ns),
            ..*context
        };
        let first_ns = exchange.first_call_ns.max(begin_ns);
        let sending = PathContext {
            turn: match (context.side, context.served) {
                (Side::Client, None) => ClientTurn::Sending(taker),
                _ => ClientTurn::None,
            },
            ..asking
        };
        let last = exchange.request_thread;
        finder.walk(&sending, last, first_ns, &mut self.trail);
        let thread = exchange.first_thread;
        if context.side == Side::Server {
            // before it came, the server may have greeted its client
            let unread = PathContext {
                begin_ns: exchange.asked_ns.max(begin_ns),
                ..asking
            };
            self.account_unread(finder, &unread, thread);
            return finder.walk(&asking, thread, begin_ns, &mut self.trail);
        }
        let endpoint = finder.endpoints.get(context.own);
        let opened = endpoint.connect_ns.zip(endpoint.opened_ns);
        if let Some((connect_ns, opened_ns)) = opened
            && connect_ns >= begin_ns
            && opened_ns <= first_ns
        {
            finder.walk(&asking, thread, opened_ns, &mut self.trail);
            let about = StepSubject {
                endpoint: Some(context.own),
                ..StepSubject::default()
            };
            self.trail
                .add(connect_ns, RequestPart::Connect, Some(thread), about);
        }
        finder.walk(&asking, thread, begin_ns, &mut self.trail);
    }

    /// Returns how long a request of a server waited behind long requests.
    fn find_long(
        &self,
        finder: &PathFinder<'_>,
        context: &PathContext,
        call: &MovingCall,
        exchange: &mut Exchange,
    ) {
        let queued_ns = self.trail.ns(RequestPart::Queued);
        let is_seen = finder.has_waits && finder.has_most_calls;
        if context.side == Side::Client || queued_ns == 0 || !is_seen {
            return;
        }
        let time = (context.begin_ns, call.end_ns);
        let own_ns = blockers::keeping_ns(self.trail.parts());
        let thread = finder.history.get(exchange.first_thread);
        let mut wait = thread.wait_behind_long(context.own, time, own_ns);
        wait.ns = wait.ns.min(queued_ns);
        wait.whole_ns = wait.whole_ns.min(queued_ns);
        exchange.breakdown.behind_long = wait;
    }

    /// Accounts the time in which a request lay unread: behind other requests, or while its thread
    /// did something else.
    fn account_unread(&mut self, finder: &PathFinder<'_>, context: &PathContext, thread: ThreadId) {
        let begin_ns = context.begin_ns;
        let context = &PathContext {
            home: (thread, self.trail.at_ns()),
            ..*context
        };
        let history = finder.history.get(thread);
        let at_ns = self.trail.at_ns();
        let others = match finder.endpoints.get(context.own).is_udp {
            false => history.count_others(Some(context.own), begin_ns, at_ns),
            // What is served before its datagram is read, is another request, also if it came from the same client.
            true => history.count_others(None, begin_ns, at_ns.saturating_sub(1)),
        };
        if let Some((behind, last_ns)) = others {
            finder.walk(context, thread, last_ns, &mut self.trail);
            finder.wait_unread(thread, begin_ns, behind, &mut self.trail);
        }
        if !finder.has_waits {
            let none = StepSubject::default();
            self.trail
                .add(begin_ns, RequestPart::Unread, Some(thread), none);
        }
        finder.walk(context, thread, begin_ns, &mut self.trail);
    }
}
