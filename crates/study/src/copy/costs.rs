//! Measures the steps of a send by themselves: consolidation, the kernel's copy, pinning, a completion, and what the
//! study itself adds to a message. Medians of many batches, in ns: a machine without a cycle counter has no other unit.

use std::fs::OpenOptions;
use std::hint::black_box;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;

use nix::fcntl::{SpliceFFlags, splice, vmsplice};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{MsgFlags, sendmsg};

use super::errqueue;
use super::journal::CopyCost;
use super::message::{ExpectedMessage, FIELDS, MessagePool};
use super::stats::{Histogram, median, median_interval};
use lab::LabError;
use lab::now_ns;

/// Measured batches of each cost; the median of so many is exact to a few percent.
const BATCHES: usize = 31;
/// A batch takes about so long: long against the clock's own cost, short against a time slice.
const BATCH_NS: f64 = 200_000.0;
/// Bytes of a page.
const PAGE: usize = 4096;
/// Messages of the study are sent in turn from so many (`RunOptions::slots`, at one request at a time).
const SLOTS: usize = 4;

/// Measures all costs, those of messages at each size.
///
/// # Errors
/// When the kernel refuses a step.
pub(super) fn measure_costs(sizes: &[usize]) -> Result<Vec<CopyCost>, LabError> {
    let hint = "run whylat doctor, and the study again";
    measure_all(sizes).map_err(|why| LabError::os("measure", "costs by themselves", why, hint))
}

/// Measures the cost of copying for each size.
fn measure_all(sizes: &[usize]) -> io::Result<Vec<CopyCost>> {
    let mut costs = Vec::new();
    for &size in sizes {
        costs.push(measure_consolidation(size)?);
        costs.push(kernel_copy(size)?);
    }
    costs.push(measure_pinning()?);
    costs.push(measure_completion()?);
    costs.push(measure_harness()?);
    Ok(costs)
}

/// Measures batches of calls, ns a call; a first batch warms up and sets the size of the others.
fn measure_batches(mut call: impl FnMut() -> io::Result<()>) -> io::Result<Vec<f64>> {
    let mut timed = |calls: u64| -> io::Result<f64> {
        let before_ns = now_ns();
        for _ in 0..calls {
            call()?;
        }
        Ok((now_ns() - before_ns) as f64 / calls as f64)
    };
    let each_ns = timed(100)?.max(1.0);
    let calls = (BATCH_NS / each_ns).clamp(1.0, 1e6) as u64;
    (0..BATCHES).map(|_| timed(calls)).collect()
}

/// Returns median and spread of several measurements.
fn summarize_cost(name: &str, bytes: usize, ns: &[f64]) -> CopyCost {
    let bounds = median_interval(ns).unzip();
    CopyCost {
        name: name.to_owned(),
        bytes,
        ns: median(ns).unwrap_or(f64::NAN),
        ns_lo: bounds.0,
        ns_hi: bounds.1,
    }
}

/// Measures the copy of eight fields into one buffer.
fn measure_consolidation(size: usize) -> io::Result<CopyCost> {
    let pool = MessagePool::heap(SLOTS, size);
    let (mut whole, mut sent) = (vec![0; size], 0);
    let ns = measure_batches(|| {
        pool.consolidate(black_box(sent % SLOTS), &mut whole);
        black_box(&whole);
        sent += 1;
        Ok(())
    })?;
    Ok(summarize_cost("consolidation", size, &ns))
}

/// Measures copy_from_user() by writes to a file in memory, less a write of one byte. The result
/// has a look-up of each page, too.
fn kernel_copy(size: usize) -> io::Result<CopyCost> {
    let file = std::fs::File::from(memfd_create(c"whylat-copy", MFdFlags::MFD_CLOEXEC)?);
    let bytes = vec![1; size];
    file.write_all_at(&bytes, 0)?;
    let whole = measure_batches(|| file.write_all_at(&bytes, 0))?;
    let one = median(&measure_batches(|| file.write_all_at(&bytes[..1], 0))?).unwrap_or(0.0);
    let ns: Vec<f64> = whole.iter().map(|ns| ns - one).collect();
    Ok(summarize_cost("kernel_copy", size, &ns))
}

/// Measures a page's get_user_pages() and its release: vmsplice() into a pipe and splice() out of it, which copy nothing; of 15
/// pages more.
fn measure_pinning() -> io::Result<CopyCost> {
    const MANY: usize = 16;
    let (reader, writer) = nix::unistd::pipe()?;
    let null = OpenOptions::new().write(true).open("/dev/null")?;
    let memory = vec![1_u8; (MANY + 1) * PAGE];
    let start = memory.as_ptr().align_offset(PAGE);
    let pages = |count: usize| {
        measure_batches(|| {
            let part = [IoSlice::new(&memory[start..start + count * PAGE])];
            let mut left = vmsplice(&writer, &part, SpliceFFlags::empty())?;
            while left > 0 {
                left -= splice(&reader, None, &null, None, left, SpliceFFlags::empty())?;
            }
            Ok(())
        })
    };
    let one = median(&pages(1)?).unwrap_or(0.0);
    let many = pages(MANY)?;
    let ns: Vec<f64> = many
        .iter()
        .map(|ns| (ns - one) / (MANY - 1) as f64)
        .collect();
    Ok(summarize_cost("pinning", PAGE, &ns))
}

/// Measures the reading of a notification from the error queue.
fn measure_completion() -> io::Result<CopyCost> {
    const SENDS: usize = 20;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    errqueue::enable_reports(&sender)?;
    let (bytes, mut received) = (vec![1; PAGE], vec![0; PAGE]);
    let flags = MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY);
    let mut one = || -> io::Result<f64> {
        let mut sent = 0;
        while sent < PAGE {
            let fd = std::os::fd::AsRawFd::as_raw_fd(&sender);
            sent += sendmsg::<()>(fd, &[IoSlice::new(&bytes[sent..])], &[], flags, None)?;
        }
        receiver.read_exact(&mut received)?;
        receiver.write_all(&[1])?;
        (&sender).read_exact(&mut [0])?;
        errqueue::wait(&sender)?;
        let before_ns = now_ns();
        let notification = errqueue::next(&sender)?;
        let ns = (now_ns() - before_ns) as f64;
        notification
            .map(|_| ns)
            .ok_or_else(|| io::Error::other("no notification came"))
    };
    let mut batch = || -> io::Result<f64> {
        let all: io::Result<Vec<f64>> = (0..SENDS).map(|_| one()).collect();
        Ok(median(&all?).unwrap_or(f64::NAN))
    };
    let ns: io::Result<Vec<f64>> = (0..BATCHES).map(|_| batch()).collect();
    Ok(summarize_cost("completion", PAGE, &ns?))
}

/// Measures what the study does with a message of 64 bytes beside sending and receiving it: stamps, checks, clock, histogram.
fn measure_harness() -> io::Result<CopyCost> {
    const SIZE: usize = 64;
    let (mut pool, expected) = (MessagePool::heap(SLOTS, SIZE), ExpectedMessage::new(SIZE));
    let mut latency = Histogram::default();
    let (mut whole, mut number, mut last_ns) = (vec![0; SIZE], 0_u64, now_ns());
    let ns = measure_batches(|| {
        let slot = number as usize % SLOTS;
        pool.stamp(slot, number);
        pool.consolidate(slot, &mut whole);
        let fields = || whole.chunks_exact(SIZE / FIELDS);
        let is_right = ExpectedMessage::check_stamps(fields(), number).is_ok()
            && (!number.is_multiple_of(64) || expected.is_whole(fields(), number));
        let now = now_ns();
        latency.record(now - last_ns);
        last_ns = now;
        number += 1;
        if is_right {
            Ok(())
        } else {
            Err(io::Error::other("a message differs from itself"))
        }
    })?;
    Ok(summarize_cost("harness", SIZE, &ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cost_takes_time() {
        for cost in measure_costs(&[64, 65_536]).unwrap() {
            let CopyCost {
                name,
                ns,
                ns_lo,
                ns_hi,
                ..
            } = &cost;
            // the kernel's copy of 64 bytes is less than what the rest of the call varies by
            let least = if name == "kernel_copy" { -1_000.0 } else { 0.0 };
            assert!(*ns > least, "{name}: {ns}");
            assert!(ns_lo.unwrap() <= *ns && *ns <= ns_hi.unwrap(), "{name}");
        }
    }
}
