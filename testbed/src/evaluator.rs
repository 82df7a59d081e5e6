//! An evaluator of the part of JSON Schema that our schemas use, and a panic for any other.

use serde_json::{Map, Value, json};

/// Returns why `value` does not fit `schema`, or `None`.
pub fn misfit(value: &Value, schema: &Value, root: &Value, path: &str) -> Option<String> {
    let schema = schema.as_object().unwrap_or_else(|| panic!("{path}: a schema that is no object: {schema}"));
    schema.iter().find_map(|(keyword, rule)| misfit_of(value, keyword, rule, schema, root, path))
}

fn misfit_of(
    value: &Value,
    keyword: &str,
    rule: &Value,
    schema: &Map<String, Value>,
    root: &Value,
    path: &str,
) -> Option<String> {
    let fits = |schema: &Value| misfit(value, schema, root, path).is_none();
    match keyword {
        "$defs" | "$schema" | "title" | "description" | "examples" | "default" | "pattern" => None,
        "$ref" => {
            let pointer = rule.as_str().unwrap().trim_start_matches('#');
            let target = root.pointer(pointer).unwrap_or_else(|| panic!("{path}: {rule} leads nowhere"));
            misfit(value, target, root, path)
        }
        "type" => {
            let is = |name: &Value| match name.as_str().unwrap() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64() || value.is_u64(),
                "number" => value.is_number(),
                other => panic!("{path}: type {other}"),
            };
            let fits = rule.as_array().map_or_else(|| is(rule), |names| names.iter().any(is));
            (!fits).then(|| format!("{path}: {value} is not {rule}"))
        }
        "const" => (value != rule).then(|| format!("{path}: {value} is not {rule}")),
        "minimum" => (value.as_f64() < rule.as_f64()).then(|| format!("{path}: below {rule}")),
        "maximum" => (value.as_f64() > rule.as_f64()).then(|| format!("{path}: above {rule}")),
        "minItems" => {
            let short = value.as_array().is_some_and(|list| (list.len() as u64) < rule.as_u64().unwrap());
            short.then(|| format!("{path}: too short"))
        }
        "oneOf" => {
            let n = rule.as_array().unwrap().iter().filter(|one| fits(one)).count();
            (n != 1).then(|| format!("{path}: fits {n} of oneOf"))
        }
        "anyOf" => (!rule.as_array().unwrap().iter().any(fits)).then(|| format!("{path}: fits none of anyOf")),
        "items" => value.as_array()?.iter().find_map(|one| misfit(one, rule, root, &format!("{path}[]"))),
        "properties" => {
            let rule = rule.as_object().unwrap();
            value
                .as_object()?
                .iter()
                .find_map(|(key, value)| misfit(value, rule.get(key)?, root, &format!("{path}.{key}")))
        }
        "required" => {
            let object = value.as_object()?;
            let missing = rule.as_array().unwrap().iter().find(|key| !object.contains_key(key.as_str().unwrap()));
            missing.map(|key| format!("{path}: lacks {key}"))
        }
        "additionalProperties" => {
            assert_eq!(rule, &json!(false), "{path}");
            let known = schema["properties"].as_object().unwrap();
            let unknown = value.as_object()?.keys().find(|key| !known.contains_key(*key));
            unknown.map(|key| format!("{path}: unknown {key}"))
        }
        other => panic!("{path}: keyword {other}"),
    }
}
