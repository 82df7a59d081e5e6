//! The lines that draw a tree of classes.

/// A class in the order of its tree.
pub struct Branch<'a> {
    pub name: &'a str,
    pub parent: Option<&'a str>,
    /// The lines before its name.
    pub lines: String,
}

/// The classes, given by name and parent, in the order of the tree: parents first.
pub fn branches<'a>(classes: &[(&'a str, Option<&'a str>)]) -> Vec<Branch<'a>> {
    let mut rows = Vec::new();
    // The classes still to be shown, the next one last: the class, its parent, and the prefix of its branch.
    let mut remaining = vec![(None, String::new())];
    while let Some((class, indent)) = remaining.pop() {
        let class: Option<(&'a str, Option<&'a str>, bool)> = class;
        let name = class.map(|(name, ..)| name);
        let mut below = indent.clone();
        if let Some((name, parent, last)) = class {
            rows.push(Branch { name, parent, lines: format!("{indent}{} ", if last { "└─" } else { "├─" }) });
            below += if last { "   " } else { "│  " };
        }
        let under: Vec<&str> = classes.iter().filter(|(_, parent)| *parent == name).map(|(name, _)| *name).collect();
        for (n, child) in under.iter().enumerate().rev() {
            remaining.push((Some((*child, name, n + 1 == under.len())), below.clone()));
        }
    }
    rows
}
