//! Edits change what they name, and no other byte.

use proptest::prelude::*;
use tidegate_config::edit::{self, Document, Edit, matching};
use tidegate_config::{Diagnostics, Source, shaper};
use tidegate_core::random::Stream;
use toml::{Table, Value};

const FILE: &str = "version = 1\n[shaper]\nrate = \"20mbit\"\n[[class]]\nname = \"calls\"\nrate = \"2mbit\"\n\
    [[class]]\nname = \"rest\"\nrate = \"8mbit\"\ndefault = true\n[[rule]]\nclass = \"calls\"\ndscp = \"ef\"\n";

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn shown(old: &str, new: &str) -> Vec<String> {
    let load = |text| {
        let (source, mut diagnostics) = (Source::new("shaper.toml", text), Diagnostics::new());
        shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)))
    };
    edit::differences(&load(old), &load(new)).iter().map(ToString::to_string).collect()
}

#[test]
fn a_difference_names_its_place() {
    let mut file = Document::parse(FILE).unwrap();
    assert_eq!(shown(FILE, file.text()), [""; 0]);
    file.set("class", Some("calls"), "rate", "3mbit").unwrap();
    file.set("class", Some("rest"), "priority", "3").unwrap();
    file.set("shaper", None, "rate", "").unwrap();
    file.add("class", &pairs(&[("name", "backup"), ("rate", "1mbit")])).unwrap();
    file.add("rule", &pairs(&[("class", "backup"), ("destination-port", "[873, 22]")])).unwrap();
    file.remove("rule", "2").unwrap();
    assert_eq!(
        shown(FILE, file.text()),
        [
            "class calls: rate 2mbit -> 3mbit",
            "+ class rest: priority 3",
            "+ class backup rate 1mbit",
            "- rule class calls, dscp ef",
            "+ rule class backup, destination-port [873, 22]",
            "- shaper: rate 20mbit",
        ]
    );
}

/// A rule with a name is the same rule before and after; without one a changed rule is another.
#[test]
fn a_rule_with_a_name_differs_in_its_keys() {
    let named = |name: &str, most: u32| {
        format!("{FILE}name = \"{name}\"\nat-most = \"{most}mbit\"\n[[rule]]\nclass = \"rest\"\nname = \"twin\"\n")
    };
    assert_eq!(shown(&named("tv", 8), &named("tv", 5)), ["rule tv: at-most 8mbit -> 5mbit"]);
    assert_eq!(shown(&named("tv", 8), &named("radio", 8)).len(), 2);
    // Two rules with one name cannot be told apart.
    assert_eq!(shown(&named("twin", 8), &named("twin", 5)).len(), 2);
    let (first, second) = ("[[rule]]\nclass = \"calls\"\nname = \"a\"\n", "[[rule]]\nclass = \"rest\"\nname = \"b\"\n");
    assert_eq!(shown(&format!("{FILE}{first}{second}"), &format!("{FILE}{second}{first}")), ["rules: another order"]);
}

#[test]
fn what_is_not_there_is_named() {
    let mut file = Document::parse(FILE).unwrap();
    let wrong = file.set("class", Some("call"), "rate", "3mbit").unwrap_err();
    assert!(wrong.contains("no class `call`") && wrong.contains("calls"), "{wrong}");
    let wrong = file.remove("rule", "7").unwrap_err();
    assert!(wrong.contains("no rule 7; there is one, number 1"), "{wrong}");
    assert!(file.set("class", None, "rate", "3mbit").unwrap_err().contains("`class` is not a table"));
    assert!(file.set("shaper", None, "rate.of", "3mbit").unwrap_err().contains("`rate` is not a table"));
    assert_eq!(file.text(), FILE);
}

#[test]
fn rules_can_be_named_and_a_class_that_they_use_stays() {
    let mut file = Document::parse(FILE).unwrap();
    file.add("rule", &pairs(&[("class", "calls"), ("name", "acks"), ("dscp", "cs6")])).unwrap();
    file.set("rule", Some("acks"), "class", "rest").unwrap();
    let added = shown(FILE, file.text());
    assert!(added.iter().any(|one| one.starts_with("+ rule class rest") && one.contains("acks")), "{added:?}");
    let wrong = file.set("rule", Some("ack"), "class", "rest").unwrap_err();
    assert!(wrong.contains("no rule `ack`") && wrong.contains("acks"), "{wrong}");
    let remove = |section: &str, name: &str| Edit::Remove { section: section.into(), name: name.into() };
    let used = file.edited(&[remove("class", "calls")]).unwrap_err();
    assert!(used.contains("rule 2 still uses the class `calls`"), "{used}");
    file.set("rule", Some("acks"), "class", "calls").unwrap();
    let used = file.edited(&[remove("class", "calls")]).unwrap_err();
    assert!(used.contains("rules 1 and 2 still use the class `calls`"), "{used}");
    // In one change with its rules it goes.
    assert!(file.edited(&[remove("class", "calls"), remove("rule", "acks"), remove("rule", "1")]).is_ok());
    file.remove("rule", "acks").unwrap();
    assert!(file.remove("rule", "acks").unwrap_err().contains("none has a name"));
    assert!(shown(FILE, file.text()).is_empty(), "{}", file.text());
    file.add("rule", &pairs(&[("class", "calls"), ("name", "twice")])).unwrap();
    file.add("rule", &pairs(&[("class", "rest"), ("name", "twice")])).unwrap();
    assert!(file.remove("rule", "twice").unwrap_err().contains("several rules have the name `twice`, as 1 and 2"));
}

#[test]
fn classes_of_a_discipline_are_found_there() {
    let text =
        "version = 1\n[discipline]\nkind = \"cbq\"\nlink = \"5mbit\"\nclass = [{ name = \"a\", rate = \"5mbit\" }]\n";
    let mut file = Document::parse(text).unwrap();
    file.set("class", Some("a"), "rate", "4mbit").unwrap();
    file.set("discipline", None, "link", "6mbit").unwrap();
    file.add("class", &pairs(&[("name", "b"), ("rate", "1mbit")])).unwrap();
    assert_eq!(
        shown(text, file.text()),
        ["class a: rate 5mbit -> 4mbit", "+ class b rate 1mbit", "discipline: link 5mbit -> 6mbit"]
    );
    assert!(
        file.text().ends_with("class = [{ name = \"a\", rate = \"4mbit\" }, { name = \"b\", rate = \"1mbit\" }]\n")
    );
    let mut headers = Document::parse("[discipline]\nkind = \"cbq\"\n").unwrap();
    headers.add("class", &pairs(&[("name", "a")])).unwrap();
    assert_eq!(headers.text(), "[discipline]\nkind = \"cbq\"\n\n[[discipline.class]]\nname = \"a\"\n");
}

/// One text after several edits, as people write files.
#[test]
fn an_edited_file_is_the_file_but_for_the_edits() {
    let old = r#"# The office.
version = 1

[shaper]            # one line up
  rate = "20mbit"   # measured
  # Below what the modem has.
  lead = "2ms"

# ---- classes ----

# Voice first.
[[class]]
name = "calls"
rate = "2mbit"
[class.queue]
kind = "fifo" # short

[[class]]
name = "rest"
rate = "8mbit"
default = true

# First match.
[[rule]]
class = "calls"
dscp = "ef"
# The end.
"#;
    let mut file = Document::parse(old).unwrap();
    file.set("shaper", None, "rate", "'30mbit'").unwrap();
    file.set("shaper", None, "lead", "").unwrap();
    file.set("shaper", None, "burst.size", "3kB").unwrap();
    file.set("class", Some("calls"), "queue.limit", "20kB").unwrap();
    file.set("class", Some("rest"), "queue", "{ kind = \"drr\" }").unwrap();
    file.add("class", &pairs(&[("name", "backup"), ("rate", "1mbit")])).unwrap();
    file.add("rule", &pairs(&[("class", "backup"), ("destination-port", "873")])).unwrap();
    let new = r#"# The office.
version = 1

[shaper]            # one line up
  rate = '30mbit'   # measured
  burst.size = "3kB"

# ---- classes ----

# Voice first.
[[class]]
name = "calls"
rate = "2mbit"
[class.queue]
kind = "fifo" # short
limit = "20kB"

[[class]]
name = "rest"
rate = "8mbit"
default = true
queue = { kind = "drr" }

[[class]]
name = "backup"
rate = "1mbit"

[[rule]]
class = "backup"
destination-port = 873

# First match.
[[rule]]
class = "calls"
dscp = "ef"
# The end.
"#;
    assert_eq!(file.text(), new);
    // A class with all that belongs to it, and a table that a value replaces.
    file.set("class", Some("calls"), "queue", "{ kind = \"sfq\" }").unwrap();
    assert!(file.text().contains("rate = \"2mbit\"\nqueue = { kind = \"sfq\" }\n\n[[class]]\nname = \"rest\""));
    file.remove("class", "calls").unwrap();
    assert!(file.text().contains("# ---- classes ----\n\n[[class]]\nname = \"rest\""), "{}", file.text());
    file.set("metrics", None, "listen", "127.0.0.1:9100").unwrap();
    assert!(file.text().ends_with("# The end.\n\n[metrics]\nlisten = \"127.0.0.1:9100\"\n"));
}

/// Where a preset runs, the example of `set` cannot work, and says what does.
#[test]
fn a_key_of_the_shaper_in_a_file_with_a_discipline_names_what_would_work() {
    const PRESET: &str = "version = 1\n[discipline]\nkind = \"cake\"\nrate = \"19mbit\"\n";
    let mut file = Document::parse(PRESET).unwrap();
    let refused = file.set("shaper", None, "rate", "20mbit").unwrap_err();
    assert_eq!(
        refused,
        "this configuration has no `shaper`, but a `discipline` of kind `cake`: write `set discipline rate 20mbit`"
    );
    assert_eq!(file.text(), PRESET);
    let refused = file.set("shaper", None, "fair-by", "host").unwrap_err();
    assert!(
        refused.ends_with("it has no `fair-by`; `set discipline KEY VALUE` changes `kind` and `rate`"),
        "{refused}"
    );
    file.set("discipline", None, "rate", "20mbit").unwrap();
    assert!(file.text().contains("rate = \"20mbit\""));
    // Other tables are made as before.
    file.set("metrics", None, "listen", "127.0.0.1:9435").unwrap();
    assert!(file.text().contains("[metrics]"));
    assert!(file.set("class", Some("calls"), "rate", "1mbit").unwrap_err().contains("has no `class`"));
}

#[test]
fn inline_lists_keep_their_lines() {
    let old = "rule = [\n  # calls\n  { class = \"a\" }, # first, of all\n  { class = \"b\", }, # second\n]\n";
    let edited = |work: &dyn Fn(&mut Document)| {
        let mut file = Document::parse(old).unwrap();
        work(&mut file);
        file.text().to_owned()
    };
    assert_eq!(edited(&|file| file.remove("rule", "1").unwrap()), "rule = [\n  { class = \"b\", }, # second\n]\n");
    assert_eq!(
        edited(&|file| file.remove("rule", "2").unwrap()),
        "rule = [\n  # calls\n  { class = \"a\" }, # first, of all\n]\n"
    );
    assert_eq!(
        edited(&|file| file.add("rule", &pairs(&[("class", "c")])).unwrap()),
        old.replace("  # calls", "  { class = \"c\" },\n  # calls")
    );
    assert_eq!(
        edited(&|file| file.set("rule", Some("2"), "mark", "7").unwrap()),
        old.replace("\"b\",", "\"b\", mark = 7,")
    );
    assert_eq!(edited(&|file| file.set("rule", Some("2"), "class", "").unwrap()), old.replace("class = \"b\",", ""));
}

#[test]
fn conditions_are_read_as_in_a_rule() {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let all = matching(&[pair("destination-port", "5000-5010"), pair("protocol", "udp")]).unwrap();
    assert_eq!(all.to_string(), "protocol udp destination-port 5000-5010");
    assert!(matching(&[pair("dport", "1")]).unwrap_err().contains("destination-port"));
    assert!(matching(&[pair("destination-port", "70000")]).is_err());
}

/// A file as people write them: comments, blank lines, spaces, all forms of tables, line breaks of both kinds.
struct Written {
    random: Stream,
    text: String,
    notes: usize,
}

impl Written {
    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.random.below(all.len() as u64) as usize]
    }
    fn chance(&mut self, of: u64) -> bool {
        self.random.below(of) == 0
    }
    /// Blank lines, and comments that belong to nothing: each must survive all edits.
    fn space(&mut self) {
        if self.chance(2) {
            self.text.push('\n');
            if self.chance(2) {
                self.notes += 1;
                self.text += &format!("# note {}, [x] = \"y\"\n\n", self.notes);
            }
        }
    }
    fn key(&mut self, key: &str, value: &str) {
        if self.chance(5) {
            self.text += "# about it\n";
        }
        let indent = self.one_of(&["", "", "", "  ", "\t"]);
        let equals = self.one_of(&[" = ", "=", "  =   "]);
        let comment = self.one_of(&["", "", "  # 'why', {not}", " "]);
        self.text += &format!("{indent}{key}{equals}{value}{comment}\n");
    }
    fn class(&mut self, prefix: &str, number: u64) {
        self.space();
        if self.chance(3) {
            self.text += "# A class.\n# Its [[class]] follows.\n";
        }
        let comment = self.one_of(&["", " # header"]);
        self.text += &format!("[[{prefix}class]]{comment}\n");
        let name = format!("\"c{number}\"");
        let value = self.one_of(&["\"1mbit\"", "'1mbit'", "\"\"\"\n# no comment\n1mbit\"\"\""]);
        if self.chance(2) {
            self.key("name", &name);
            self.key("rate", value);
        } else {
            self.key("rate", value);
            self.key("name", &name);
        }
        match self.random.below(5) {
            0 => self.key("queue", "{ kind = \"drr\" }"),
            1 => self.key("queue", "{\n  kind = \"drr\", # a comment, here\n  limit = \"1kB\",\n}"),
            2 => {
                self.key("queue.kind", "\"drr\"");
                self.key("queue.limit", "\"2kB\"");
            }
            3 => {
                self.space();
                self.text += &format!("[{prefix}class.queue]\n");
                self.key("kind", "\"drr\"");
                self.key("limit", "\"2kB\"");
            }
            _ => {}
        }
    }
    fn file(seed: u64) -> Self {
        let mut file = Self { random: Stream::named(seed, "file"), text: String::new(), notes: 0 };
        file.space();
        file.key("version", "1");
        let inside = file.chance(3);
        let prefix = if inside { "discipline." } else { "" };
        file.space();
        if inside {
            file.text += "[discipline]\n";
            file.key("link", "\"9mbit\"");
        } else {
            file.text += "[shaper]\n";
            file.key("link", "\"9mbit\"");
        }
        if file.chance(2) {
            file.key("early.weight", "0.1");
        }
        for number in 0..file.random.below(4) {
            file.class(prefix, number);
        }
        for number in 0..file.random.below(3) {
            file.space();
            file.text += "[[rule]]\n";
            file.key("class", &format!("\"c{number}\""));
        }
        file.space();
        if file.chance(4) && file.text.ends_with('\n') {
            file.text.pop();
        }
        if file.chance(3) {
            file.text = file.text.replace('\n', "\r\n");
        }
        if file.chance(4) {
            file.text.insert(0, '\u{feff}');
        }
        file
    }
}

/// Applies the same edits to a table instead of a text.
mod model {
    use super::{Table, Value};

    pub fn set(table: &mut Table, key: &str, value: Option<Value>) {
        match (key.split_once('.'), value) {
            (Some((first, rest)), value) => {
                let entry = table.entry(first.to_owned()).or_insert_with(|| Value::Table(Table::new()));
                set(entry.as_table_mut().unwrap(), rest, value);
            }
            (None, Some(value)) => drop(table.insert(key.to_owned(), value)),
            (None, None) => drop(table.remove(key)),
        }
    }
    pub fn list<'a>(root: &'a mut Table, section: &str) -> &'a mut Vec<Value> {
        let inside = section == "class" && root.contains_key("discipline");
        let table = if inside { root["discipline"].as_table_mut().unwrap() } else { root };
        table.entry(section.to_owned()).or_insert_with(|| Value::Array(Vec::new())).as_array_mut().unwrap()
    }
    /// Empty lists and tables are as good as none.
    pub fn plain(value: Value) -> Option<Value> {
        match value {
            Value::Table(table) => {
                let table: Table = table.into_iter().filter_map(|(k, v)| Some((k, plain(v)?))).collect();
                (!table.is_empty()).then_some(Value::Table(table))
            }
            Value::Array(list) if list.is_empty() => None,
            Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(plain).collect())),
            other => Some(other),
        }
    }
}

fn common(old: &str, new: &str) -> usize {
    let least = old.len().min(new.len());
    let front = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let back = old.bytes().rev().zip(new.bytes().rev()).take(least - front).take_while(|(a, b)| a == b).count();
    front + back
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_changes_what_it_names_and_nothing_else(seed in any::<u64>(), edit in 0..5_u8, pick in any::<u64>()) {
        let mut written = Written::file(seed);
        let old = written.text.clone();
        let mut model: Table = old.trim_start_matches('\u{feff}').parse().unwrap();
        let mut file = Document::parse(&old).unwrap();
        let section = if model.contains_key("discipline") { "discipline" } else { "shaper" };
        let classes: Vec<String> = model::list(&mut model, "class")
            .iter()
            .map(|class| class["name"].as_str().unwrap().to_owned())
            .collect();
        let class = classes.get(pick as usize % classes.len().max(1)).cloned();
        let key = written.one_of(&["rate", "queue.limit", "priority", "queue.kind", "queue"]);
        fn of<'a>(model: &'a mut Table, class: &str) -> &'a mut Table {
            let list = model::list(model, "class");
            let found = list.iter_mut().find(|one| one["name"].as_str() == Some(class));
            found.unwrap().as_table_mut().unwrap()
        }
        let removes = matches!(edit, 1 | 2) && class.is_some();
        match (edit, class) {
            (0, Some(class)) => {
                file.set("class", Some(&class), key, "7mbit").unwrap();
                model::set(of(&mut model, &class), key, Some(Value::String("7mbit".into())));
            }
            (1, Some(class)) => {
                file.set("class", Some(&class), key, "").unwrap();
                model::set(of(&mut model, &class), key, None);
            }
            (2, Some(class)) => {
                file.remove("class", &class).unwrap();
                model::list(&mut model, "class").retain(|one| one["name"].as_str() != Some(&class));
            }
            (3, _) => {
                let word = written.one_of(&["class", "rule"]);
                file.add(word, &pairs(&[("name", "new"), ("early.weight", "0.2")])).unwrap();
                let mut table = Table::new();
                model::set(&mut table, "name", Some(Value::String("new".into())));
                model::set(&mut table, "early.weight", Some(Value::Float(0.2)));
                let list = model::list(&mut model, word);
                list.insert(if word == "rule" { 0 } else { list.len() }, Value::Table(table));
            }
            _ => {
                let key = written.one_of(&["link", "early.weight", "early.spacing"]);
                file.set(section, None, key, "1").unwrap();
                model::set(model[section].as_table_mut().unwrap(), key, Some(Value::Integer(1)));
            }
        }
        let new = file.text();
        let read: Table = new.trim_start_matches('\u{feff}').parse().unwrap();
        prop_assert_eq!(model::plain(Value::Table(read)), model::plain(Value::Table(model)), "{}\n---\n{}", old, new);
        // One stretch of the text is another, except where a table with a header of its own becomes a value or is
        // removed, and where a file does not end with a line break.
        let same = common(&old, new);
        let header = old.contains("class.queue]");
        let several = key == "queue" && edit < 2 || edit == 2 && header || edit == 3 && !old.ends_with('\n');
        let value = "\"\"\"\r\n# no comment\r\n1mbit\"\"\"".len();
        let least = if removes { new.len() } else { old.len() - value };
        prop_assert!(several || same >= least, "{}\n---\n{}", old, new);
        for note in 1..=written.notes {
            prop_assert!(new.contains(&format!("# note {note}, ")), "{}\n---\n{}", old, new);
        }
        prop_assert_eq!(old.starts_with('\u{feff}'), new.starts_with('\u{feff}'));
        if old.contains("\r\n") {
            prop_assert_eq!(new.matches('\n').count(), new.matches("\r\n").count());
        }
    }
}

#[test]
fn an_added_rule_has_its_number_after_all_edits() {
    let rule = |class: &str| Edit::Add { section: "rule".into(), values: pairs(&[("class", class)]) };
    let class = Edit::Add { section: "class".into(), values: pairs(&[("name", "c"), ("rate", "1mbit")]) };
    let remove = |number: &str| Edit::Remove { section: "rule".into(), name: number.into() };
    assert_eq!(Document::added_rules(&[class, rule("a"), rule("b")]), [2, 1]);
    assert_eq!(Document::added_rules(&[rule("a"), rule("b"), remove("1")]), [1]);
    assert_eq!(Document::added_rules(&[rule("a"), remove("5")]), [1]);
    assert!(Document::added_rules(&[remove("1")]).is_empty());
}
