//! The order within a flow rests on a data path that stays on one processor.

use std::fs;

use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_live::shaping::{Options, Shaping};
use tidegate_live::timing::Priority;
use tidegate_testbed::Pair;

use tidegate_testbed::Ended;

/// Whatever its priority: a thread that the scheduler moves between two packets lets the second overtake the first, which
/// waits on the processor that it was sent from.
pub fn the_data_path_stays_on_one_processor() -> Ended {
    for priority in [Priority::RealTime, Priority::Normal] {
        let pair = Pair::create().expect("a pair of hosts");
        let text = "version = 1\n[[class]]\nname = \"all\"\nrate = \"10mbit\"\ndefault = true\n";
        let config = shaper::load(&Source::new("test.toml", text), &mut Diagnostics::new()).expect("a file");
        let options = Options { interfaces: vec![pair.sender.interface.into()], priority, ..Options::default() };
        let shaping =
            pair.sender.namespace.run(|| Shaping::start(&config, &options)).expect("a thread").expect("shaping");
        assert_eq!(processors_of("tidegate"), Some(1), "{priority:?}");
        shaping.stop().expect("an orderly end");
    }
    Ended::Passed
}

/// On how many processors the thread of this name may run.
fn processors_of(name: &str) -> Option<u32> {
    let threads = fs::read_dir("/proc/self/task").expect("the threads").flatten();
    let is_it = |comm: std::io::Result<String>| comm.is_ok_and(|comm| comm.trim_end() == name);
    let thread = threads.map(|thread| thread.path()).find(|path| is_it(fs::read_to_string(path.join("comm"))))?;
    let status = fs::read_to_string(thread.join("status")).ok()?;
    let set = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"))?;
    Some(set.trim().split(',').filter_map(|word| u32::from_str_radix(word, 16).ok()).map(u32::count_ones).sum())
}
