//! wondershaper: its configuration file, or the arguments of the command.

use super::cake::Cake;
use super::{Import, ImportError, Input, is_interface, join, kbit, quoted, unquoted};
use crate::Source;

#[derive(Default)]
struct Found<'a> {
    interface: Option<(usize, &'a str)>,
    down: Option<(usize, &'a str)>,
    up: Option<(usize, &'a str)>,
}

/// Imports a configuration file of wondershaper (`IFACE`, `DSPEED`, `USPEED`), or a line that starts it. `interface` names
/// the interface, instead of the one in the file.
///
/// # Errors
/// With the line that is at fault.
pub fn wondershaper(source: &Source, interface: Option<&str>) -> Result<Import, ImportError> {
    let mut input = Input::new(source)?;
    let mut found = Found::default();
    for (at, line) in input.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') || line.starts_with('[') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(begin) = words.iter().position(|word| word.rsplit('/').next() == Some("wondershaper")) {
            arguments(&input, at, &words[begin + 1..], &mut found)?;
            continue;
        }
        let Some((name, value)) = line.split_once('=') else {
            let message = format!("{} is neither an assignment nor a command", quoted(line));
            return Err(input.error(at, message, "write the lines of wondershaper.conf, or its command"));
        };
        let value = unquoted(value);
        match name.trim() {
            "IFACE" => found.interface = Some((at, value)),
            "DSPEED" => found.down = Some((at, value)),
            "USPEED" => found.up = Some((at, value)),
            _ if matches!(value, "" | "()" | "(\"\")") => {}
            name @ ("HIPRIODST" | "HIPRIOSRC") => {
                let text = format!("{name}: hosts that go first; write a class with `priority` and a rule for them");
                input.leave(at, text);
            }
            name if name.starts_with("NOPRIO") => {
                let text = format!("{name}: traffic that comes last; write a class for it and a rule with its values");
                input.leave(at, text);
            }
            "COMMONOPTIONS" => input.leave(at, "COMMONOPTIONS: options of `tc`, which is not used"),
            name => input.leave(at, format!("{}: not a setting that is known here", quoted(name))),
        }
    }
    file(input, &found, interface)
}

/// Imports the arguments of wondershaper: `eth0 2048 512`, or `-a eth0 -d 2048 -u 512`.
///
/// # Errors
/// When they name no rate.
pub fn wondershaper_arguments(words: &[String], interface: Option<&str>) -> Result<Import, ImportError> {
    let source = Source::new("the arguments", words.join(" "));
    let input = Input::new(&source)?;
    let mut found = Found::default();
    let words: Vec<&str> = source.text().split_whitespace().collect();
    arguments(&input, 1, &words, &mut found)?;
    file(input, &found, interface)
}

fn arguments<'a>(input: &Input<'_>, at: usize, words: &[&'a str], found: &mut Found<'a>) -> Result<(), ImportError> {
    let help = "write `wondershaper -a eth0 -d 2048 -u 512`, rates in kbit/s";
    if let [interface, down, up] = words
        && !interface.starts_with('-')
    {
        (found.interface, found.down, found.up) = (Some((at, *interface)), Some((at, *down)), Some((at, *up)));
        return Ok(());
    }
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let place = match *word {
            "-a" => &mut found.interface,
            "-d" => &mut found.down,
            "-u" => &mut found.up,
            other => {
                let message = format!("{} is not an argument that sets up shaping", quoted(other));
                return Err(input.error(at, message, help));
            }
        };
        let value = words.next().ok_or_else(|| input.error(at, format!("`{word}` has no value"), help))?;
        *place = Some((at, *value));
    }
    Ok(())
}

fn file(mut input: Input<'_>, found: &Found<'_>, interface: Option<&str>) -> Result<Import, ImportError> {
    let name = interface.or(found.interface.map(|(_, name)| name));
    if let Some(name) = name.filter(|name| !is_interface(name)) {
        let line = found.interface.map_or(1, |(line, _)| line);
        return Err(input.error(line, format!("{} is not the name of an interface", quoted(name)), "choose another"));
    }
    let mut files = [None, None];
    for (file, (rate, hosts, direction)) in
        files.iter_mut().zip([(found.up, "source", "egress"), (found.down, "destination", "ingress")])
    {
        let Some((line, text)) = rate else { continue };
        let Some(rate) = kbit(text) else {
            return Err(input.error(line, format!("{} is not a rate", quoted(text)), "write it in kbit/s"));
        };
        if !rate.is_zero() {
            let tins = if direction == "egress" { "diffserv3" } else { "besteffort" };
            *file = Some(Cake { rate: Some(rate), hosts, tins, ..Cake::new() }.file(name, direction));
        }
    }
    let line = found.up.or(found.down).map_or(1, |(line, _)| line);
    let [up, down] = files;
    let Some(body) = join(up, down) else {
        return Err(input.error(line, "there is no rate", "set USPEED or DSPEED, in kbit/s"));
    };
    input.leave(line, "its classes: CAKE shares among hosts and connections, and short flows and calls go first");
    Ok(input.finish("wondershaper", &body))
}
