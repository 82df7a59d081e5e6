//! Moves between data paths under traffic, where the one in the kernel is the kernel's own token bucket: any kernel has that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_config::shaper::{Config, DataPath, Root};
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::ClassId;
use tidegate_engine::advice::OffloadedAdvice;
use tidegate_engine::{Names, Offload, OffloadedFlows, PromiseTable, Promised, Setup, Totals};
use tidegate_live::netlink::Error;
use tidegate_live::probe::{Inspection, Version};
use tidegate_live::rtnl::Rtnl;
use tidegate_live::rules::RulesError;
use tidegate_live::shaping::backend::{Backend, OffloadBackend, OffloadCounters, OffloadProvider, clear_root};
use tidegate_live::shaping::{Hold, Options, Running, Shaping, StartError, Successor, WorkerCounts};
use tidegate_testbed::Ended;
use tidegate_testbed::veth::{DEVICE, Pair};
use tidegate_units::{Bytes, Rate};

use crate::guardian;
use crate::hold::{RATE, all_in_order, while_sending};

/// Takes a rate, and none where the discipline of a class is named.
#[derive(Debug)]
struct Buckets;

/// A token bucket at the root of an interface.
#[derive(Debug, Default)]
struct Bucket(Option<u32>);

fn rate(config: &Config) -> Result<Rate, StartError> {
    match &config.root {
        Root::Shaper(shaper) if shaper.classes[0].queue.is_none() => Ok(shaper.rate),
        _ => Err(StartError::NotInKernel { what: "a discipline".into() }),
    }
}

impl OffloadProvider for Buckets {
    fn take(&self, config: &Config) -> Result<Box<dyn OffloadBackend>, StartError> {
        rate(config).map(|_| Box::new(Bucket::default()) as Box<dyn OffloadBackend>)
    }
}

/// As [`Buckets`], once so many have been loaded, unless the kernel refuses them.
#[derive(Debug, Default)]
struct Later {
    loading: AtomicUsize,
    is_refused: AtomicBool,
}

impl OffloadProvider for Later {
    fn take(&self, config: &Config) -> Result<Box<dyn OffloadBackend>, StartError> {
        match (self.loading(), self.is_refused.load(Ordering::Relaxed)) {
            (1.., _) => Err(StartError::KernelLoading),
            (0, true) => Err(StartError::NoKernelProgram("the verifier refuses it".into())),
            (0, false) => Buckets.take(config),
        }
    }
    fn loading(&self) -> usize {
        self.loading.load(Ordering::Relaxed)
    }
}

impl Backend for Bucket {
    fn discipline(&self) -> Option<&str> {
        Some("tbf")
    }
    fn inspect(&mut self) -> Result<Inspection, Error> {
        Ok(Inspection { differences: Vec::new(), queues: Vec::new() })
    }
    fn prepare(&mut self, config: &Config) -> Result<Names, StartError> {
        rate(config).map(|_| Names::default())
    }
    fn revert(&mut self, _: &Config, _: &Names) -> Result<(), StartError> {
        Ok(())
    }
    fn follow(&mut self, _: usize, _: &str, _: u32, _: &Running) -> Result<(), StartError> {
        Ok(())
    }
    fn end(&mut self, running: &mut Running) -> Result<WorkerCounts, StartError> {
        let ended = running.stop();
        if let Some(index) = self.0.take() {
            assert_eq!(clear_root(&mut Rtnl::open()?, index)?, 0, "what waits has time to leave");
        }
        ended
    }
}

impl OffloadBackend for Bucket {
    fn attach(
        &mut self,
        interfaces: &[(String, Option<u32>)],
        config: &Config,
        _: &Setup,
    ) -> Result<Vec<String>, StartError> {
        let index = interfaces[0].1.expect("the interface");
        let mut rtnl = Rtnl::open()?;
        let hold = Hold::begin(&mut rtnl, index)?;
        rtnl.set_tbf(index, rate(config)?, Bytes::new(3_000), Bytes::new(1_000_000))?;
        self.0 = Some(index);
        hold.end()?;
        Ok(Vec::new())
    }
    fn counters(&self) -> Box<dyn OffloadCounters> {
        Box::new(Uncounted)
    }
}

struct Uncounted;

impl Offload for Uncounted {
    fn totals(&mut self, _: &[String]) -> (Vec<(ClassId, Totals)>, Totals) {
        Default::default()
    }
    fn flows(&mut self) -> OffloadedFlows {
        OffloadedFlows::default()
    }
    fn set_promises(&mut self, _: &[Promised], _: &PromiseTable) -> Result<(), String> {
        Ok(())
    }
    fn set_advice(&mut self, _: &OffloadedAdvice) {}
}

impl OffloadCounters for Uncounted {
    fn renew(&mut self) {}
    fn feeds_back(&self) -> bool {
        false
    }
    fn has_events(&self) -> bool {
        false
    }
    fn has_sent(&self, _: Version) -> bool {
        true
    }
}

fn config(more: &str) -> Config {
    load(&format!("[[class]]\nname = \"all\"\nrate = \"{RATE}\"\ndefault = true\n{more}"))
}

fn load(more: &str) -> Config {
    let text = format!("version = 1\n[interface]\nname = \"{DEVICE}\"\n{more}");
    let (source, mut diagnostics) = (Source::new("move.toml", text), Diagnostics::new());
    shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
}

/// As [`Shaping`] is to be moved, without promises in between.
fn move_to(shaping: &mut Shaping, config: &Config) {
    let change = shaping.begin_move(config).unwrap().expect("a data path that can be had");
    shaping.finish_move(change).unwrap().expect("a data path that can be had");
}

/// The packets that the classes of a data path have taken.
fn taken(shaping: &Shaping) -> u64 {
    shaping.status().unwrap().iter().map(|class| class.counts.accounts.enqueued.packets).sum()
}

/// Into the kernel at the start, then to user space and back, several times, and the end: every packet arrives, in order, and no
/// other instance gets the interface in between.
pub fn a_move_between_data_paths_loses_and_reorders_nothing() -> Ended {
    let (kernel, user) = (config("limit = \"1MB\"\n"), config("queue = { kind = \"fifo\", limit = \"1MB\" }\n"));
    assert_eq!(kernel.interface.data_path, DataPath::Auto, "the default");
    let pair = Pair::new();
    let options = Options { offload: Some(Arc::new(Buckets)), ..Options::default() };
    let busy = || {
        let other = Shaping::start(&user, &Options::default()).expect_err("another instance has it");
        assert!(matches!(other, StartError::Rules(RulesError::Busy { .. })), "{other}");
    };
    let (sent, arrived) = while_sending(&pair, || {
        let moves = || {
            let mut shaping = Shaping::start(&kernel, &options).unwrap();
            assert_eq!(shaping.in_kernel(), Some("tbf"));
            busy();
            for _ in 0..4 {
                for (config, place) in [(&user, None), (&kernel, Some("tbf"))] {
                    std::thread::sleep(Duration::from_millis(50));
                    assert!(shaping.moves(config).unwrap());
                    move_to(&mut shaping, config);
                    assert_eq!(shaping.in_kernel(), place);
                    assert!(!shaping.moves(config).unwrap());
                    busy();
                }
            }
            shaping.stop().unwrap();
        };
        pair.left.run(moves).unwrap();
    });
    assert!(sent > 100, "{sent}");
    all_in_order(sent, &arrived);
    Ended::Passed
}

/// While the scheduler in the kernel is being made ready, packets are queued in user space, changes included; then they move there.
pub fn a_start_that_awaits_the_kernel_shapes_in_user_space_and_moves() -> Ended {
    let (kernel, other) = (config("limit = \"1MB\"\n"), config("limit = \"2MB\"\n"));
    let mut must = kernel.clone();
    must.interface.data_path = DataPath::Kernel;
    let pair = Pair::new();
    let later = Arc::new(Later { loading: AtomicUsize::new(2), ..Later::default() });
    let options = Options { offload: Some(Arc::clone(&later) as Arc<dyn OffloadProvider>), ..Options::default() };
    let (sent, arrived) = while_sending(&pair, || {
        let moves = || {
            let refused = Shaping::start(&must, &options).expect_err("it must be in the kernel");
            assert!(matches!(refused, StartError::KernelLoading), "{refused}");
            let mut shaping = Shaping::start(&kernel, &options).unwrap();
            assert!(shaping.in_kernel().is_none() && shaping.awaits_kernel());
            assert!(shaping.warnings()[0].contains("is being loaded"), "{:?}", shaping.warnings());
            std::thread::sleep(Duration::from_millis(50));
            assert!(taken(&shaping) > 0, "it shapes already");
            assert!(shaping.awaited().is_none(), "nothing is new");
            later.loading.store(1, Ordering::Relaxed);
            assert!(shaping.awaited().is_none() && shaping.awaits_kernel(), "another one was made ready");
            assert!(!shaping.moves(&other).unwrap());
            shaping.reconfigure(&other, None).unwrap();
            assert!(matches!(shaping.moves(&must), Err(StartError::KernelLoading)));
            later.loading.store(0, Ordering::Relaxed);
            assert!(matches!(shaping.awaited(), Some(Ok(()))));
            assert!(shaping.awaited().is_none() && !shaping.awaits_kernel(), "once");
            let config = shaping.config().clone();
            assert!(shaping.moves(&config).unwrap());
            move_to(&mut shaping, &config);
            assert_eq!(shaping.in_kernel(), Some("tbf"));
            assert!(!shaping.awaits_kernel() && shaping.warnings().is_empty(), "{:?}", shaping.warnings());
            shaping.stop().unwrap();
        };
        pair.left.run(moves).unwrap();
    });
    assert!(sent > 20, "{sent}");
    all_in_order(sent, &arrived);
    Ended::Passed
}

/// The kernel path is awaited no longer when it is refused, or when the file is for user space by then.
pub fn a_kernel_that_is_not_to_be_had_or_not_wanted_is_awaited_no_longer() -> Ended {
    let kernel = config("limit = \"1MB\"\n");
    let mut user = kernel.clone();
    user.interface.data_path = DataPath::UserSpace;
    let ends = || {
        for (is_refused, next) in [(true, &kernel), (false, &user)] {
            let later = Arc::new(Later { loading: AtomicUsize::new(1), is_refused: AtomicBool::new(is_refused) });
            let options =
                Options { offload: Some(Arc::clone(&later) as Arc<dyn OffloadProvider>), ..Options::default() };
            let mut shaping = Shaping::start(&kernel, &options).unwrap();
            shaping.reconfigure(next, None).unwrap();
            assert!(shaping.awaits_kernel());
            later.loading.store(0, Ordering::Relaxed);
            match (is_refused, shaping.awaited()) {
                (true, Some(Err(error))) => assert!(error.reason().contains("the verifier refuses it"), "{error}"),
                (false, None) => {}
                (_, other) => panic!("{is_refused}: {other:?}"),
            }
            assert!(!shaping.awaits_kernel() && shaping.in_kernel().is_none());
            shaping.stop().unwrap();
        }
    };
    Pair::new().left.run(ends).unwrap();
    Ended::Passed
}

/// A data path that is begun anew, as after a fault, takes over what the earlier one has left; then the traffic moves to the kernel.
pub fn a_data_path_that_is_begun_anew_moves_to_the_kernel() -> Ended {
    let kernel = config("limit = \"1MB\"\n");
    let pair = Pair::new();
    let later = Arc::new(Later { loading: AtomicUsize::new(1), ..Later::default() });
    let offload = Some(Arc::clone(&later) as Arc<dyn OffloadProvider>);
    let options = Options { offload, guardian: Some(guardian::own()), ..Options::default() };
    let (sent, arrived) = while_sending(&pair, || {
        let moves = || {
            let shaping = Shaping::start(&kernel, &options).unwrap();
            assert!(shaping.in_kernel().is_none() && shaping.awaits_kernel());
            later.loading.store(0, Ordering::Relaxed);
            let left = shaping.leave(Successor::Ready);
            assert!(left.is_some());
            let mut shaping = Shaping::start_from(&kernel, &options, left).unwrap();
            assert!(shaping.in_kernel().is_none() && shaping.awaits_kernel());
            std::thread::sleep(Duration::from_millis(50));
            assert!(taken(&shaping) > 0, "it shapes already");
            assert!(matches!(shaping.awaited(), Some(Ok(()))));
            move_to(&mut shaping, &kernel);
            assert_eq!(shaping.in_kernel(), Some("tbf"));
            shaping.stop().unwrap();
        };
        pair.left.run(moves).unwrap();
    });
    assert!(sent > 20, "{sent}");
    all_in_order(sent, &arrived);
    Ended::Passed
}

/// While flows are being promised in a data path that is ready, the earlier one has the packets: they are not queued without a promise.
pub fn a_data_path_that_is_ready_takes_nothing_before_the_move() -> Ended {
    let (kernel, user) = (config("limit = \"1MB\"\n"), config("queue = { kind = \"fifo\", limit = \"1MB\" }\n"));
    let pair = Pair::new();
    let options = Options { offload: Some(Arc::new(Buckets)), ..Options::default() };
    let (sent, arrived) = while_sending(&pair, || {
        let moves = || {
            let mut shaping = Shaping::start(&kernel, &options).unwrap();
            let change = shaping.begin_move(&user).unwrap().expect("a data path that can be had");
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(taken(&shaping), 0, "before it has begun");
            shaping.finish_move(change).unwrap().expect("a data path that can be had");
            std::thread::sleep(Duration::from_millis(200));
            assert!(taken(&shaping) > 10);
            shaping.stop().unwrap();
        };
        pair.left.run(moves).unwrap();
    });
    assert!(sent > 100, "{sent}");
    all_in_order(sent, &arrived);
    Ended::Passed
}

/// Where the other data path cannot have what the earlier one has, that one goes on: with a reason where the file asks for the other, and
/// with a warning where that was a choice.
pub fn a_move_that_is_cancelled_leaves_the_traffic_where_it_is() -> Ended {
    let (kernel, user) = (config("limit = \"1MB\"\n"), config("queue = { kind = \"fifo\", limit = \"1MB\" }\n"));
    let pair = Pair::new();
    let options = Options { offload: Some(Arc::new(Buckets)), ..Options::default() };
    let (sent, arrived) = while_sending(&pair, || {
        let moves = || {
            let mut shaping = Shaping::start(&kernel, &options).unwrap();
            let change = shaping.begin_move(&user).unwrap().expect("a data path that can be had");
            let refused = shaping.cancel_move(change, "no room for a reservation".into()).expect_err("a reason");
            assert!(refused.to_string().contains("no room for a reservation"), "{refused}");
            assert_eq!(shaping.in_kernel(), Some("tbf"));
            move_to(&mut shaping, &user);
            let change = shaping.begin_move(&kernel).unwrap().expect("a data path that can be had");
            assert!(matches!(shaping.cancel_move(change, "no room there".into()), Ok(None)));
            assert_eq!(
                (shaping.in_kernel(), &shaping.warnings().to_vec()[..]),
                (None, &["no room there".to_owned()][..])
            );
            let before = taken(&shaping);
            std::thread::sleep(Duration::from_millis(200));
            assert!(taken(&shaping) > before);
            shaping.stop().unwrap();
        };
        pair.left.run(moves).unwrap();
    });
    assert!(sent > 20, "{sent}");
    all_in_order(sent, &arrived);
    Ended::Passed
}
