//! Real programs over the real kernel: each test plants a cause that it knows, records it with
//! the `whylat` binary as a user would, and demands the answer.
//!
//! They need root, and run two at a time, but those in `alone` (`make kernel`). Everything happens on loopback or in
//! network namespaces without names, in temporary directories, and in processes that die with
//! the test: nothing is left behind, however it ends.

mod activity;
mod affinity;
mod agent;
mod agent_host;
mod alone;
mod bpf;
mod bugreport;
mod check;
mod command_line;
mod completion;
mod containers;
mod copy;
mod counts;
mod damage;
mod descriptors;
mod doctor;
mod drops;
mod errors;
mod faults;
mod files;
mod follow;
mod functions;
mod guests;
mod halts;
mod itt;
mod lacking;
mod loss;
mod masters;
mod messages;
mod on_cpu_samples;
mod page;
mod preemptions;
mod privileges;
mod process_tree;
mod progress;
mod ready_kinds;
mod requests;
mod select;
mod selectors;
mod servers;
mod smoke;
mod socket_kinds;
mod sockmap;
mod spins;
mod stacks;
mod study;
mod terminal;
mod top;
mod udp;
mod udp_flows;
mod unix_sockets;
mod unread;
mod usdt;
mod went_wrong;
mod zerocopy;
