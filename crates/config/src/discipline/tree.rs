//! Classes that name their parents: the checks that `htb` and `hfsc` share.

use std::collections::HashSet;

use tidegate_core::tree::Node;
use tidegate_core::{ClassId, Packet, Qdisc};

use super::kinds::{Discipline, Inside};
use super::section::Site;
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};
use crate::suggest;

/// A class of a file with its place in the tree.
pub(super) trait Branch {
    fn name(&self) -> &Spanned<String>;
    fn parent(&self) -> Option<&Spanned<String>>;
    fn queue(&self) -> Option<&Spanned<Inside>>;
}

fn name<B: Branch>(class: &Spanned<B>) -> &str {
    &class.value.name().value
}

/// The classes that others name as their parent.
pub(super) fn inner<B: Branch>(classes: &[Spanned<B>]) -> HashSet<&str> {
    classes.iter().filter_map(|class| Some(class.value.parent()?.value.as_str())).collect()
}

/// The classes with a queue, in the order of the file, which is that of their numbers.
pub(super) fn leaves<B: Branch>(classes: &[Spanned<B>]) -> Vec<&str> {
    let inner = inner(classes);
    classes.iter().map(name).filter(|name| !inner.contains(name)).collect()
}

/// The number of the class of packets that match no rule.
pub(super) fn default_class<B: Branch>(classes: &[Spanned<B>], default: Option<&Spanned<String>>) -> Option<ClassId> {
    let at = leaves(classes).iter().position(|leaf| Some(*leaf) == default.map(|name| name.value.as_str()))?;
    Some(ClassId(at as u32))
}

/// The inner classes, each after its parent and with the parent's position; then the leaves in the order of the file.
/// Classes that are each other's ancestors are left out.
fn ordered<B: Branch>(classes: &[Spanned<B>]) -> Vec<(&Spanned<B>, Option<u32>)> {
    let inner = inner(classes);
    let mut done: Vec<(&Spanned<B>, Option<u32>)> = Vec::new();
    let mut left: Vec<_> = classes.iter().filter(|class| inner.contains(name(class))).collect();
    let mut positions = std::collections::HashMap::new();
    loop {
        let before = done.len();
        left.retain(|class| {
            let parent = class.value.parent().map(|parent| positions.get(parent.value.as_str()).copied());
            if parent == Some(None) {
                return true;
            }
            positions.insert(name(class), done.len() as u32);
            done.push((class, parent.flatten()));
            false
        });
        if done.len() == before {
            break;
        }
    }
    for class in classes.iter().filter(|class| !inner.contains(name(class))) {
        let parent = class.value.parent().and_then(|parent| positions.get(parent.value.as_str()).copied());
        done.push((class, parent));
    }
    done
}

/// Checks names, parents, queues and the default. Returns whether the tree can be built.
pub(super) fn check<B: Branch>(
    kind: &str,
    classes: &[Spanned<B>],
    default: Option<&Spanned<String>>,
    place: Place,
    diagnostics: &mut Diagnostics,
) -> bool {
    if classes.is_empty() {
        diagnostics
            .error(place, format!("{kind} without a class"))
            .help("write for example class = [{ name = \"all\" }]");
        return false;
    }
    let names: Vec<&str> = classes.iter().map(name).collect();
    let inner = inner(classes);
    let known: HashSet<&str> = names.iter().copied().collect();
    let mut seen = HashSet::new();
    let mut good = true;
    for class in classes {
        let own = class.value.name();
        if !seen.insert(own.value.as_str()) {
            diagnostics.error(own.place, format!("two classes are called `{}`", own.value)).label("again");
            good = false;
        }
        if let Some(parent) = class.value.parent().filter(|parent| !known.contains(parent.value.as_str())) {
            diagnostics
                .error(parent.place, format!("no class is called `{}`", parent.value))
                .label("not a class")
                .help(suggest::help(&parent.value, &names));
            good = false;
        }
        match class.value.queue() {
            Some(queue) if inner.contains(own.value.as_str()) => {
                diagnostics
                    .error(queue.place, format!("class `{}` has child classes, so it cannot have a queue", own.value))
                    .help("give the queue to its child classes");
                good = false;
            }
            Some(queue) => queue.value.0.check(queue.place, diagnostics),
            None => {}
        }
    }
    let ordered = ordered(classes);
    if good && ordered.len() < classes.len() {
        let placed: HashSet<&str> = ordered.iter().map(|(class, _)| name(class)).collect();
        let in_circle = |class: &&Spanned<B>| !placed.contains(name(class));
        if let Some(class) = classes.iter().find(in_circle) {
            diagnostics.error(class.value.name().place, "the parents of these classes form a circle");
        }
        good = false;
    }
    let leaves = leaves(classes);
    if let Some(default) = default.filter(|default| !leaves.contains(&default.value.as_str())) {
        diagnostics
            .error(default.place, format!("no class with a queue is called `{}`", default.value))
            .help(suggest::help(&default.value, &leaves));
        good = false;
    }
    good
}

/// The nodes of a tree that has been checked; `class` makes the parameters of each.
pub(super) fn nodes<B: Branch, C, P: Packet + 'static>(
    classes: &[Spanned<B>],
    class: impl Fn(&B) -> C,
    site: &Site,
) -> Vec<Node<C, Box<dyn Qdisc<P>>>> {
    let inner = inner(classes);
    let node = |(of, parent): (&Spanned<B>, _)| {
        if inner.contains(name(of)) {
            Node::inner(class(&of.value), parent)
        } else {
            Node::leaf(class(&of.value), parent, build_queue(&of.value, site))
        }
    };
    ordered(classes).into_iter().map(node).collect()
}

/// Builds the queue of a leaf: a FIFO of 1 MB if the file names none.
fn build_queue<B: Branch, P: Packet + 'static>(class: &B, site: &Site) -> Box<dyn Qdisc<P>> {
    let within = Site { name: format!("{}.{}", site.name, class.name().value), ..site.clone() };
    match class.queue() {
        Some(queue) => queue.value.0.build::<P>(&within),
        None => Discipline::plain().build(&within),
    }
}
