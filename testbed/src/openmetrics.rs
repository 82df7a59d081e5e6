//! A strict parser of the OpenMetrics text format 1.0, for tests: every MUST of the specification is checked.

use std::collections::{BTreeMap, HashSet};

/// A metric family.
#[derive(Debug, Default)]
pub struct Family {
    /// Its type.
    pub kind: String,
    /// Its description.
    pub help: String,
    /// Its samples, in their order.
    pub samples: Vec<Sample>,
}

/// A value of a family.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Its name, with the suffix.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its value.
    pub value: f64,
}

/// Parses an exposition; the error names the line and the violated rule.
pub fn parse(text: &str) -> Result<BTreeMap<String, Family>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("it does not end with # EOF and one newline")?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut open: Option<String> = None;
    let mut seen = HashSet::new();
    for (number, line) in body.split_terminator('\n').enumerate() {
        let fail = |why: &str| format!("line {}: {why}: {line}", number + 1);
        if line.is_empty() {
            return Err(fail("an empty line"));
        }
        if let Some(rest) = line.strip_prefix("# ") {
            let mut parts = rest.splitn(3, ' ');
            let (word, name, value) = (parts.next().unwrap(), parts.next(), parts.next());
            let name = name.filter(|name| is_name(name)).ok_or_else(|| fail("no name of a family"))?;
            let value = value.ok_or_else(|| fail("no value"))?;
            if open.as_deref() != Some(name) {
                if families.contains_key(name) {
                    return Err(fail("a family in two pieces"));
                }
                families.insert(name.into(), Family::default());
                open = Some(name.into());
            }
            let family = families.get_mut(name).expect("open");
            if !family.samples.is_empty() {
                return Err(fail("metadata behind samples"));
            }
            match word {
                "TYPE" if family.kind.is_empty() => match value {
                    "counter" | "gauge" | "histogram" | "info" => family.kind = value.into(),
                    _ => return Err(fail("an unknown type")),
                },
                "HELP" if family.help.is_empty() => {
                    family.help = unescape(value).ok_or_else(|| fail("a wrong escape"))?
                }
                "UNIT" if name.ends_with(&format!("_{value}")) => {}
                _ => {
                    return Err(fail("a word that is unknown, twice there, or a unit that the name does not end with"));
                }
            }
            continue;
        }
        if line.starts_with('#') {
            return Err(fail("a comment"));
        }
        let sample = sample(line).ok_or_else(|| fail("no sample"))?;
        let family_name = open.clone().ok_or_else(|| fail("a sample outside of a family"))?;
        let family = families.get_mut(&family_name).expect("open");
        let suffix = sample.name.strip_prefix(&family_name).ok_or_else(|| fail("a sample of another family"))?;
        let right = match family.kind.as_str() {
            "counter" => suffix == "_total" && sample.value >= 0.0 && sample.value.is_finite(),
            "gauge" => suffix.is_empty(),
            "info" => suffix == "_info" && sample.value == 1.0,
            "histogram" => match suffix {
                "_bucket" => sample.labels.contains_key("le"),
                "_count" | "_sum" => sample.value >= 0.0,
                _ => false,
            },
            _ => false,
        };
        if !right {
            return Err(fail("not a sample of this type"));
        }
        if !seen.insert((sample.name.clone(), format!("{:?}", sample.labels))) {
            return Err(fail("the same series twice"));
        }
        family.samples.push(sample);
    }
    for (name, family) in &families {
        if family.kind.is_empty() {
            return Err(format!("family {name} has no type"));
        }
        if family.kind == "counter" && name.ends_with("_total") {
            return Err(format!("the name of counter {name} ends with the suffix of its sample"));
        }
        if family.kind == "histogram" {
            histogram(name, family)?;
        }
    }
    Ok(families)
}

fn histogram(name: &str, family: &Family) -> Result<(), String> {
    /// Bounds with their counts, the count of all, whether there is a sum.
    type Series = (Vec<(f64, f64)>, Option<f64>, bool);
    let mut series: BTreeMap<String, Series> = BTreeMap::new();
    for sample in &family.samples {
        let mut labels = sample.labels.clone();
        let bound = labels.remove("le");
        let entry = series.entry(format!("{labels:?}")).or_default();
        if let Some(bound) = bound {
            let bound = number(&bound).ok_or(format!("{name}: {bound} is no bound"))?;
            entry.0.push((bound, sample.value));
        } else if sample.name.ends_with("_count") {
            entry.1 = Some(sample.value);
        } else {
            entry.2 = true;
        }
    }
    for (labels, (buckets, count, sum)) in series {
        let rising = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        let last = buckets.last().ok_or(format!("{name}: no bucket"))?;
        if !rising || last.0 != f64::INFINITY || Some(last.1) != count || !sum {
            return Err(format!("{name}{labels}: buckets {buckets:?}, count {count:?}, sum {sum}"));
        }
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

fn number(text: &str) -> Option<f64> {
    match text {
        "+Inf" => Some(f64::INFINITY),
        _ if text.chars().all(|c| c.is_ascii_digit() || "+-.eE".contains(c)) => text.parse().ok(),
        _ => None,
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next()? {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            },
            c => c,
        });
    }
    Some(out)
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        loop {
            if let Some(after) = inside.strip_prefix('}') {
                rest = after;
                break;
            }
            let (key, after) = inside.split_once("=\"")?;
            if !is_name(key) || key.contains(':') {
                return None;
            }
            let mut escaped = false;
            let close = after.char_indices().find(|&(_, c)| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            })?;
            let (value, after) = after.split_at(close.0);
            if labels.insert(key.to_owned(), unescape(value)?).is_some() {
                return None;
            }
            inside = &after[1..];
            inside = match inside.strip_prefix(',') {
                Some(more) if !more.starts_with('}') => more,
                Some(_) => return None,
                None if inside.starts_with('}') => inside,
                None => return None,
            };
        }
    }
    let value = rest.strip_prefix(' ')?;
    (is_name(name) && !value.contains(' ')).then_some(())?;
    Some(Sample { name: name.into(), labels, value: number(value)? })
}
