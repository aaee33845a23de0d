//! Label and field selectors of list and watch requests.

use serde_json::Value;

use crate::error::ApiError;

/// One requirement.
#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    Equals(String, String),
    NotEquals(String, String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// What an object must be to be listed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

impl Selector {
    /// Reads `labelSelector` and `fieldSelector`.
    pub(crate) fn parse(labels: &str, fields: &str) -> Result<Self, ApiError> {
        Ok(Self {
            labels: requirements(labels)?,
            fields: requirements(fields)?,
        })
    }

    /// True when the object is all that.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| object["metadata"]["labels"][key].as_str().map(str::to_owned);
        let field = |path: &str| {
            let value = path.split('.').fold(object, |value, part| &value[part]);
            Some(value.as_str().map_or_else(
                || {
                    if value.is_null() {
                        String::new()
                    } else {
                        value.to_string()
                    }
                },
                str::to_owned,
            ))
        };
        self.labels.iter().all(|one| one.holds(&label)) && self.fields.iter().all(|one| one.holds(&field))
    }
}

impl Requirement {
    fn holds(&self, get: &dyn Fn(&str) -> Option<String>) -> bool {
        match self {
            Self::Equals(key, value) => get(key).as_ref() == Some(value),
            Self::NotEquals(key, value) => get(key).as_ref() != Some(value),
            Self::In(key, values) => get(key).is_some_and(|value| values.contains(&value)),
            Self::NotIn(key, values) => get(key).is_none_or(|value| !values.contains(&value)),
            Self::Exists(key) => get(key).is_some(),
            Self::Absent(key) => get(key).is_none(),
        }
    }
}

fn requirements(text: &str) -> Result<Vec<Requirement>, ApiError> {
    split_outside_parentheses(text)
        .into_iter()
        .map(|part| requirement(&part))
        .collect()
}

fn split_outside_parentheses(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts
        .into_iter()
        .map(|part| part.trim().to_owned())
        .filter(|part| !part.is_empty())
        .collect()
}

fn requirement(part: &str) -> Result<Requirement, ApiError> {
    let own = |text: &str| text.trim().to_owned();
    if let Some((key, values)) = part.split_once('(') {
        let values = values.trim_end_matches(')').split(',').map(own).collect();
        let words: Vec<&str> = key.split_whitespace().collect();
        return match words[..] {
            [key, "in"] => Ok(Requirement::In(own(key), values)),
            [key, "notin"] => Ok(Requirement::NotIn(own(key), values)),
            _ => Err(ApiError::bad_request(format!(
                "unable to parse requirement: {part:?}"
            ))),
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Requirement::NotEquals(own(key), own(value)));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Requirement::Equals(own(key), own(value)));
    }
    Ok(match part.strip_prefix('!') {
        Some(key) => Requirement::Absent(own(key)),
        None => Requirement::Exists(own(part)),
    })
}
