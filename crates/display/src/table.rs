//! Tables: columns with an alignment, and rows of cells.

/// A table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    /// The caption.
    pub caption: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, each with as many cells as there are columns. The first cell names its row.
    pub rows: Vec<Vec<Cell>>,
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// The alignment of its cells.
    pub align: Align,
    /// Its place in the order in which columns are left out of [text](Table::text) that is too wide; `None`: never.
    pub optional: Option<usize>,
    /// The width in characters to which its cells may be shortened in text, before a column is left out.
    pub least: Option<usize>,
}

/// The alignment of the cells of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// A cell of a table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// The assessment. It is never shown by colour alone: the text must contain it too.
    pub mood: Mood,
}

/// The assessment of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mood {
    /// None.
    #[default]
    Plain,
    /// As required.
    Good,
    /// Not as required.
    Bad,
    /// Unknown, or to be examined.
    Unsure,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), mood: Mood::Plain }
    }
}

impl Table {
    /// Returns an empty table. A column name that begins with `>` is right-aligned, for numbers.
    pub fn new<'a>(caption: impl Into<String>, columns: impl IntoIterator<Item = &'a str>) -> Self {
        let column = |name: &str| {
            let (name, align) = name.strip_prefix('>').map_or((name, Align::Left), |name| (name, Align::Right));
            Column { name: name.to_owned(), align, optional: None, least: None }
        };
        Self { caption: caption.into(), columns: columns.into_iter().map(column).collect(), rows: Vec::new() }
    }
    /// Removes those of the columns `named` in which no row has a value: in which every cell is empty or `-`.
    #[must_use]
    pub fn if_any<const N: usize>(mut self, named: [&str; N]) -> Self {
        for name in named {
            let Some(at) = self.columns.iter().position(|column| column.name == name) else { continue };
            if self.rows.iter().all(|row| matches!(row[at].text.as_str(), "" | "-")) {
                self.columns.remove(at);
                self.rows.iter_mut().for_each(|row| drop(row.remove(at)));
            }
        }
        self
    }
    /// Adds a row; missing cells are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), Cell::default());
        self.rows.push(row);
    }
}
