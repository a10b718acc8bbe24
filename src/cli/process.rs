//! The process of the command: its memory and its signals.

/// Sets up the process before anything else runs.
pub(super) fn prepare() {
    take_small_pages();
    onnx2ncnn::tensor::end_clearly_when_truncated();
}

/// Memory comes in pages of 4 KiB: the kernel clears a page of 2 MiB whole, which costs a small network more than it needs, and where a
/// virtual machine has to ask its host for the page, ten times as much. Programs that are started inherit it, and nothing else depends on it.
fn take_small_pages() {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = nix::sys::prctl::set_thp_disable(true);
}
