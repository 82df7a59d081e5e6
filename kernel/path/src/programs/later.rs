//! [`Loaded`]: programs that are loaded, and those that a thread is loading.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread;

use tidegate_engine::guard::lock;
use tidegate_engine::guarded;
use tidegate_live::shaping::StartError;

/// The programs of a process.
#[derive(Debug)]
pub(super) struct Loaded<P> {
    pub programs: Vec<Arc<P>>,
    /// The number of programs that a thread has not loaded yet.
    pub loading: usize,
    /// Why the last one could not be loaded.
    pub missing: Option<String>,
}

impl<P> Default for Loaded<P> {
    fn default() -> Self {
        Self { programs: Vec::new(), loading: 0, missing: None }
    }
}

impl<P> Loaded<P> {
    /// So many programs that fit and that nobody uses.
    ///
    /// # Errors
    /// [`StartError::KernelLoading`] while some may come, else [`StartError::NoKernelProgram`].
    pub fn free(&self, count: usize, fits: impl Fn(&P) -> bool) -> Result<Vec<Arc<P>>, StartError> {
        let free = self.programs.iter().filter(|program| Arc::strong_count(program) == 1 && fits(program));
        let free: Vec<_> = free.take(count).cloned().collect();
        if free.len() == count {
            return Ok(free);
        }
        Err(match (&self.missing, self.loading) {
            (_, 1..) => StartError::KernelLoading,
            (Some(why), 0) => StartError::NoKernelProgram(why.clone()),
            (None, 0) => StartError::NoKernelProgram("no program was loaded for it at the start".into()),
        })
    }
}

/// Calls `begin` and then `load` for each of `wanted` in a thread of its own. What it loads is dropped if `all` has gone.
///
/// # Errors
/// When there is no such thread.
pub(super) fn load<P: Send + Sync + 'static, W: Send + 'static>(
    all: &Arc<Mutex<Loaded<P>>>,
    wanted: Vec<W>,
    begin: impl FnOnce() + Send + 'static,
    mut load: impl FnMut(&W) -> Result<P, String> + Send + 'static,
) -> io::Result<()> {
    let (number, those) = (wanted.len(), Arc::downgrade(all));
    lock(all).loading += number;
    let run = move || {
        begin();
        for one in wanted {
            if those.strong_count() == 0 {
                return;
            }
            let loaded = guarded(|| load(&one)).and_then(|loaded| loaded);
            let Some(all) = those.upgrade() else { return };
            let mut all = lock(&all);
            all.loading -= 1;
            match loaded {
                Ok(program) => all.programs.push(Arc::new(program)),
                Err(why) => all.missing = Some(why),
            }
        }
    };
    let started = thread::Builder::new().name("kernel-loader".into()).spawn(run);
    started.map(drop).inspect_err(|error| {
        let mut all = lock(all);
        all.loading -= number;
        all.missing = Some(error.to_string());
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::{Duration, Instant};

    use super::*;

    /// Tells when it is closed.
    struct Program {
        name: &'static str,
        closed: Sender<&'static str>,
    }

    impl Drop for Program {
        fn drop(&mut self) {
            let _ = self.closed.send(self.name);
        }
    }

    struct Stage {
        all: Arc<Mutex<Loaded<Program>>>,
        /// Ends the verification that is going on.
        verified: Sender<Result<(), &'static str>>,
        closed: Receiver<&'static str>,
    }

    impl Stage {
        /// Programs of these names are being loaded, each until its verification ends.
        fn new(names: &[&'static str]) -> Self {
            let all = Arc::default();
            let (verified, verification) = channel::<Result<(), &str>>();
            let (closes, closed) = channel();
            let load_one = move |name: &&'static str| {
                let outcome = verification.recv().map_err(|_| "nobody waits".to_owned())?;
                assert_ne!(outcome, Err("a panic"));
                outcome.map(|()| Program { name, closed: closes.clone() }).map_err(str::to_owned)
            };
            load(&all, names.to_vec(), || {}, load_one).unwrap();
            Self { all, verified, closed }
        }

        fn free(&self, name: &str) -> Result<Arc<Program>, StartError> {
            lock(&self.all).free(1, |program| program.name == name).map(|mut free| free.remove(0))
        }

        fn loading(&self) -> usize {
            lock(&self.all).loading
        }

        fn end_one(&self, outcome: Result<(), &'static str>) {
            let before = self.loading();
            self.verified.send(outcome).unwrap();
            let began = Instant::now();
            while self.loading() == before {
                assert!(began.elapsed() < Duration::from_secs(10), "the thread goes on");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn each_program_can_be_had_once_it_is_loaded_and_by_one_at_a_time() {
        let stage = Stage::new(&["up", "down"]);
        assert_eq!(stage.loading(), 2);
        assert!(matches!(stage.free("up"), Err(StartError::KernelLoading)));
        stage.end_one(Ok(()));
        let up = stage.free("up").unwrap();
        assert!(matches!(stage.free("up"), Err(StartError::KernelLoading)), "another may come that fits");
        assert!(matches!(stage.free("down"), Err(StartError::KernelLoading)));
        stage.end_one(Ok(()));
        assert_eq!(stage.loading(), 0);
        drop(stage.free("down").unwrap());
        assert!(matches!(stage.free("up"), Err(StartError::NoKernelProgram(_))), "it is in use");
        drop(up);
        stage.free("up").unwrap();
    }

    #[test]
    fn several_can_be_had_once_all_of_them_are_loaded() {
        let stage = Stage::new(&["up", "down", "up"]);
        let two = || lock(&stage.all).free(2, |program| program.name == "up");
        stage.end_one(Ok(()));
        stage.end_one(Ok(()));
        assert!(matches!(two(), Err(StartError::KernelLoading)));
        stage.end_one(Ok(()));
        let taken = two().unwrap();
        assert!(!Arc::ptr_eq(&taken[0], &taken[1]));
        assert!(matches!(two(), Err(StartError::NoKernelProgram(_))), "they are in use");
    }

    #[test]
    fn one_that_is_refused_or_whose_loading_panics_is_awaited_no_longer() {
        let stage = Stage::new(&["up", "down", "other"]);
        stage.end_one(Err("the verifier refuses it"));
        assert!(matches!(stage.free("up"), Err(StartError::KernelLoading)));
        stage.end_one(Ok(()));
        stage.free("down").unwrap();
        stage.end_one(Err("a panic"));
        match stage.free("up") {
            Err(StartError::NoKernelProgram(why)) => assert!(why.contains("a panic"), "{why}"),
            other => panic!("{:?}", other.map(|program| program.name)),
        }
    }

    #[test]
    fn what_nobody_wants_any_more_is_closed_and_the_rest_is_not_loaded() {
        let stage = Stage::new(&["up", "down", "other"]);
        stage.end_one(Ok(()));
        let Stage { all, verified, closed } = stage;
        drop(all);
        assert_eq!(closed.recv_timeout(PATIENCE), Ok("up"), "its process has ended with it");
        // The one that was being verified.
        verified.send(Ok(())).unwrap();
        assert_eq!(closed.recv_timeout(PATIENCE), Ok("down"));
        // The thread has ended, and with it the last one that could load.
        assert!(closed.recv_timeout(PATIENCE).is_err());
        assert!(verified.send(Ok(())).is_err());
    }
}
