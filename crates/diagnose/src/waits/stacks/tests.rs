//! Tests of stacks and their purposes.

use super::*;

#[test]
fn types_are_left_out_of_names() {
    for (function, name) in [
        ("read", "read"),
        ("std::mutex::lock()", "mutex::lock"),
        (
            "void std::__invoke_impl<void, void (*)(int), int>(std::__invoke_other, int&&)",
            "std::__invoke_impl",
        ),
        ("Queue<std::vector<int> >::push(int) const", "Queue::push"),
        ("main(int, char**)::<lambda()>", "main::lambda"),
        ("a::b<c->d>::e", "b::e"),
        ("<T as core::ops::Drop>::drop", "T::drop"),
        ("<std::net::Socket>::recv", "Socket::recv"),
        ("peer::recv::{closure#0}", "recv::closure"),
        ("std::sys::cvt_r::<i32>", "sys::cvt_r"),
        ("operator()", "operator()"),
        ("", ""),
        (")>(", ")>("),
    ] {
        assert_eq!(shorten_name(function), name);
    }
}

fn frame(object: &str, function: &str) -> Frame {
    Frame {
        function: Some(function.to_owned()),
        object: Some(object.to_owned()),
        ..Frame::default()
    }
}

fn stack(frames: &[(&str, &str)]) -> WaitStack {
    WaitStack {
        frames: frames
            .iter()
            .map(|(object, function)| frame(object, function))
            .collect(),
        caller: Caller::None,
    }
}

#[test]
fn condition_of_a_language_is_no_mutex() {
    let purpose = |names: &[&str]| {
        let frames: Vec<_> = names.iter().map(|name| ("[python]", *name)).collect();
        stack(&frames).purpose()
    };
    let poll = ["sem_wait", "Condition.wait", "Condition.wait_for"];
    assert_eq!(purpose(&poll), StackPurpose::Condition);
    let interpreter = ["pthread_cond_timedwait", "take_gil", "Condition.wait"];
    assert_eq!(purpose(&interpreter), StackPurpose::Mutex);
    let job = ["sem_wait", "Condition.wait", "Future.result"];
    assert_eq!(purpose(&job), StackPurpose::Result);
}

#[test]
fn log_in_of_a_database_is_a_handshake() {
    let purpose = |names: &[&str]| {
        let frames: Vec<_> = names.iter().map(|name| ("libpq.so.5", *name)).collect();
        stack(&frames).purpose()
    };
    let handshake = StackPurpose::Handshake;
    assert_eq!(purpose(&["poll", "PQsocketPoll", "PQconnectdb"]), handshake);
    assert_eq!(purpose(&["poll", "PQconnectPoll", "main"]), handshake);
    assert_eq!(
        purpose(&["recv", "vio_read", "mysql_real_connect"]),
        handshake
    );
    let psycopg = ["epoll_wait", "EpollSelector.select", "wait_conn"];
    assert_eq!(purpose(&psycopg), handshake);
    let pool = ["poll", "wait_connection"];
    assert_eq!(purpose(&pool), StackPurpose::Unknown);
    let query = ["poll", "PQsocketPoll", "PQgetResult", "PQexec"];
    assert_eq!(purpose(&query), StackPurpose::Unknown);
    assert_eq!(
        purpose(&["poll", "PQconnectionUsedPassword"]),
        StackPurpose::Unknown
    );
}

#[test]
fn a_stack_of_the_kernel_says_what_a_thread_waits_for() {
    let purpose = |names: &[&str]| {
        let frames: Vec<_> = names.iter().map(|name| ("[kernel]", *name)).collect();
        stack(&frames).kernel_purpose()
    };
    let disk = ["submit_bio_wait", "ext4_sync_file", "do_fsync", "ksys_read"];
    assert_eq!(purpose(&disk), KernelPurpose::Sync);
    let reclaim = [
        "io_schedule",
        "shrink_node",
        "try_to_free_pages.part.0",
        "do_swap_page",
    ];
    assert_eq!(purpose(&reclaim), KernelPurpose::Reclaim);
    assert_eq!(
        purpose(&["anon_pipe_write", "vfs_write"]),
        KernelPurpose::Output
    );
    assert_eq!(
        purpose(&["do_signal_stop", "get_signal"]),
        KernelPurpose::Stopped
    );
    assert_eq!(purpose(&["anon_pipe_read"]), KernelPurpose::Unknown);
    assert_eq!(purpose(&[]), KernelPurpose::Unknown);
}

#[test]
fn inner_frames_of_the_library_are_omitted() {
    let locks = stack(&[
        ("libc.so.6", "futex_wait"),
        ("libc.so.6", "pthread_mutex_lock"),
        ("p", "push"),
        ("libc.so.6", "start"),
    ]);
    assert_eq!(locks.title(4), "pthread_mutex_lock ← push ← start");
    assert_eq!(locks.lock(), Some(LockKind::Mutex));
    // a program that makes the system call itself
    let own = stack(&[
        ("p", "take"),
        ("p", "read_all"),
        ("p", "main"),
        ("libc.so.6", "start"),
    ]);
    assert_eq!(own.title(2), "take ← read_all ← …");
    assert_eq!(own.outline().len(), 4);
    let alone = stack(&[("p", "inner"), ("p", "outer")]);
    assert_eq!(alone.title(1), "inner ← …");
    assert_eq!(alone.lock(), None);
    assert_eq!(stack(&[]).title(4), "");
}

#[test]
fn methods_of_sockets_of_rust_may_be_folded() {
    let is_marked = |function: &str| {
        let function = Some(function.to_owned());
        Frame {
            function,
            ..Frame::default()
        }
        .may_be_folded()
    };
    assert!(is_marked("std::net::udp::UdpSocket::recv"));
    assert!(is_marked(
        "<std::net::tcp::TcpStream as std::io::Read>::read"
    ));
    assert!(!is_marked("client::read_reply"));
    assert!(!is_marked("recv"));
}
