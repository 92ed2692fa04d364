//! Small real programs with a known behaviour.
//!
//! In: a role and its options. Out, on stdout, one JSON object a line: first, where
//! others wait for it, `{"ready": PORT, "pid": PID}`; last, the role's ground truth:
//! every connection with its ports and cookie, every send and receive call counted,
//! every slow one with its time. Each role is meant to be one process, so that it can be
//! recorded like any program. All are bounded in count, and by `--limit-s` in time.

mod batches;
mod bulk;
mod burn;
mod calls;
mod commands;
mod context;
mod cpu;
mod datagrams;
mod delay_acks;
mod flood;
mod hold;
mod itt;
mod keep_alive;
mod logging;
mod lookups;
mod open_loop;
mod pauses;
mod peer;
mod pool;
mod quota;
mod redis;
mod relay;
mod reply;
mod rounds;
mod shortage;
mod tasks;
pub mod threads;
mod until_end;
mod workers;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};

pub use cpu::ThreadCpu;
pub use cpu::{allowed_cpus, pin_thread as pin_to};
pub use peer::{CallCounts, ConnectionTruth};

use crate::clock::now_ns;
use crate::error::LabError;
use crate::output::{print_json, print_usage};
use context::{CommonOptions, Context};

/// Programs with a known TCP behaviour.
#[derive(Debug, Parser)]
#[command(
    name = "whylat lab workload",
    no_binary_name = true,
    after_help = "\
Examples:
  whylat lab workload reply-server
  whylat lab workload write-write-read --connect 127.0.0.1:4711"
)]
struct WorkloadCommand {
    #[command(subcommand)]
    role: Role,
    #[command(flatten)]
    common: CommonOptions,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Server: reads requests, answers all, some or none of them.
    ReplyServer(reply::ReplyServer),
    /// Server: answers requests, and acknowledges a chosen number of them late.
    DelayAcks(delay_acks::DelayAcks),
    /// Client: a request in two small writes, then waits for the answer.
    WriteWriteRead(rounds::WriteWriteRead),
    /// Client: a request in one write with TCP_NODELAY, then waits for the answer.
    RequestReply(rounds::RequestReply),
    /// Client: opens a connection, exchanges a little, closes, many times.
    ShortLived(rounds::ShortConnections),
    /// Client: sends in bulk.
    Stream(bulk::Stream),
    /// Server: does one kind of work for some of its requests, or beside them.
    TaskServer(tasks::TaskServer),
    /// Server: receives in bulk.
    Sink(bulk::Sink),
    /// Server: sends in bulk to whoever connects.
    PushServer(bulk::PushServer),
    /// Client: connects and only receives.
    ReceiveOnly(bulk::ReceiveOnly),
    /// Accepts one connection, connects onwards, and passes on what it receives, in one thread.
    Proxy(relay::Proxy),
    /// Server: answers all connections in one thread, with calls that block.
    PollServer(relay::PollServer),
    /// Client: writes short records, and waits for no answer.
    LogClient(logging::LogClient),
    /// Server: reads records, answers some or none of them.
    LogServer(logging::LogServer),
    /// Client: starts up by many commands to its server; reports its tasks by the ITT API.
    CommandClient(commands::CommandClient),
    /// Server: carries out commands; reports its tasks by the ITT API.
    CommandServer(commands::CommandServer),
    /// Client: asks redis or memcached at random times, whether or not it has answered.
    OpenLoop(open_loop::OpenLoop),
    /// Client: has redis or memcached do much at once, now and then.
    Batches(batches::Batches),
    /// Makes as many send and receive calls as it can, of a known number.
    CountCalls(calls::CountCalls),
    /// Holds many idle connections until stdin closes.
    HoldOpen(hold::HoldOpen),
    /// Server: several processes, which serve at one port by SO_REUSEPORT.
    WorkerServer(workers::WorkerServer),
    /// One of these processes.
    Worker(workers::Worker),
    /// Client: has so many connections at each of the workers.
    WorkerClient(workers::WorkerClient),
    /// Server: a real redis-server, until stdin closes.
    RedisServer(redis::RedisServer),
    /// Client: asks redis for a key, or lets it run a script.
    RedisClient(redis::RedisClient),
    /// Client: threads that share the connections of a pool.
    PoolClient(pool::PoolClient),
    /// Client: keeps its connection, and opens another one after an error.
    KeepAliveClient(keep_alive::KeepAliveClient),
    /// Client: looks a name up, connects, asks and closes, again and again.
    LookupClient(lookups::LookupClient),
    /// Name server: answers questions by UDP, and leaves some out, until stdin closes.
    NameServer(lookups::NameServer),
    /// Server: answers datagrams, until stdin closes.
    DatagramServer(datagrams::DatagramServer),
    /// Client: asks by many datagrams at once, and repeats those without an answer.
    DatagramClient(datagrams::DatagramClient),
    /// Removes a control group when stdin is closed.
    RemoveGroup(quota::RemoveGroup),
    /// Answers each byte of its stdin with a byte, after a pause.
    Helper(tasks::Helper),
    /// Reads its stdin, with pauses.
    Drain(tasks::Drain),
    /// Stops its parent again and again.
    StopParent(tasks::StopParent),
    /// Uses CPU time, and nothing else, until stdin closes.
    Burn(burn::Burn),
    /// Gives a CPU softirq work until stdin closes.
    Flood(flood::Flood),
    /// Notes when the CPUs were stalled, until stdin closes.
    Pauses(pauses::Pauses),
}

/// Returns the options of `whylat lab workload`.
pub fn declaration() -> clap::Command {
    WorkloadCommand::command()
}

/// Runs `whylat lab workload` with the arguments after these words. Prints to stdout
/// and stderr; ends the process when the time limit is reached.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command = match WorkloadCommand::try_parse_from(args) {
        Ok(command) => command,
        Err(problem) => return print_usage(&problem),
    };
    match run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a workload and prints what it knows.
fn run(command: WorkloadCommand) -> Result<(), LabError> {
    let context = Context::new(command.common)?;
    let start_ns = now_ns();
    let (role, detail) = match command.role {
        Role::ReplyServer(role) => ("reply-server", to_json(role.run(&context)?)),
        Role::DelayAcks(role) => ("delay-acks", to_json(role.run(&context)?)),
        Role::WriteWriteRead(role) => ("write-write-read", to_json(role.run(&context)?)),
        Role::RequestReply(role) => ("request-reply", to_json(role.run(&context)?)),
        Role::ShortLived(role) => ("short-lived", to_json(role.run(&context)?)),
        Role::Stream(role) => ("stream", to_json(role.run(&context)?)),
        Role::TaskServer(role) => ("task-server", to_json(role.run(&context)?)),
        Role::Sink(role) => ("sink", to_json(role.run(&context)?)),
        Role::PushServer(role) => ("push-server", to_json(role.run(&context)?)),
        Role::ReceiveOnly(role) => ("receive-only", to_json(role.run(&context)?)),
        Role::Proxy(role) => ("proxy", to_json(role.run(&context)?)),
        Role::PollServer(role) => ("poll-server", to_json(role.run(&context)?)),
        Role::LogClient(role) => ("log-client", to_json(role.run(&context)?)),
        Role::LogServer(role) => ("log-server", to_json(role.run(&context)?)),
        Role::CommandClient(role) => ("command-client", to_json(role.run(&context)?)),
        Role::CommandServer(role) => ("command-server", to_json(role.run(&context)?)),
        Role::OpenLoop(role) => ("open-loop", to_json(role.run(&context)?)),
        Role::Batches(role) => ("batches", to_json(role.run(&context)?)),
        Role::CountCalls(role) => ("count-calls", to_json(role.run(&context)?)),
        Role::HoldOpen(role) => ("hold-open", to_json(role.run(&context)?)),
        Role::WorkerServer(role) => ("worker-server", to_json(role.run(&context)?)),
        Role::Worker(role) => ("worker", to_json(role.run(&context)?)),
        Role::WorkerClient(role) => ("worker-client", to_json(role.run(&context)?)),
        Role::RedisServer(role) => ("redis-server", to_json(role.run(&context)?)),
        Role::RedisClient(role) => ("redis-client", to_json(role.run(&context)?)),
        Role::PoolClient(role) => ("pool-client", to_json(role.run(&context)?)),
        Role::KeepAliveClient(role) => ("keep-alive-client", to_json(role.run(&context)?)),
        Role::LookupClient(role) => ("lookup-client", to_json(role.run(&context)?)),
        Role::NameServer(role) => ("name-server", to_json(role.run(&context)?)),
        Role::DatagramServer(role) => ("datagram-server", to_json(role.run(&context)?)),
        Role::DatagramClient(role) => ("datagram-client", to_json(role.run(&context)?)),
        Role::RemoveGroup(role) => ("remove-group", to_json(role.run()?)),
        Role::Helper(role) => ("helper", to_json(role.run(&context)?)),
        Role::Drain(role) => ("drain", to_json(role.run(&context)?)),
        Role::StopParent(role) => ("stop-parent", to_json(role.run(&context)?)),
        Role::Burn(role) => ("burn", to_json(role.run(&context)?)),
        Role::Flood(role) => ("flood", to_json(role.run(&context)?)),
        Role::Pauses(role) => ("pauses", to_json(role.run(&context)?)),
    };
    let mut truth = json!({
        "role": role,
        "pid": std::process::id(),
        "start_ns": start_ns,
        "end_ns": now_ns(),
    });
    if let (Some(truth), Value::Object(detail)) = (truth.as_object_mut(), detail) {
        truth.extend(detail);
    }
    print_json(&truth)
}

/// Returns a workload's truth as JSON.
fn to_json(truth: impl Serialize) -> Value {
    // These are plain structs of numbers and strings, which cannot fail to serialise.
    serde_json::to_value(truth).unwrap_or(Value::Null)
}
