//! Measured processes.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A process that has ended successfully.
pub struct Run {
    /// The time from its start to its end.
    pub time: Duration,
    /// The maximum resident memory, including mapped pages.
    pub peak_bytes: u64,
}

/// Runs a command.
pub fn run(command: &mut Command) -> Run {
    let start = Instant::now();
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (status, peak_bytes) = wait(&child);
    assert_eq!(status, 0, "{command:?} failed");
    Run { time: start.elapsed(), peak_bytes }
}

/// Returns the exit status of a child and its peak of resident memory, which only `wait4` reports for one
/// process.
#[allow(unsafe_code)]
fn wait(child: &Child) -> (i32, u64) {
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    let mut status = 0;
    // SAFETY: rusage consists of numbers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers refer to values of the right types that outlive the call, and only this function
    // waits for the child.
    let waited = unsafe { libc::wait4(pid, &mut status, 0, &mut usage) };
    assert_eq!(waited, pid);
    (status, u64::try_from(usage.ru_maxrss).unwrap() * 1024)
}
