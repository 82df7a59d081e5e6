//! The interfaces of this machine, for people who did not name one.

use tidegate_live::rtnl::{Link, Rtnl};
use tidegate_live::uplink;

use super::setup::dialogue::Dialogue;
use crate::Failure;

/// The interfaces, the one with the default route first; and whether there is such a one.
///
/// # Errors
/// When the kernel does not list them.
pub fn list() -> Result<(Vec<Link>, bool), tidegate_live::netlink::Error> {
    let mut rtnl = Rtnl::open()?;
    let uplink = uplink::preferred(&mut rtnl).first().copied();
    let mut links: Vec<Link> = rtnl.links()?.into_iter().filter(|link| link.name != "lo").collect();
    links.sort_by_key(|link| (Some(link.index) != uplink, link.index));
    let has_uplink = links.first().is_some_and(|link| Some(link.index) == uplink);
    Ok((links, has_uplink))
}

/// The interface that somebody at a terminal chooses, by default that of the default route.
///
/// # Errors
/// Invalid usage with the list of interfaces and the command to copy, whose words are `words`, where nobody can be asked; or
/// the input has ended.
pub fn ask(words: &[String]) -> Result<String, Failure> {
    let dialogue = Dialogue::new(false);
    let links = list().map(|(links, _)| links).unwrap_or_default();
    if !dialogue.asks() || links.is_empty() {
        return Err(Failure::Usage(which(words)));
    }
    let text = which(words);
    // Without the command to copy: the answer makes it.
    message!("{}", text.split_once("\nfor example").map_or(text.as_str(), |(list, _)| list));
    loop {
        let answer = dialogue.ask("interface:", Some(&links[0].name))?;
        if links.iter().any(|link| link.name == answer) {
            return Ok(answer);
        }
        message!("there is no interface `{answer}`");
    }
}

/// The message for a command without an interface: which there are, and the command to copy, whose words are `words`.
pub fn which(words: &[String]) -> String {
    let ask = "which interface? Name one by --interface, or in the file";
    let Ok((links, has_uplink)) = list() else { return ask.into() };
    let mut text = String::from(ask);
    for (at, link) in links.iter().enumerate() {
        let kind = link.kind.as_deref().map_or(String::new(), |kind| format!(", {kind}"));
        let route = if at == 0 && has_uplink { "; the default route leaves by it" } else { "" };
        text.push_str(&format!("\n  {}: {}{kind}{route}", link.name, link.state));
    }
    match links.first() {
        Some(link) => {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            text.push_str(&format!("\nfor example: tidegate {} --interface {}", words.join(" "), link.name));
        }
        None => text.push_str("\nthere is none except the loopback interface"),
    }
    text
}
