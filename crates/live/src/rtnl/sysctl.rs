//! Kernel settings under `/proc/sys/net`. They are those of the calling thread's network namespace.

use std::fs;
use std::io;
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys/net").join(name)
}

fn explain(name: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("net/{name}: {error}"))
}

/// Reads a setting, named by its path: `ipv4/ip_forward`.
pub fn read(name: &str) -> io::Result<String> {
    fs::read_to_string(path(name)).map(|t| t.trim().to_owned()).map_err(|e| explain(name, e))
}

/// Writes a setting.
pub fn write(name: &str, value: &str) -> io::Result<()> {
    fs::write(path(name), value).map_err(|e| explain(name, e))
}

/// Whether the namespace forwards packets of a family.
pub fn forwards() -> bool {
    ["ipv4/ip_forward", "ipv6/conf/all/forwarding"].iter().any(|name| read(name).is_ok_and(|value| value != "0"))
}

/// Makes the namespace forward packets of both families.
pub fn enable_forwarding() -> io::Result<()> {
    write("ipv4/ip_forward", "1")?;
    match write("ipv6/conf/all/forwarding", "1") {
        // A kernel without IPv6 has nothing to forward.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_setting_is_read_and_an_unknown_one_is_named() {
        assert!(super::read("ipv4/ip_default_ttl").unwrap().parse::<u8>().is_ok());
        assert!(super::read("ipv4/no_such").unwrap_err().to_string().starts_with("net/ipv4/no_such: "));
    }
}
