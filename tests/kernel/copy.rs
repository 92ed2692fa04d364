//! `whylat lab copy`: every way of sending delivers what it should, the results are those of the published study's form, and
//! failures are reported.

use std::path::Path;
use std::process::Command;

use lab::{LabProcess, Netns};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use testbed::{ChildGuard, finish, program, root, signal_process, until, whylat};

/// One client's figures, every byte of every message checked.
fn asked(netns: &Netns, variant: &str, size: usize, threads: usize) -> Value {
    let (mut server, port) = serve(netns, threads);
    let mut ask = netns.command(program());
    ask.args([
        "lab",
        "copy",
        "ask",
        "--variant",
        variant,
        "--check-every",
        "1",
    ]);
    ask.args(["--seconds", "0.1", "--warm-up", "0.02"]);
    ask.args(["--connect", &format!("127.0.0.1:{port}")]);
    ask.args([
        "--size",
        &size.to_string(),
        "--threads",
        &threads.to_string(),
    ]);
    let ended = finish(&mut ask);
    ended.assert_status(0);
    let result: Value = serde_json::from_str(&ended.out).expect("JSON");
    if result["skipped"].is_null() {
        // it ends by itself after its last client
        until("the server's end", || server.line().is_err().then_some(()));
    }
    result
}

fn serve(netns: &Netns, clients: usize) -> (LabProcess, u16) {
    let mut serve = netns.command(program());
    serve.args([
        "lab",
        "copy",
        "serve",
        "--port",
        "0",
        "--clients",
        &clients.to_string(),
    ]);
    let mut server = LabProcess::start(serve).expect("a server");
    let port = server.port().expect("a port");
    (server, port)
}

fn figure(result: &Value, name: &str) -> f64 {
    let value = result["figures"][name].as_f64();
    value.unwrap_or_else(|| panic!("no {name}: {result}"))
}

/// Every size that differs in how it is sent: within a segment, several, more than a socket buffer's fragments hold.
fn delivers(variant: &str) {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    for (size, threads) in [(64, 3), (4096, 1), (1 << 20, 2)] {
        let result = asked(&netns, variant, size, threads);
        if let Some(why) = result["skipped"].as_str() {
            eprintln!("skipped: {variant}: {why}");
            continue;
        }
        let messages = figure(&result, "messages");
        assert!(messages >= threads as f64, "{result}");
        assert_eq!(figure(&result, "payload_bytes"), messages * size as f64);
        assert!(figure(&result, "throughput") > 0.0 && figure(&result, "latency") > 0.0);
        if ["A3", "A3-huge", "uring-zc"].contains(&variant) {
            let sends = figure(&result, "zc_sends");
            assert!(
                sends >= messages && sends == figure(&result, "zc_completions"),
                "{result}"
            );
            // loopback copies for a receiver that may be slow
            assert_eq!(figure(&result, "zc_copied_share"), 1.0);
        } else {
            assert!(result["figures"]["zc_sends"].is_null(), "{result}");
        }
    }
}

#[test]
fn a1_delivers_all_messages() {
    delivers("A1");
}

#[test]
fn a1_without_nagle_delivers() {
    delivers("A1-nodelay");
}

#[test]
fn a2_delivers() {
    delivers("A2");
}

#[test]
fn a2_scattered_delivers() {
    delivers("A2-scatter");
}

#[test]
fn a3_reports_copied_sends() {
    delivers("A3");
}

#[test]
fn a3_in_huge_pages_delivers() {
    delivers("A3-huge");
}

#[test]
fn io_uring_delivers() {
    delivers("uring");
}

#[test]
fn io_uring_zero_copy_delivers() {
    delivers("uring-zc");
}

#[test]
fn sendfile_delivers() {
    delivers("sendfile");
}

#[test]
fn splice_delivers() {
    delivers("splice");
}

#[test]
fn a3_survives_full_notification_memory() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    // the note of one send takes more
    netns
        .sysctl("net.core.optmem_max", "100")
        .expect("optmem_max");
    let result = asked(&netns, "A3", 4096, 2);
    assert!(figure(&result, "zc_enobufs") > 0.0, "{result}");
    assert!(figure(&result, "zc_gave_up") > 0.0, "{result}");
    assert!(figure(&result, "messages") > 0.0, "{result}");
    // room for one, not for the four that are sent in turn
    netns
        .sysctl("net.core.optmem_max", "1000")
        .expect("optmem_max");
    let result = asked(&netns, "A3", 1 << 20, 1);
    assert_eq!(
        figure(&result, "zc_sends"),
        figure(&result, "zc_completions")
    );
}

#[test]
fn study_writes_one_row_per_configuration() {
    if !root() {
        return;
    }
    let scratch = TempDir::new().expect("a directory");
    let directory = scratch.path().join("study");
    let words =
        "lab copy --quick --seconds 0.05 --repeat 3 --variants A1,A2,A3 --format json --output";
    let mut study = whylat(words);
    let ended = finish(study.arg(&directory));
    ended.assert_status(0);
    let result: Value = serde_json::from_str(&ended.out).expect("JSON");
    assert_eq!(result["schema"], "whylat.copy/1");
    assert_eq!(result["configurations"].as_array().expect("rows").len(), 12);
    let csv = std::fs::read_to_string(directory.join("results.csv")).expect("results");
    let header = "Impl,size,thread,throughput,latency,cycles,l1_misses,llc_misses,cs,";
    assert!(csv.starts_with(header), "{csv}");
    assert_eq!(csv.lines().count(), 13);
    for row in result["configurations"].as_array().expect("rows") {
        let figures = &row["figures"];
        assert!(figures["throughput"].as_f64() > Some(0.0), "{row}");
        assert_eq!(figures["repeats"], 3.0);
        // whatever whylat says, it says something
        assert!(row["said"]["stage"].is_string(), "{row}");
        assert_eq!(
            figures["zc_copied_share"].as_f64(),
            (row["impl"] == "A3").then_some(1.0)
        );
    }
    let answers = result["answers"].as_str().expect("answers");
    for part in [
        "zerocopy_copied",
        "noise: A1 against itself",
        "(10.4, 10.5)",
        "(10.6)",
    ] {
        assert!(answers.contains(part), "no {part}: {answers}");
    }
    assert_eq!(
        digest(&directory.join("study.html")),
        policy(&directory.join("study.html"))
    );
    // figures are of the CSV alone
    let plots = scratch.path().join("plots");
    let mut plot = whylat("lab copy --plot");
    plot.arg(directory.join("results.csv"))
        .arg("--output")
        .arg(&plots);
    finish(&mut plot).assert_status(0);
    for name in ["throughput-size", "speedup-threads", "crossover"] {
        let name = format!("{name}.svg");
        let [one, two] =
            [&directory, &plots].map(|path| std::fs::read(path.join(&name)).expect("a figure"));
        assert!(one == two, "{name}");
    }
    // nothing is left to be measured
    let before = std::fs::read(directory.join("runs.jsonl")).expect("the journal");
    let mut again = whylat("lab copy --resume");
    finish(again.arg(&directory)).assert_status(0);
    assert!(before == std::fs::read(directory.join("runs.jsonl")).expect("the journal"));
}

/// SHA-256 of a page's style.
fn digest(page: &Path) -> String {
    let page = std::fs::read_to_string(page).expect("a page");
    let (_, rest) = page.split_once("<style>").expect("a style");
    let (style, _) = rest.split_once("</style>").expect("a style");
    let mut digest = Command::new("sh");
    digest
        .args(["-c", "printf %s \"$STYLE\" | sha256sum"])
        .env("STYLE", style);
    // sh takes newlines at the end of a variable as they are
    let output = finish(&mut digest);
    output
        .out
        .split_whitespace()
        .next()
        .expect("a digest")
        .to_owned()
}

/// The digest that its policy names, as hexadecimal digits.
fn policy(page: &Path) -> String {
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(
        !page.contains("unsafe-inline") && !page.contains("<script"),
        "the policy is strict"
    );
    let (_, rest) = page.split_once("style-src 'sha256-").expect("a policy");
    let (base64, _) = rest.split_once('\'').expect("a policy");
    let mut decode = Command::new("sh");
    decode
        .args(["-c", "printf %s \"$DIGEST\" | base64 -d | od -An -v -tx1"])
        .env("DIGEST", base64);
    finish(&mut decode).out.split_whitespace().collect()
}

#[test]
fn published_rows_are_plotted() {
    const PUBLISHED: &str =
        "Impl\tsize\tthread\tthroughput\tlatency\tcycles\tl1_misses\tllc_misses\tcs
A1\t64\t1\t0.075719\t6.736870\t9225906310\t120104932\t121588\t739413
A1\t64\t2\t0.076514\t6.666992\t9219667292\t114919992\t131334\t747174
A1\t64\t4\t0.074825\t6.817650\t9164441459\t125253751\t119804\t730688
A1\t64\t8\t0.071705\t7.114873\t9423479536\t129841773\t128776\t700226
A1\t512\t1\t0.584929\t6.977514\t9122796173\t139747364\t108843\t714019
";
    let scratch = TempDir::new().expect("a directory");
    let file = scratch.path().join("published.csv");
    std::fs::write(&file, PUBLISHED).expect("write");
    let ended = finish(whylat("lab copy --plot").arg(&file));
    ended.assert_status(0);
    assert!(
        ended.err.contains("not drawn: crossover") && ended.err.contains("not drawn: cpu-size"),
        "{}",
        ended.err
    );
    let plots = scratch.path().join("published.plots");
    let drawn = std::fs::read_dir(&plots).expect("plots").flatten();
    let drawn = drawn.filter(|entry| entry.file_name().as_encoded_bytes().ends_with(b".svg"));
    assert_eq!(drawn.count(), 8);
    std::fs::write(&file, PUBLISHED.replace("739413", "many")).expect("write");
    let ended = finish(
        whylat("lab copy --plot")
            .arg(&file)
            .arg("-o")
            .arg(scratch.path().join("x")),
    );
    ended.assert_status(1).explains("line 2 of ");
    assert!(!scratch.path().join("x").exists());
}

#[test]
fn study_without_namespaces_reports_error() {
    if !root() {
        return;
    }
    let scratch = TempDir::new().expect("a directory");
    let mut study = Command::new("setpriv");
    study.args([
        "--bounding-set",
        "-sys_admin",
        "--inh-caps",
        "-sys_admin",
        program(),
    ]);
    study.args(["lab", "copy", "--quick", "--output"]);
    let ended = finish(study.arg(scratch.path().join("study")));
    ended.assert_status(1).explains("network namespace");
    assert!(!scratch.path().join("study").exists());
}

#[test]
fn study_names_taken_port() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("a port").port();
    let ended = finish(&mut whylat(&format!(
        "lab copy serve --listen 127.0.0.1 --port {port}"
    )));
    ended.assert_status(1).explains(&port.to_string());
}

#[test]
fn killed_server_ends_study() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let (server, port) = serve(&netns, 1);
    let pid = server.pid();
    let mut ask = netns.command(program());
    ask.args(["lab", "copy", "ask", "--variant", "A3", "--seconds", "30"]);
    ask.args(["--connect", &format!("127.0.0.1:{port}")]);
    let killer = std::thread::spawn(move || {
        // a thread of its own serves: the client is connected
        let tasks = format!("/proc/{pid}/task");
        until("a client", || {
            let threads = std::fs::read_dir(&tasks).ok()?.count();
            (threads > 1).then_some(())
        });
        signal_process(pid, Signal::SIGKILL);
    });
    let ended = finish(&mut ask);
    killer.join().expect("the killer");
    ended.assert_status(1).explains("127.0.0.1");
    drop(server);
}

#[test]
fn killed_study_leaves_nothing() {
    if !root() {
        return;
    }
    let scratch = TempDir::new().expect("a directory");
    let directory = scratch.path().join("study");
    let mut study = whylat("lab copy --seconds 20 --variants A1 --sizes 64 --threads 1 --output");
    let mut study = ChildGuard::start(study.arg(&directory));
    let children = format!("/proc/{0}/task/{0}/children", study.0.id());
    let ends = until("both ends", || {
        let listed = std::fs::read_to_string(&children).ok()?;
        let pids: Vec<u32> = listed
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
        (pids.len() == 2).then_some(pids)
    });
    study.signal(Signal::SIGKILL);
    study.0.wait().expect("wait");
    for pid in ends {
        until("its end", || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // gone, or a zombie that nobody has waited for yet
            (stat.is_empty() || stat.contains(") Z ")).then_some(())
        });
    }
}

#[test]
fn impossible_study_is_refused() {
    for (words, what) in [
        ("--sizes 100", "--size"),
        ("--threads 0", "--threads"),
        ("--seconds 0", "--seconds"),
        ("--repeat 0", "--repeat"),
    ] {
        if !root() {
            return;
        }
        let ended = finish(&mut whylat(&format!("lab copy {words} -o /nonexistent/x")));
        ended.assert_status(1).explains(what);
    }
    finish(&mut whylat("lab copy --variants A9")).assert_status(2);
}
