//! Puts configurations in force in the data paths of directions, with what follows the configuration.

use tidegate_config::shaper::Config;
use tidegate_control::protocol::{Code, Refusal};
use tidegate_engine::{SwapKind, SwapReport};
use tidegate_live::shaping::{Shaping, StartError};

use super::{Followers, invalid};
use crate::directions::{ShapedDirection, not_in_force};

/// The directions that were changed: the configuration before, and the effect of the change.
pub(super) type Changed = (Vec<(usize, Config)>, Vec<SwapReport>);

/// Puts several configurations in force: all of them, or none.
pub(super) fn change_all(
    directions: &mut [ShapedDirection],
    followers: &mut Followers<'_>,
    changes: Vec<(usize, Config)>,
) -> Result<Changed, Refusal> {
    let (mut before, mut swapped) = (Vec::new(), Vec::new());
    for (at, config) in changes {
        let old = directions[at].config.clone();
        match change(directions, followers, at, config) {
            Ok(report) => {
                before.push((at, old));
                swapped.push(report);
            }
            Err(refusal) => {
                for (at, old) in before {
                    if let Err(error) = change(directions, followers, at, old) {
                        let name = &directions[at].name;
                        followers
                            .notifier
                            .log(&format!("{name} stays changed, because the change cannot be undone: {error}"));
                    }
                }
                return Err(refusal);
            }
        }
    }
    Ok((before, swapped))
}

/// Puts a configuration in force, with everything that follows it.
pub(super) fn change(
    directions: &mut [ShapedDirection],
    followers: &mut Followers<'_>,
    at: usize,
    config: Config,
) -> Result<SwapReport, Refusal> {
    let shaping = directions[at].shaping_mut().ok_or_else(not_in_force)?;
    let outcome = match shaping.moves(&config) {
        Ok(true) => move_to(directions, followers, at, config),
        Ok(_) => reconfigure(directions, followers, at, config),
        Err(error) => Err(error),
    };
    if outcome.is_ok() {
        followers.follow_config(directions);
    }
    followers.notifier.names_changed(at, &directions[at]);
    outcome.map_err(|error| match error {
        StartError::Change(text) => invalid(text),
        StartError::Build(failure) => invalid(failure.to_string()),
        error => Refusal::new(Code::Failed, format!("{error}; the previous configuration is in force again")),
    })
}

/// Moves the traffic of directions to the kernel path that has been loaded meanwhile.
pub(super) fn move_to_loaded(directions: &mut [ShapedDirection], followers: &mut Followers<'_>) {
    for at in 0..directions.len() {
        let Some(ready) = directions[at].awaited() else { continue };
        let config = directions[at].config.clone();
        let stays = match ready {
            Ok(()) => change(directions, followers, at, config).err().map(|refusal| refusal.to_string()),
            Err(error) => Some(error.reason()),
        };
        if let Some(why) = stays {
            let name = &directions[at].name;
            followers.notifier.log(&format!("{name}: {why}"));
        }
    }
}

/// Has another data path take the place of the one of a direction. It is given promises and reservations before it takes packets.
fn move_to(
    directions: &mut [ShapedDirection],
    followers: &mut Followers<'_>,
    at: usize,
    config: Config,
) -> Result<SwapReport, StartError> {
    // Until it has ended on purpose.
    followers.supervisor.unwatch(at);
    let moved = try_to_move(directions, followers, at, &config);
    followers.supervisor.watch(at, &directions[at]);
    match moved? {
        Some(report) => Ok(report),
        None => {
            followers.warn(&directions[at]);
            reconfigure(directions, followers, at, config)
        }
    }
}

/// As [`move_to`]; `None` where the data path that runs is to change its configuration.
fn try_to_move(
    directions: &mut [ShapedDirection],
    followers: &mut Followers<'_>,
    at: usize,
    config: &Config,
) -> Result<Option<SwapReport>, StartError> {
    let shaping = running(directions, at)?;
    let Some(change) = shaping.begin_move(config)? else { return Ok(None) };
    let (made, why) = match followers.reservations.move_to(shaping, at) {
        Ok(made) => (made, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let finish = |shaping: &mut Shaping| match why {
        None => shaping.finish_move(change),
        Some(why) => shaping.cancel_move(change, why),
    };
    let moved = with_promises(directions, followers, at, config.clone(), true, finish)?;
    if moved.is_some() {
        made.into_iter().for_each(|(number, made)| followers.reservations.renew(number, made));
        followers.moved(directions, at);
    }
    Ok(moved)
}

/// Gives a direction a configuration that `finish` puts in force, and makes its promises again before that where flows `lose` what
/// was promised to them. Promises for which there is no room end. When `finish` fails or puts nothing in force, the earlier
/// configuration stays.
fn with_promises<T>(
    directions: &mut [ShapedDirection],
    followers: &mut Followers<'_>,
    at: usize,
    config: Config,
    lose: bool,
    finish: impl FnOnce(&mut Shaping) -> Result<Option<T>, StartError>,
) -> Result<Option<T>, StartError> {
    let before = std::mem::replace(&mut directions[at].config, config);
    let (promises, notifier) = (&mut *followers.promises, followers.notifier);
    let refused = if lose { promises.make_again(directions, notifier, at) } else { Vec::new() };
    let finished = running(directions, at).and_then(finish);
    if matches!(finished, Ok(Some(_))) {
        promises.end(directions, notifier, refused);
    } else {
        directions[at].config = before;
    }
    finished
}

/// The data path of a direction.
fn running(directions: &mut [ShapedDirection], at: usize) -> Result<&mut Shaping, StartError> {
    directions[at].shaping_mut().ok_or_else(|| StartError::DataPath("it is not running".into()))
}

/// Exchanges the configuration of a data path. Where flows lose what was promised to them, they get it again before the proof,
/// during which packets pass.
fn reconfigure(
    directions: &mut [ShapedDirection],
    followers: &mut Followers<'_>,
    at: usize,
    config: Config,
) -> Result<SwapReport, StartError> {
    let (swapped, change) = running(directions, at)?.begin_change(&config, Some(&config.text))?;
    let lose = swapped.how != SwapKind::InPlace;
    let prove = |shaping: &mut Shaping| shaping.prove_change(change).map(Some);
    let proven = with_promises(directions, followers, at, config, lose, prove);
    if proven.is_err() && lose {
        followers.promises.reinstate(directions, followers.notifier, at);
    }
    proven.map(|_| swapped)
}
