//! [`compare`]: the C of a decider against its Rust.

use std::path::Path;

use tidegate_core::Qdisc;
use tidegate_core::random::Stream;
use tidegate_kernel::options::{OWN, Options, SLOTS};

use super::{MOST_NUMBERS, tree};
pub use crate::equal::Compared;
use crate::equal::{Host, Scratch, compile_own, compiler, run_script};
pub use crate::reference::Numbered;
use crate::reference::Reference;

/// Compares the C in the folder of the build, `out`, with the discipline that `fresh` makes, in `calls` random calls. `numbers` are
/// its parameters in the order of their fields. `None`, with a line on standard error, without a C compiler for this machine.
///
/// # Errors
/// The first call in which they differ, or what went wrong.
pub fn compare<Q: Qdisc<Numbered> + 'static>(
    out: &str,
    numbers: &[u64],
    calls: u64,
    fresh: impl Fn(Stream) -> Q,
) -> Result<Option<Compared>, String> {
    if let Err(missing) = compiler() {
        eprintln!("SKIP: the C is not compared with the Rust: {missing}");
        return Ok(None);
    }
    let failed = |error: std::io::Error| error.to_string();
    let scratch = Scratch::new("own").map_err(failed)?;
    let program = scratch.0.join("host");
    compile_own(&tree(), Path::new(out), &program).map_err(failed)?;
    let mut own = [0; MOST_NUMBERS];
    own.get_mut(..numbers.len()).ok_or("too many numbers")?.copy_from_slice(numbers);
    let mut host = Host::start(&program).map_err(failed)?;
    let (mut random, mut compared) = (Stream::named(1, "own"), Compared::default());
    while compared.calls < calls {
        let stream = Stream::named(random.next_u64(), "packets");
        let options = Options {
            kind: OWN,
            own,
            random: stream.parts(),
            limit_packets: SLOTS - 1,
            limit_bytes: u64::MAX,
            // For the times of the script.
            interval: 1 << 20,
            mtu: 1_500,
            ..Options::default()
        };
        let reference = Reference::of(Box::new(fresh(stream)));
        let found = run_script(&mut host, &mut random, &options, None, reference, calls - compared.calls);
        let (difference, counts) = found.map_err(failed)?;
        if let Some(difference) = difference {
            return Err(difference.0);
        }
        compared.calls += counts.calls;
        compared.sent += counts.sent;
        compared.dropped += counts.dropped;
        compared.marked += counts.marked;
    }
    Ok(Some(compared))
}
