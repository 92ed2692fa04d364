//! A receiver of OTLP over HTTP, with answers that the test chooses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Channel, Sender, channel};
use std::thread;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Post {
    /// Path of its URL.
    pub path: String,
    /// Header lines.
    pub headers: Vec<String>,
    /// Body.
    pub body: Vec<u8>,
}

/// An answer; `None` as its text: no answer at all.
pub struct Answer(pub Option<Vec<u8>>);

impl Answer {
    /// Makes an answer with this status line, further header lines and a body.
    pub fn new(status: &str, headers: &[&str], body: &[u8]) -> Self {
        let mut head = format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n",
            body.len()
        );
        for header in headers {
            head += &format!("{header}\r\n");
        }
        Self(Some([head.as_bytes(), b"\r\n", body].concat()))
    }

    /// Makes the answer of success.
    pub fn ok() -> Self {
        Self::new("200 OK", &["Content-Type: application/x-protobuf"], b"")
    }
}

/// A receiver that lives as long as the test's process.
pub struct Receiver {
    port: u16,
    posts: Channel<Post>,
}

impl Receiver {
    /// Starts a receiver; calls `answer` for each request with the number of earlier ones.
    pub fn start(answer: impl Fn(usize, &Post) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self::start_on(listener, answer)
    }

    /// Starts a receiver on a listening socket.
    pub fn start_on(
        listener: TcpListener,
        answer: impl Fn(usize, &Post) -> Answer + Send + 'static,
    ) -> Self {
        let port = listener.local_addr().expect("its address").port();
        let (sender, posts) = channel();
        thread::spawn(move || {
            let mut number = 0;
            let mut kept = Vec::new();
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                serve(&stream, &mut number, &answer, &sender);
                // a connection that is not answered stays open
                kept.push(stream);
            }
        });
        Self { port, posts }
    }

    /// Returns the receiver's base URL.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns all requests since the last call.
    pub fn posts(&self) -> Vec<Post> {
        self.posts.try_iter().collect()
    }

    /// Waits for the next request.
    pub fn next_post(&self) -> Post {
        self.posts.recv_timeout(crate::LONGEST).expect("a request")
    }
}

/// Answers one request of a connection.
fn serve(
    stream: &TcpStream,
    number: &mut usize,
    answer: &impl Fn(usize, &Post) -> Answer,
    posts: &Sender<Post>,
) {
    let mut reader = BufReader::new(stream);
    if let Some(post) = read(&mut reader) {
        let Answer(text) = answer(*number, &post);
        *number += 1;
        // nobody listens when the test has ended
        let _ = posts.send(post);
        let Some(text) = text else {
            return;
        };
        let mut writer = stream;
        // a client that left is no failure of the receiver
        let _ = writer.write_all(&text);
        let _ = stream.shutdown(Shutdown::Write);
    }
}

/// Reads one HTTP request; None at the end of the connection.
fn read(reader: &mut impl BufRead) -> Option<Post> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let length = lines.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    let mut body = Vec::new();
    reader
        .take(length.unwrap_or(0))
        .read_to_end(&mut body)
        .ok()?;
    Some(Post {
        path: lines.first()?.split(' ').nth(1)?.to_owned(),
        headers: lines.split_off(1),
        body,
    })
}
