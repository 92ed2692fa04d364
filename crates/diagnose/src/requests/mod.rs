//! Requests: rows of the tables `calls`, `waits` and `preemptions` in, side by side in the order of time; out, where
//! each request's time went ([`RequestReport`]). What is kept grows with the connections, the services, the threads and
//! the longest request, not with the requests.
//!
//! ```text
//! id        names of connections, threads, services and requests
//! endpoint  connections: which end serves, which is the other end
//! arrival   when the bytes were there that a receive call took
//! moving_call  a call that moved bytes
//! exchange  a turn of the client, and the server's that answers it
//! turns     calls of a connection → exchanges, by turn-taking
//! class     whether its ends take turns
//! control   sizes of small messages of a protocol itself
//! datagrams the same by datagrams
//! intake    rows of the tables
//! request_table  puts them in the order of time, and keeps what follows
//! thread_event  a wait, a call, or time that a thread was kept from running
//! history   what threads did lately
//! thread_gap  when they worked for no request: no CPU, or a wait for a client
//! file_lock waits for the lock of a file
//! holder    what the thread that held a lock waited for
//! holding   what a process did that others waited for; holder_times: its time
//! owner     which request a thread had to do with, of several at once
//! path      backward over waits and wakers: the critical path; path_finder: its inputs; position: a place on it
//! cause     the cause of a wait on it
//! job       who did the job that a thread waited for
//! path_sleep  the sleep of a request in its loop, on a path
//! path_wait  a wait on a path, and what it was for
//! due       when a timer was due, by the time limits of waits
//! rounds    what its loop did meanwhile
//! sleep     when a request slept; sleep_counts: how long others of its process did; tasks: threads that share tasks
//! trail     steps without gap or overlap, and their sums
//! accountant  an exchange → its steps, which make the breakdown of a request
//! stages    what TCP held back meanwhile
//! functions what threads ran meanwhile
//! part      the parts that a request's time is made of
//! exchanges calls → exchanges → requests, by connection
//! tally     a request → the sums of its service
//! service   requests of one process and address
//! contrast  what distinguishes the slowest of a service
//! subjects  who took the time of a service's requests
//! pool      waits for a connection, before requests; loop_pool: those of requests in an event loop
//! pauses    pauses of a server that timers ended
//! nesting   services with requests that contain those of others
//! output_gap waits of a client for the reader of its output, between requests; sleep_gap: its sleeps there
//! pace      sleeps of a client between its own sends and reads
//! series    how its requests follow each other
//! runs      requests in series, and what they spend on the path
//! repeats   requests with datagrams that were repeated
//! resets    requests that a reset answered
//! long_work  requests that keep their thread for long, and waits behind them
//! blockers  the same of a service
//! workers   the processes that share its address
//! digests/  what rules need beside requests, from the same rows
//! evidence  all of that, as rules see it; case: one service
//! rules/    one file a rule: fires, quiet, or inconclusive
//! judge     all rules in order → findings
//! windows   edges of windows, under a budget
//! request   a request, as it is listed
//! listing   the slowest requests, or one of them
//! page      what a page shows; page_digest: what is kept for it
//! report    the contract `whylat.requests/1`
//! ```

mod accountant;
mod arrival;
mod blockers;
mod case;
mod cause;
mod class;
mod contrast;
mod contrast_digest;
pub mod contrast_report;
mod control;
mod datagrams;
pub(crate) mod digests;
mod due;
mod endpoint;
mod evidence;
mod exchange;
mod exchanges;
mod file_lock;
pub mod functions;
mod history;
mod holder;
mod holder_times;
mod holding;
mod id;
mod intake;
mod job;
mod judge;
mod listing;
mod long_work;
mod loop_pool;
mod moving_call;
mod nesting;
mod notice;
mod output_gap;
mod owner;
mod pace;
pub mod page;
mod page_digest;
mod part;
mod path;
mod path_finder;
mod path_job;
mod path_sleep;
mod path_wait;
mod pauses;
mod pool;
mod position;
mod queue_times;
mod repeats;
pub mod report;
mod request;
mod request_table;
mod resets;
mod rounds;
pub mod rules;
mod runs;
mod series;
mod service;
mod sleep;
mod sleep_counts;
mod sleep_gap;
mod stages;
mod subjects;
mod tally;
mod tasks;
mod thread_event;
mod thread_gap;
mod trail;
mod turns;
mod windows;
mod workers;

pub use crate::answer::Side;
pub use id::RequestId;
pub use judge::RequestFindings;
pub use listing::RequestFilter;
pub use part::{PartShares, PartTimes, RequestPart};
pub use report::RequestReport;
pub use request::Request;
pub use request_table::{RequestTable, Source};

#[cfg(test)]
mod tests;
