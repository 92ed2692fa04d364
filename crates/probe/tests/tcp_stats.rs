//! Polling against real sockets in namespaces of their own. Needs root.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use nix::sys::socket::{setsockopt, sockopt};
use support::{OwnNetns, cookie, option, until};
use table::tables::{Connection, TcpSample};
use table::{Chosen, Role};
use whylat_probe::tcp_stats::{
    ConnectionFacts, Extensions, Offer, PeerIndex, Poller, SampleFilter, Scope, connection_row,
    sample_row, state,
};

/// Bytes sent in one go: a prime, so that no sum of other things equals it by chance.
const SENT_BYTES: usize = 1009;
const WITH_ALL: Extensions = Extensions {
    memory: true,
    congestion: true,
};

/// Opens a poller of the whole host.
fn poller() -> Poller {
    Poller::open(Scope::Host).unwrap().0
}

/// Polls once; returns the sample of a connection.
fn sample(poller: &mut Poller, conn: u64) -> Option<TcpSample> {
    let mut found = None;
    let report = poller.poll(WITH_ALL, |view| {
        if view.cookie == conn {
            found = sample_row(view, 0);
        }
    });
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    assert_eq!(report.counts.malformed, 0);
    found
}

/// Polls once; returns the row of a connection.
fn connection(poller: &mut Poller, conn: u64, peers: &PeerIndex) -> Option<Connection> {
    let mut found = None;
    poller.poll(WITH_ALL, |view| {
        if view.cookie == conn {
            let facts = ConnectionFacts {
                role: Role::Unknown,
                chosen: Chosen::Target,
                opened_ns: None,
                pid: None,
                peer_conn: peers.peer(view.netns, view.local(), view.remote(), view.cookie),
            };
            found = Some(connection_row(view, facts));
        }
    });
    found
}

#[test]
fn known_bytes_are_seen_exactly() {
    let own = OwnNetns::new();
    let mut poller = poller();
    for address in ["127.0.0.1", "::1"] {
        let (mut client, mut server, _listener) = own.connection(address);
        for _ in 0..7 {
            client.write_all(&[1; SENT_BYTES]).unwrap();
        }
        server.read_exact(&mut [0; 7 * SENT_BYTES]).unwrap();
        let (client, server) = (cookie(&client), cookie(&server));
        let sent = until("all acknowledged", || {
            sample(&mut poller, client).filter(|row| row.send_queue_bytes == 0)
        });
        let total = 7 * SENT_BYTES as u64;
        // The kernel counts the active opener's SYN as an acknowledged byte.
        assert_eq!(
            (sent.bytes_acked, sent.bytes_sent),
            (total + 1, Some(total))
        );
        assert_eq!(
            (sent.bytes_retrans, sent.state),
            (Some(0), state::ESTABLISHED)
        );
        assert_eq!((sent.unacked, sent.notsent_bytes), (0, Some(0)));
        assert!(sent.srtt_us > 0 && sent.cwnd > 0 && sent.snd_wnd_bytes.unwrap() > 0);
        let received = sample(&mut poller, server).unwrap();
        assert_eq!((received.bytes_received, received.bytes_acked), (total, 0));
        assert_eq!(received.receive_queue_bytes, 0);
    }
}

#[test]
fn unread_bytes_are_queued_also_after_the_fin() {
    let own = OwnNetns::new();
    let mut poller = poller();
    let (mut client, mut server, _listener) = own.connection("127.0.0.1");
    client.write_all(&[1; SENT_BYTES]).unwrap();
    let reader = cookie(&server);
    let queued = |row: &TcpSample| row.receive_queue_bytes == SENT_BYTES as u32;
    until("bytes queued", || {
        sample(&mut poller, reader).filter(queued)
    });
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let closed = until("FIN", || {
        sample(&mut poller, reader).filter(|row| row.state == state::CLOSE_WAIT)
    });
    assert!(queued(&closed), "{closed:?}");
    let sender = sample(&mut poller, cookie(&client)).unwrap();
    assert_eq!(sender.send_queue_bytes, 0, "{sender:?}");
    server.read_exact(&mut [0; SENT_BYTES]).unwrap();
    assert_eq!(server.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(sample(&mut poller, reader).unwrap().receive_queue_bytes, 0);
}

#[test]
fn namespaces_are_named_and_leave_with_their_last_process() {
    let (one, two) = (OwnNetns::new(), OwnNetns::new());
    let mut poller = poller();
    let sockets = [one.connection("127.0.0.1"), two.connection("127.0.0.1")];
    let inodes = [one.netns.inode(), two.netns.inode()];
    assert_ne!(inodes[0], inodes[1]);
    for ((client, ..), inode) in sockets.iter().zip(inodes) {
        let row = connection(&mut poller, cookie(client), &PeerIndex::default()).unwrap();
        assert_eq!(row.netns, inode);
        assert_eq!(row.local, client.local_addr().unwrap().to_string());
        assert_eq!(row.remote, client.peer_addr().unwrap().to_string());
    }
    let port = sockets[1].2.local_addr().unwrap().port();
    let listening = poller.listening();
    assert!(listening.contains(inodes[1], port) && !listening.contains(inodes[0], port));
    drop(sockets);
    drop(two);
    let refresh = poller.refresh().unwrap();
    assert!(refresh.closed.contains(&inodes[1]) && !refresh.closed.contains(&inodes[0]));
    assert!(poller.namespaces().all(|netns| netns != inodes[1]));
}

#[test]
fn closed_sockets_vanish() {
    let own = OwnNetns::new();
    let mut poller = poller();
    let (client, server, _listener) = own.connection("127.0.0.1");
    let ends = [cookie(&client), cookie(&server)];
    assert!(ends.iter().all(|end| sample(&mut poller, *end).is_some()));
    // Closes by reset: neither end lingers in TIME_WAIT.
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&client, sockopt::Linger, &linger).unwrap();
    drop((client, server));
    until("both ends gone", || {
        ends.iter()
            .all(|end| sample(&mut poller, *end).is_none())
            .then_some(())
    });
}

#[test]
fn statistics_agree_with_the_socket_itself() {
    let own = OwnNetns::new();
    let mut poller = poller();
    let (mut client, mut server, _listener) = own.connection("127.0.0.1");
    client.write_all(&[1; SENT_BYTES]).unwrap();
    server.read_exact(&mut [0; SENT_BYTES]).unwrap();
    let conn = cookie(&client);
    until("all acknowledged", || {
        sample(&mut poller, conn).filter(|row| row.unacked == 0 && row.send_queue_bytes == 0)
    });
    let row = sample(&mut poller, conn).unwrap();
    // An independent layout of the structure: the C library's.
    let info: libc::tcp_info = option(&client, libc::IPPROTO_TCP, libc::TCP_INFO);
    assert_eq!((row.rto_us, row.ato_us), (info.tcpi_rto, info.tcpi_ato));
    assert_eq!(
        (row.srtt_us, row.rttvar_us),
        (info.tcpi_rtt, info.tcpi_rttvar)
    );
    assert_eq!(
        (row.cwnd, row.ssthresh),
        (info.tcpi_snd_cwnd, info.tcpi_snd_ssthresh)
    );
    assert_eq!(
        (row.mss_bytes, row.rcv_rtt_us),
        (info.tcpi_snd_mss, info.tcpi_rcv_rtt)
    );
    assert_eq!((row.total_retrans, row.ca_state), (0, info.tcpi_ca_state));
    assert_eq!(
        (row.bytes_acked, row.bytes_received),
        (SENT_BYTES as u64 + 1, 0)
    );
    assert_eq!(
        (row.segs_out, row.segs_in),
        (info.tcpi_segs_out, info.tcpi_segs_in)
    );
    assert_eq!(row.min_rtt_us, Some(info.tcpi_min_rtt));
    assert_eq!(row.data_segs_out, Some(info.tcpi_data_segs_out));
    assert_eq!(row.delivery_rate_bytes_per_s, Some(info.tcpi_delivery_rate));
    assert_eq!(
        (row.busy_us, row.rwnd_limited_us),
        (Some(info.tcpi_busy_time), Some(0))
    );
    assert_eq!(row.delivered, Some(info.tcpi_delivered));
    assert_eq!(row.snd_wnd_bytes, Some(info.tcpi_snd_wnd));
    assert_eq!(row.rcv_wnd_bytes, Some(info.tcpi_rcv_wnd));
    assert_eq!((row.total_rto, row.total_rto_time_ms), (Some(0), Some(0)));
    let sndbuf: u32 = option(&client, libc::SOL_SOCKET, libc::SO_SNDBUF);
    let rcvbuf: u32 = option(&client, libc::SOL_SOCKET, libc::SO_RCVBUF);
    assert_eq!(
        (row.sndbuf_bytes, row.rcvbuf_bytes),
        (Some(sndbuf), Some(rcvbuf))
    );
    let name: [u8; 16] = option(&client, libc::IPPROTO_TCP, libc::TCP_CONGESTION);
    let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap()).into_owned();
    let found = connection(&mut poller, conn, &PeerIndex::default()).unwrap();
    assert_eq!(found.congestion, Some(name));
}

#[test]
fn an_idle_connection_is_stored_once() {
    let own = OwnNetns::new();
    let mut poller = poller();
    let (mut client, _server, _listener) = own.connection("127.0.0.1");
    let conn = cookie(&client);
    let mut filter = SampleFilter::default();
    let mut offer = |poller: &mut Poller| {
        let mut rows = 0;
        poller.poll(WITH_ALL, |view| {
            let offer = filter.visit(view, |view| view.cookie == conn);
            rows += u32::from(matches!(offer, Offer::Row(_)));
        });
        filter.end_poll();
        rows
    };
    assert_eq!(offer(&mut poller), 1);
    for _ in 0..20 {
        assert_eq!(offer(&mut poller), 0);
    }
    client.write_all(&[1; SENT_BYTES]).unwrap();
    until("the change", || (offer(&mut poller) == 1).then_some(()));
    let counts = filter.counts();
    assert_eq!(counts.produced, counts.rows + counts.filtered);
}

/// Joins namespaces `one` (10.9.0.1) and `two` (10.9.0.2) by a virtual Ethernet pair.
fn join(one: &OwnNetns, two: &OwnNetns) {
    let holder = two.holder();
    one.ip(&format!(
        "link add whylat0 type veth peer name whylat1 netns {holder}"
    ));
    for (end, device, address) in [
        (one, "whylat0", "10.9.0.1/24"),
        (two, "whylat1", "10.9.0.2/24"),
    ] {
        end.ip(&format!("address add {address} dev {device}"));
        end.ip(&format!("link set {device} up"));
    }
}

#[test]
fn both_ends_are_joined_within_and_across_namespaces() {
    let (one, two) = (OwnNetns::new(), OwnNetns::new());
    join(&one, &two);
    let mut poller = poller();
    let near = one.connection("127.0.0.1");
    // An IPv6 listener that accepts IPv4: its end shows the same addresses all the same.
    let listener = two
        .netns
        .run(|| TcpListener::bind("[::]:0").unwrap())
        .unwrap();
    let to = SocketAddr::new([10, 9, 0, 2].into(), listener.local_addr().unwrap().port());
    let client = one.netns.run(|| TcpStream::connect(to).unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let pairs = [
        (cookie(&near.0), cookie(&near.1)),
        (cookie(&client), cookie(&server)),
    ];
    let mut peers = PeerIndex::default();
    poller.poll(WITH_ALL, |view| {
        if pairs
            .iter()
            .any(|(one, other)| [*one, *other].contains(&view.cookie))
        {
            peers.insert(view);
        }
    });
    assert_eq!(peers.len(), 4);
    for (one, other) in pairs {
        let found = |conn, poller: &mut Poller| connection(poller, conn, &peers).unwrap().peer_conn;
        assert_eq!(found(one, &mut poller), Some(other));
        assert_eq!(found(other, &mut poller), Some(one));
    }
}
