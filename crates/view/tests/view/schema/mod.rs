//! A validator for the part of JSON Schema 2020-12 that `docs/report.schema.json` uses. A keyword
//! that it does not know is a fault, so that the schema cannot say more than is checked. (The
//! published validators bring forty crates for reference URLs that the schema has none of.)

use serde_json::Value;

/// Returns every fault of `value` against `schema`, with its path.
pub fn validate(schema: &Value, value: &Value) -> Vec<String> {
    let mut check = Check {
        root: schema,
        faults: Vec::new(),
    };
    check.value(schema, value, "$");
    check.faults
}

struct Check<'a> {
    root: &'a Value,
    faults: Vec<String>,
}

impl<'a> Check<'a> {
    /// Adds a fault at a path of the value.
    fn fault(&mut self, path: &str, what: String) {
        self.faults.push(format!("{path}: {what}"));
    }

    /// Checks a value against a schema.
    fn value(&mut self, schema: &'a Value, value: &Value, path: &str) {
        let Some(keywords) = schema.as_object() else {
            return self.fault(path, "schema is no object".to_owned());
        };
        for (keyword, rule) in keywords {
            match keyword.as_str() {
                "$schema" | "$id" | "$defs" | "title" | "description" => {}
                "$ref" => self.reference(rule, value, path),
                "type" => self.kind(rule, value, path),
                "const" => self.require(rule == value, path, || format!("is not {rule}")),
                "enum" => {
                    let listed = rule.as_array().is_some_and(|list| list.contains(value));
                    self.require(listed, path, || format!("{value} is none of {rule}"));
                }
                "minimum" => {
                    let enough = number(value)
                        .zip(number(rule))
                        .is_none_or(|(v, least)| v >= least);
                    self.require(enough, path, || format!("{value} is below {rule}"));
                }
                "maximum" => {
                    let small = number(value)
                        .zip(number(rule))
                        .is_none_or(|(v, most)| v <= most);
                    self.require(small, path, || format!("{value} is above {rule}"));
                }
                "minItems" | "maxItems" => self.length(keyword, rule, value, path),
                "items" => self.items(rule, value, path),
                "anyOf" => self.any_of(rule, value, path),
                "properties" => self.properties(rule, value, path),
                "required" => self.required(rule, value, path),
                "additionalProperties" => self.additional(schema, rule, value, path),
                other => self.fault(path, format!("schema uses unknown keyword {other}")),
            }
        }
    }

    /// Adds a fault unless the condition holds.
    fn require(&mut self, holds: bool, path: &str, what: impl Fn() -> String) {
        if !holds {
            self.fault(path, what());
        }
    }

    /// Checks a value against the schema that `$ref` names.
    fn reference(&mut self, rule: &Value, value: &Value, path: &str) {
        let pointer = rule
            .as_str()
            .and_then(|name| name.strip_prefix('#'))
            .unwrap_or_default();
        let root = self.root;
        match root.pointer(pointer).filter(|_| !pointer.is_empty()) {
            Some(schema) => self.value(schema, value, path),
            None => self.fault(path, format!("schema has no {rule}")),
        }
    }

    /// Checks the type of a value.
    fn kind(&mut self, rule: &Value, value: &Value, path: &str) {
        let is = |name: &Value| match name.as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("null") => value.is_null(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            _ => false,
        };
        let holds = rule
            .as_array()
            .map_or_else(|| is(rule), |names| names.iter().any(is));
        self.require(holds, path, || format!("{value} is no {rule}"));
    }

    /// Checks the smallest or largest number of elements.
    fn length(&mut self, keyword: &str, rule: &Value, value: &Value, path: &str) {
        let (Some(items), Some(limit)) = (value.as_array(), rule.as_u64()) else {
            return;
        };
        let holds = match keyword {
            "minItems" => items.len() as u64 >= limit,
            _ => items.len() as u64 <= limit,
        };
        self.require(holds, path, || {
            format!("has {} items, {keyword} {limit}", items.len())
        });
    }

    /// Checks all elements of a list.
    fn items(&mut self, rule: &'a Value, value: &Value, path: &str) {
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            self.value(rule, item, &format!("{path}[{index}]"));
        }
    }

    /// Demands that one of several schemas fits.
    fn any_of(&mut self, rule: &'a Value, value: &Value, path: &str) {
        let root = self.root;
        let fits = |schema: &'a Value| {
            let mut check = Check {
                root,
                faults: Vec::new(),
            };
            check.value(schema, value, path);
            check.faults.is_empty()
        };
        let holds = rule.as_array().is_some_and(|list| list.iter().any(fits));
        self.require(holds, path, || format!("{value} fits none of the choices"));
    }

    /// Checks the members of an object.
    fn properties(&mut self, rule: &'a Value, value: &Value, path: &str) {
        let (Some(rules), Some(object)) = (rule.as_object(), value.as_object()) else {
            return;
        };
        for (name, schema) in rules {
            if let Some(member) = object.get(name) {
                self.value(schema, member, &format!("{path}.{name}"));
            }
        }
    }

    /// Demands the members that an object must have.
    fn required(&mut self, rule: &Value, value: &Value, path: &str) {
        let Some(object) = value.as_object() else {
            return;
        };
        for name in rule
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
        {
            self.require(object.contains_key(name), path, || format!("lacks {name}"));
        }
    }

    /// Refuses members that the schema does not have.
    fn additional(&mut self, schema: &'a Value, rule: &'a Value, value: &Value, path: &str) {
        let known = schema.get("properties").and_then(Value::as_object);
        for (name, member) in value.as_object().into_iter().flatten() {
            if known.is_some_and(|known| known.contains_key(name)) {
                continue;
            }
            match rule {
                Value::Bool(true) => {}
                Value::Bool(false) => self.fault(path, format!("has unknown member {name}")),
                schema => self.value(schema, member, &format!("{path}.{name}")),
            }
        }
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

#[test]
fn faults_are_found() {
    let schema = serde_json::json!({
        "type": "object",
        "required": ["a"],
        "additionalProperties": false,
        "properties": {
            "a": {"$ref": "#/$defs/share"},
            "b": {"type": ["string", "null"]},
            "c": {"type": "array", "maxItems": 1, "items": {"enum": ["x"]}},
        },
        "$defs": {"share": {"type": "number", "minimum": 0, "maximum": 1}},
    });
    let faults = |value: serde_json::Value| validate(&schema, &value).len();
    assert_eq!(
        faults(serde_json::json!({"a": 0.5, "b": null, "c": ["x"]})),
        0
    );
    assert_eq!(faults(serde_json::json!({"a": 1.5})), 1);
    assert_eq!(faults(serde_json::json!({"b": 3, "z": 1})), 3);
    assert_eq!(faults(serde_json::json!({"a": 1, "c": ["x", "y"]})), 2);
    assert_eq!(
        validate(&serde_json::json!({"unheard": 1}), &Value::Null).len(),
        1
    );
}
