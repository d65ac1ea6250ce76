//! How much memory this process has, as Linux tells it. Elsewhere it is unknown, and counts as none.

/// Bytes of memory in use.
pub fn resident() -> u64 {
    read("VmRSS:")
}

/// Bytes of memory in use, at most so far.
pub fn peak() -> u64 {
    read("VmHWM:")
}

fn read(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kibibytes.unwrap_or(0).saturating_mul(1024)
}
