//! Tests of event loops that give jobs to a pool of threads.

use table::tables::UnixSocket;

use super::loops::event_loop;
use super::*;

/// Times of a wait, ns.
fn times(start_ms: u64, end_ms: u64) -> (u64, u64, u64) {
    (start_ms * MS, end_ms * MS, end_ms * MS)
}

/// Thread 71, the only one of a pool, sleeps for the request of client 1 until 60 ms, and then for that of client 2.
/// `pipe`: the connection by which it wakes the loop; `None`: an event file.
fn pool_of_one(pipe: Option<u64>) -> Rows {
    let mut rows = event_loop();
    let idle = wait(71, times(0, 11), WaitObject::Futex, None);
    let slept = |start_ms, end_ms| wait(71, times(start_ms, end_ms), WaitObject::Sleep, None);
    let done = |start_ms, end_ms| {
        let wait = wait(70, times(start_ms, end_ms), WaitObject::Epoll, pipe);
        woken_by(wait, 71)
    };
    rows.epoll(0, 10, Some(1));
    rows.waits.push(woken_by(idle, 70));
    rows.epoll(12, 20, Some(2));
    rows.waits.push(slept(11, 60));
    rows.waits.push(done(21, 60));
    rows.waits.push(slept(60, 110));
    rows.waits.push(done(62, 110));
    rows.read(1, 10, 10);
    rows.read(2, 20, 20);
    rows.send(1, 61);
    rows.send(2, 111);
    rows
}

#[test]
fn a_request_of_a_loop_waits_for_a_free_thread_of_a_pool() {
    let rows = pool_of_one(None);
    let expected = [
        (RequestPart::Queued, 39),
        (RequestPart::Cpu, 2),
        (RequestPart::Timer, 50),
    ];
    assert_eq!(rows.parts_ms(2), expected);
    let timer = (RequestPart::Timer, 48);
    assert!(rows.parts_ms(1).contains(&timer), "{:?}", rows.parts_ms(1));
}

/// The loop answered nobody after the first result: nothing shows that it was of another request.
#[test]
fn a_result_without_an_answer_ends_no_job_of_another_request() {
    let mut rows = pool_of_one(None);
    rows.calls.retain(|call| call.conn != 1 || !call.is_send);
    let timer = (RequestPart::Timer, 89);
    assert!(rows.parts_ms(2).contains(&timer), "{:?}", rows.parts_ms(2));
}

/// asyncio has a pair of UNIX sockets, to which threads of its executors write.
#[test]
fn threads_of_a_pool_wake_a_loop_by_its_own_sockets() {
    let mut rows = pool_of_one(Some(90));
    let socket = |conn, inode, peer_inode, pid| UnixSocket {
        conn,
        time_ns: 0,
        inode: Some(inode),
        peer_inode: Some(peer_inode),
        path: None,
        role: Role::Unknown,
        is_seqpacket: false,
        pid: Some(pid),
    };
    rows.sockets = vec![socket(90, 5, 6, SERVER), socket(91, 6, 5, SERVER)];
    assert_eq!(rows.parts_ms(2), pool_of_one(None).parts_ms(2));
    // a socket of another process says nothing of a pool
    rows.sockets[1] = socket(91, 6, 5, CLIENT);
    let parts = rows.parts_ms(2);
    let known = parts.iter().find(|it| it.0 == RequestPart::Queued);
    assert_eq!(known, None, "{parts:?}");
}
