//! Finds the fenced blocks of a chapter, for tests.
//!
//! The first word after the fence is the language. The words after commas are attributes:
//!
//! * `toml,file:home.toml` is also written to that file, in the folder where the chapter's commands run.
//! * `toml,part` is a fragment of a file.
//! * `sh,root` needs privileges or a network, so it is only parsed.
//! * `sh,needs:ns` runs only if the program `ns` is installed.
//! * `sh,fails` contains commands of which the last one fails.
//! * `text,says` shows the output of the commands before it, with `...` in place of omitted lines.

/// A fenced block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The line number of its fence, counted from 1.
    pub line: usize,
    /// The language; empty when there is none.
    pub language: String,
    /// The attributes after the language.
    pub words: Vec<String>,
    /// The lines between the fences.
    pub text: String,
}

impl Block {
    /// Whether the fence has the attribute `word`.
    pub fn is(&self, word: &str) -> bool {
        self.words.iter().any(|own| own == word)
    }
    /// The program that its commands need, from the attribute `needs`.
    pub fn needs(&self) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix("needs:"))
    }
    /// The file name, from the attribute `file`.
    pub fn file(&self) -> Option<&str> {
        self.words.iter().find_map(|word| word.strip_prefix("file:"))
    }
}

/// Returns the fenced blocks of a Markdown text.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<(Block, String)> = None;
    for (n, line) in text.lines().enumerate() {
        let inside = line.trim_start();
        let ticks = inside.len() - inside.trim_start_matches('`').len();
        match &mut open {
            None if ticks >= 3 => {
                let mut words = inside[ticks..].split(',').map(|word| word.trim().to_owned());
                let language = words.next().unwrap_or_default();
                let block = Block { line: n + 1, language, words: words.collect(), text: String::new() };
                open = Some((block, "`".repeat(ticks)));
            }
            Some((_, fence)) if inside.starts_with(fence.as_str()) && inside.trim_matches('`').trim().is_empty() => {
                found.extend(open.take().map(|(block, _)| block));
            }
            Some((block, _)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            None => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_their_words_and_their_lines() {
        let text = "a\n```toml,file:x.toml\nb = 1\n```\n````md\n```\ninner\n```\n````\n";
        let found = blocks(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[0].language.as_str(), found[0].file()), (2, "toml", Some("x.toml")));
        assert_eq!(found[0].text, "b = 1\n");
        assert_eq!(found[1].text, "```\ninner\n```\n");
    }
}
