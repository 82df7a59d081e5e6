//! [`Value`]: one number that was measured, with names and unit.

/// A measured value, with its subject and its measure.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// The variant of the scenario; empty where there are none.
    pub variant: String,
    /// The flow or link: `flow bulk`, `link r->b`.
    pub subject: String,
    /// The name of the quantity, with its unit.
    pub measure: String,
    /// Its unit, as machine output carries it: `bps`, `ns`, `packets`, `1`.
    pub unit: &'static str,
    /// The value in the unit of the quantity.
    pub value: f64,
}

impl Value {
    /// The subject for a table of all variants: `red: flow bulk`.
    pub fn label(&self) -> String {
        if self.variant.is_empty() { self.subject.clone() } else { format!("{}: {}", self.variant, self.subject) }
    }
}
