//! The process: memory and signals.

/// Sets up the process before anything else runs.
pub(super) fn prepare() {
    take_small_pages();
    onnx2ncnn::tensor::end_clearly_when_truncated();
}

/// Lets the system end this process when the one that started it ends: a batch that is killed leaves no
/// conversions behind.
pub(super) fn end_with_parent() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM);
}

/// Disables pages of 2 MiB: the kernel clears them as a whole, which costs more than a small conversion
/// needs. Child processes inherit the setting; nothing else depends on it.
fn take_small_pages() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = nix::sys::prctl::set_thp_disable(true);
}
