//! Memory that is left to this process by its control groups.
//!
//! Where a page that a process touches, of its memory or of its program, exceeds the limit of its control group, the kernel kills
//! it. If it may not be killed, the kernel tries again without end (`filemap_fault`, `mem_cgroup_out_of_memory`), and the process
//! neither goes on nor ends. So the memory that is needed is compared with the memory that is left, before.

use std::fs;
use std::path::Path;

/// Where control groups are.
const GROUPS: &str = "/sys/fs/cgroup";

/// The bytes that are left, of the group with the least of them; `None` where there is no limit, or none that can be seen.
pub(super) fn memory_left() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let all = Path::new(GROUPS).join(own);
    all.ancestors().take_while(|group| group.starts_with(GROUPS)).filter_map(left_in).min()
}

/// The bytes that the limit of a group leaves. The page cache counts as free: the kernel can reclaim it.
fn left_in(group: &Path) -> Option<u64> {
    let read = |file| fs::read_to_string(group.join(file)).ok();
    // `max` is no limit.
    let limit: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let of_files = |line: &str| {
        let (name, bytes) = line.split_once(' ')?;
        ["inactive_file", "active_file"].contains(&name).then(|| bytes.parse::<u64>().ok()).flatten()
    };
    let of_files: u64 = read("memory.stat")?.lines().filter_map(of_files).sum();
    Some(limit.saturating_sub(used.saturating_sub(of_files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_what_is_not_used_but_for_files() {
        let group = std::env::temp_dir().join(format!("tidegate-limit-{}", std::process::id()));
        fs::create_dir_all(&group).unwrap();
        let write = |file: &str, text: &str| fs::write(group.join(file), text).unwrap();
        assert_eq!(left_in(&group), None);
        write("memory.max", "8388608\n");
        write("memory.current", "7000000\n");
        write("memory.stat", "anon 3000000\nfile 4000000\ninactive_file 1000000\nactive_file 2000000\nshmem 1000000\n");
        assert_eq!(left_in(&group), Some(4_388_608));
        write("memory.current", "12000000\n");
        assert_eq!(left_in(&group), Some(0));
        write("memory.max", "max\n");
        assert_eq!(left_in(&group), None);
        fs::remove_dir_all(&group).unwrap();
    }
}
