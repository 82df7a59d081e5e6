//! JSON Schema (2020-12) of everything that can be decoded, from the same declarations.

mod reference;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use reference::reference;

/// The definitions of a schema under construction.
#[derive(Debug, Default)]
pub struct Schemas {
    definitions: BTreeMap<&'static str, (&'static str, Value)>,
}

impl Schemas {
    /// Returns a reference to the definition `name` of type `T`, which `build` makes if it does not exist yet.
    ///
    /// # Panics
    /// If two types have one name. That is a mistake in a declaration, which any test of the schema finds.
    pub fn define<T>(&mut self, name: &'static str, build: impl FnOnce(&mut Self) -> Value) -> Value {
        let type_name = std::any::type_name::<T>();
        match self.definitions.get(name) {
            Some((owner, _)) => assert_eq!(*owner, type_name, "two types are called `{name}` in the schema"),
            None => {
                // The place is taken first, so that a definition may refer to itself.
                self.definitions.insert(name, (type_name, Value::Null));
                let built = build(self);
                self.definitions.insert(name, (type_name, built));
            }
        }
        json!({ "$ref": format!("#/$defs/{}", slug(name)) })
    }
}

/// The whole schema of a file whose outermost table `object` describes: [`Record::object`](crate::Record::object).
pub fn document(title: &str, object: impl FnOnce(&mut Schemas) -> Value) -> Value {
    let mut schemas = Schemas::default();
    let root = object(&mut schemas);
    let mut document = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "title": title });
    if let (Some(document), Value::Object(root)) = (document.as_object_mut(), root) {
        document.extend(root);
        let definitions = schemas.definitions.into_iter().map(|(name, (_, value))| (slug(name), value));
        document.insert("$defs".into(), Value::Object(definitions.collect()));
    }
    document
}

/// `name` in a form that needs no escapes in a reference.
fn slug(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
}

/// `schema` with the documentation and the default of a field.
pub fn describe(mut schema: Value, doc: &[&str], default: Option<Value>) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        let text = paragraph(doc);
        if !text.is_empty() {
            schema.insert("description".into(), text.into());
        }
        if let Some(default) = default {
            schema.insert("default".into(), default);
        }
    }
    schema
}

/// Lines of a documentation comment as running text.
pub fn paragraph(doc: &[&str]) -> String {
    doc.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ").trim().to_owned()
}
