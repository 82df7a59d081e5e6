//! Hardware addresses.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value as Json, json};

use crate::decode::{Scalar, Wrong};

/// The hardware address of a device (EUI-48). Written `02:00:5e:00:53:01`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits: Vec<String> = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        f.pad(&digits.join(":"))
    }
}

impl FromStr for Mac {
    type Err = Wrong;
    fn from_str(text: &str) -> Result<Self, Wrong> {
        Self::from_text(text)
    }
}

impl Scalar for Mac {
    const WANTED: &'static str = "hardware address";
    const EXAMPLE: &'static str = "02:00:5e:00:53:01";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let help = || format!("write for example \"{}\"; `ip neigh` lists those of devices nearby", Self::EXAMPLE);
        let byte = |part: &str| {
            let digits = part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit());
            u8::from_str_radix(part, 16).ok().filter(|_| digits)
        };
        let trimmed = text.trim();
        let separator = if trimmed.contains('-') { '-' } else { ':' };
        let bytes: Option<Vec<u8>> = trimmed.split(separator).map(byte).collect();
        let Some(bytes) = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok()) else {
            return Err(Wrong { message: format!("`{text}` is not a hardware address"), help: help() });
        };
        if bytes[0] & 1 == 1 || bytes == [0; 6] {
            return Err(Wrong { message: format!("no device has the hardware address `{text}`"), help: help() });
        }
        Ok(Self(bytes))
    }
    fn scalar_schema() -> Json {
        json!({ "type": "string", "pattern": "^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$", "examples": [Self::EXAMPLE] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_of_devices_are_read() {
        let read = |text: &str| Mac::from_text(text).map(|mac| mac.to_string()).map_err(|wrong| wrong.message);
        assert_eq!(read("02:00:5E:00:53:01"), Ok("02:00:5e:00:53:01".into()));
        assert_eq!(read(" 02-00-5e-00-53-01 "), Ok("02:00:5e:00:53:01".into()));
        for text in
            ["", "02:00:5e:00:53", "02:00:5e:00:53:01:02", "2:0:5e:0:53:1", "02:00:5e:00:53:+1", "02:00-5e:00:53:01"]
        {
            assert!(read(text).is_err_and(|why| why.contains("is not a hardware address")), "{text}");
        }
        for text in ["01:00:5e:00:53:01", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"] {
            assert!(read(text).is_err_and(|why| why.contains("no device has")), "{text}");
        }
    }
}
