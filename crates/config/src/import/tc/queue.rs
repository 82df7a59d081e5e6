//! Queues of `tc` as the keys of a discipline.

use tidegate_core::Bytes;

use super::super::cake::Cake;
use super::super::quantity::{size, time};
use super::super::{ImportError, Input, quoted};
use super::cannot_read;
use super::read::Record;

/// The keys of the discipline that takes the place of `queue`; `None` where there is none.
///
/// # Errors
/// For a value that cannot be read.
pub fn keys(input: &mut Input<'_>, queue: &Record) -> Result<Option<Vec<String>>, ImportError> {
    let mut keys = Vec::new();
    let kind = match queue.kind.as_str() {
        "fq_codel" => "fq-codel",
        "codel" => "codel",
        "pie" => "pie",
        "sfq" => "sfq",
        "pfifo" | "bfifo" | "pfifo_fast" => "fifo",
        "cake" => {
            let mut cake = Cake::new();
            cake.options(queue.words(), queue.line, input)?;
            return Ok(Some(cake.keys().lines().map(str::to_owned).collect()));
        }
        _ => return Ok(None),
    };
    keys.push(format!("kind = \"{kind}\""));
    for (name, value) in &queue.options {
        match (kind, name.as_str()) {
            ("fq-codel" | "codel" | "pie", "target") | ("fq-codel" | "codel", "interval") | ("sfq", "perturb") => {
                let span = time(value).ok_or_else(|| cannot_read(input, queue, name, value))?;
                keys.push(format!("{name} = \"{span}\""));
            }
            ("fq-codel" | "sfq", "quantum") => {
                let bytes = bytes(input, queue, name, value)?;
                keys.push(format!("quantum = \"{}B\"", bytes.as_u64()));
            }
            ("fq-codel", "flows") | ("sfq", "divisor") => {
                let number = value.parse::<u32>().map_err(|_| cannot_read(input, queue, name, value))?;
                keys.push(format!("queues = {number}"));
            }
            ("fq-codel", "memory_limit") => {
                let bytes = bytes(input, queue, name, value)?;
                keys.push(format!("limit = \"{}B\"", bytes.as_u64()));
            }
            ("fifo", "limit") => keys.push(limit(input, queue, value)?),
            // 10240 packets are the default here as in the kernel.
            ("fq-codel", "limit") if matches!(value.as_str(), "10240p" | "10240") => {}
            (_, "refcnt" | "ecn" | "noecn" | "drop_batch" | "depth" | "flows" | "bands" | "priomap") => {}
            // Bands of pfifo_fast.
            ("fifo", _) => {}
            (_, name) => {
                let text = format!("{} {} of {}", quoted(name), quoted(value), quoted(&queue.kind));
                input.leave(queue.line, text);
            }
        }
    }
    if matches!(kind, "fq-codel" | "codel" | "pie") && !queue.has("ecn") {
        keys.push("signal = \"drop\"".to_owned());
    }
    Ok(Some(keys))
}

fn bytes(input: &Input<'_>, queue: &Record, name: &str, value: &str) -> Result<Bytes, ImportError> {
    size(value).filter(|bytes| *bytes > Bytes::ZERO).ok_or_else(|| cannot_read(input, queue, name, value))
}

/// The limit of a FIFO: packets (`1000p`) or bytes. In JSON it is a number alone, whose unit follows from the kind.
fn limit(input: &Input<'_>, queue: &Record, value: &str) -> Result<String, ImportError> {
    let packets = value.strip_suffix('p').or((queue.kind == "pfifo").then_some(value));
    if let Some(packets) = packets {
        let number = packets.parse::<u64>().ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| cannot_read(input, queue, "limit", value))?;
        return Ok(format!("packets = {number}"));
    }
    Ok(format!("limit = \"{}B\"", bytes(input, queue, "limit", value)?.as_u64()))
}
