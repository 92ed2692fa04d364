//! The real OpenTelemetry Collector, which decodes everything and writes it to a file: both protocols, compression, TLS.
//! `make otlp-collector` builds it; where it is not, its tests are left out, unless it is demanded.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{ChildGuard, finish, until, wait};

/// Returns the path of the OpenTelemetry Collector; `None` if it was not built.
pub fn program() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("WHYLAT_COLLECTOR") {
        let path = PathBuf::from(path);
        assert!(path.is_file(), "{}: make otlp-collector", path.display());
        return Some(path);
    }
    let built = Path::new(&std::env::var_os("HOME")?).join(".cache/whylat/otelcol");
    let found = built.is_file().then_some(built);
    if found.is_none() {
        println!("skipped: there is no collector; `make otlp-collector` builds one");
    }
    found
}

/// A collector, and the file that it writes.
pub struct Collector {
    child: ChildGuard,
    folder: TempDir,
    /// Ports for HTTP and gRPC.
    pub ports: [u16; 2],
}

impl Collector {
    /// Starts a collector that listens for HTTP and gRPC; `tls`: with its own certificate.
    pub fn start(program: &Path, tls: bool) -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let ports = free_ports();
        let files = format!(
            "cert_file: {}, key_file: {}",
            path("cert.pem"),
            path("key.pem")
        );
        let security = match tls {
            true => format!(", tls: {{{files}}}"),
            false => String::new(),
        };
        if tls {
            make_certificate(folder.path());
        }
        let pipelines: String = ["traces", "metrics", "logs"]
            .iter()
            .map(|it| format!("    {it}: {{receivers: [otlp], exporters: [file]}}\n"))
            .collect();
        let text = format!(
            "receivers:\n  otlp:\n    protocols:\n      \
             http: {{endpoint: 127.0.0.1:{}{security}}}\n      \
             grpc: {{endpoint: 127.0.0.1:{}{security}}}\n\
             exporters:\n  file: {{path: {}}}\n\
             service:\n  telemetry: {{metrics: {{level: none}}, logs: {{level: error}}}}\n  pipelines:\n{pipelines}",
            ports[0],
            ports[1],
            path("got.json"),
        );
        fs::write(path("config.yaml"), text).expect("written");
        let mut command = Command::new(program);
        command
            .args(["--config", &path("config.yaml")])
            .stdout(Stdio::null())
            .stderr(File::create(path("log")).expect("a file"));
        let mut child = ChildGuard::start(&mut command);
        for port in ports {
            until("the collector", || {
                let ended = child.0.try_wait().expect("its state");
                let log = || fs::read_to_string(path("log")).unwrap_or_default();
                assert!(ended.is_none(), "the collector ended: {}", log());
                TcpStream::connect(("127.0.0.1", port)).ok()
            });
        }
        Self {
            child,
            folder,
            ports,
        }
    }

    /// Returns the path of the collector's certificate.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }

    /// Ends the collector, and returns the requests that it received.
    pub fn finish(mut self) -> Vec<Value> {
        self.child.signal(Signal::SIGTERM);
        assert!(wait(&mut self.child.0, "the collector").success());
        let text = fs::read_to_string(self.folder.path().join("got.json")).expect("its file");
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }
}

/// Returns two free ports below those that the kernel gives to clients, which no other test of this process has.
fn free_ports() -> [u16; 2] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut ports = std::iter::repeat_with(|| {
        let number = std::process::id() * 16 + NEXT.fetch_add(1, Ordering::Relaxed);
        20_000 + (number % 12_000) as u16
    })
    .filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    [0; 2].map(|_| ports.next().expect("a port"))
}

/// Makes `cert.pem` and `key.pem` of 127.0.0.1.
fn make_certificate(folder: &Path) {
    let mut command = Command::new("openssl");
    command.current_dir(folder).args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=collector",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    ]);
    finish(&mut command).assert_status(0);
}

/// Returns the elements of lists within lists.
pub fn leaves<'a>(value: &'a Value, names: &[&str]) -> Vec<&'a Value> {
    let mut level = vec![value];
    for name in names {
        let lists = level.iter().filter_map(|it| it[*name].as_array());
        level = lists.flatten().collect();
    }
    level
}
