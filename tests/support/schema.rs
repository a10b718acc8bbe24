//! The part of JSON Schema that `docs/report.schema.json` uses.

use serde_json::Value;

/// Checks a report against the schema.
#[track_caller]
pub fn check(report: &Value) {
    let text = include_str!("../../docs/report.schema.json");
    let schema: Value = serde_json::from_str(text).unwrap();
    let found = faults(&schema, &schema, report, "report");
    assert!(found.is_empty(), "{found:#?}");
}

fn faults(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (word, rule) in schema.as_object().unwrap() {
        match word.as_str() {
            "$schema" | "$defs" | "title" | "description" | "required" | "additionalProperties" => {}
            "$ref" => {
                let pointer = rule.as_str().unwrap().trim_start_matches('#');
                found.extend(faults(root, root.pointer(pointer).unwrap(), value, at));
            }
            "const" if rule != value => found.push(format!("{at} is not {rule}")),
            "enum" if !rule.as_array().unwrap().contains(value) => found.push(format!("{at} is {value}")),
            "const" | "enum" => {}
            "anyOf" => {
                let ways: Vec<_> =
                    rule.as_array().unwrap().iter().map(|way| faults(root, way, value, at)).collect();
                if ways.iter().all(|way| !way.is_empty()) {
                    found.extend(ways.concat());
                }
            }
            "type" if !is_type(rule.as_str().unwrap(), value) => {
                found.push(format!("{at} is no {rule}: {value}"))
            }
            "type" => {}
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    found.extend(faults(root, rule, item, &format!("{at}[{i}]")));
                }
            }
            "properties" => {}
            other => panic!("the schema has a word that is not known here: {other}"),
        }
    }
    if let (Some("object"), Some(fields)) = (schema["type"].as_str(), value.as_object()) {
        let properties = schema["properties"].as_object();
        for (name, field) in fields {
            let at = format!("{at}.{name}");
            match properties
                .and_then(|properties| properties.get(name))
                .or(schema["additionalProperties"].as_object().map(|_| &schema["additionalProperties"]))
            {
                Some(rule) => found.extend(faults(root, rule, field, &at)),
                None => found.push(format!("{at} is not in the schema")),
            }
        }
        let required = schema["required"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap());
        found.extend(
            required.filter(|name| !fields.contains_key(*name)).map(|name| format!("{at} has no {name}")),
        );
    }
    found
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("a type that is not known here: {other}"),
    }
}
