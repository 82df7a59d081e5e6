//! Warnings about rates that a kind of link sharing does not guarantee.

use tidegate_core::cbq::{Borrow, Heuristic};

use super::{CbqClass, CbqQueue, Sharing};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};
use crate::discipline::Section;

/// A class with a queue, or all reservations.
struct Sharer<'a> {
    name: String,
    place: Place,
    priority: u8,
    /// The class and its ancestors, lowest first, and whether each may borrow.
    above: Vec<(&'a str, Borrow)>,
    reserved: bool,
}

impl CbqQueue {
    /// Warns of classes that do not get their rates under the chosen guideline: where a class may borrow although
    /// another is unsatisfied, priorities decide alone.
    pub(super) fn check_sharing(&self, diagnostics: &mut Diagnostics) {
        let sharing = match (self.sharing, self.heuristic) {
            (Sharing::AncestorOnly, _) => "`sharing = \"ancestor-only\"`",
            (Sharing::TopLevel, Heuristic::Floyd1995) => "`sharing = \"top-level\"` with `heuristic = \"floyd\"`",
            (Sharing::Formal, _) | (Sharing::TopLevel, Heuristic::Altq) => return,
        };
        let leaves = self.sharers();
        for borrower in &leaves {
            // It can starve only classes below the ancestor that it borrows from.
            let reach = borrower.above.iter().take_while(|(_, borrow)| *borrow == Borrow::FromParent).count();
            if reach == 0 {
                continue;
            }
            let lender = borrower.above.get(reach).map(|(name, _)| *name);
            let holds =
                |sharer: &&Sharer<'_>| lender.is_none_or(|lender| sharer.above.iter().any(|(name, _)| *name == lender));
            let behind = leaves.iter().filter(|sharer| sharer.priority > borrower.priority);
            let starved: Vec<&Sharer<'_>> = behind.filter(holds).collect();
            let Some(first) = starved.first() else { continue };
            let names: Vec<_> = starved.iter().map(|sharer| sharer.name.as_str()).collect();
            let rates = if names.len() == 1 && !first.reserved { "its rate" } else { "their rates" };
            let (borrows, goes) =
                if borrower.reserved { ("borrow", "go first, with") } else { ("borrows", "goes first, with") };
            diagnostics
                .warning(
                    first.place,
                    format!(
                        "under {sharing} {} can get less than {rates} while {} {borrows}",
                        names.join(", "),
                        borrower.name
                    ),
                )
                .label("its rate is not assured")
                .related(borrower.place, format!("{goes} priority {}, and may borrow", borrower.priority))
                .help("`sharing = \"formal\"` keeps every rate; or give both the same priority, or the other borrow = \"never\"");
            return;
        }
    }

    /// The classes with queues, and the reservations, which have queues as soon as there are some.
    fn sharers(&self) -> Vec<Sharer<'_>> {
        let leaves = self.classes();
        let is_leaf = |class: &&Spanned<CbqClass>| leaves.contains(&class.name.value.as_str());
        let chain = |class| self.ancestors(class).into_iter().map(|up| (up.name.value.as_str(), up.borrow)).collect();
        let classes = self.class.iter().filter(is_leaf).map(|class| Sharer {
            name: format!("`{}`", class.name.value),
            place: class.name.place,
            priority: class.priority.value,
            above: chain(&class.value),
            reserved: false,
        });
        let reserved = self.reservations.as_ref().and_then(|section| {
            let parent = self.class.iter().find(|class| class.name.value == section.class.value)?;
            let mut above: Vec<_> = chain(&parent.value);
            // A name that no class has.
            above.insert(0, ("", section.borrow));
            let priority = section.priority.value;
            Some(Sharer { name: "reservations".into(), place: section.place, priority, above, reserved: true })
        });
        classes.chain(reserved).collect()
    }
}
