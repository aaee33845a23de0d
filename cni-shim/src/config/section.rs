//! Fields of a JSON object, read one by one so that an error can name the field.

use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::error::{Error, shown, shown_json};

/// Longest list of default pools; each is looked up for each pod.
const NAMES_MAX: usize = 1024;
/// Longest name of a pool, in bytes, wildcards included.
const NAME_MAX: usize = 253;

/// Fields are named with their full path, `ipam.log_level`; `null` counts as absent, as in Go.
pub(super) struct Section<'a> {
    object: Option<&'a Map<String, Value>>,
    read: Vec<&'static str>,
}

impl<'a> Section<'a> {
    pub(super) fn new(object: &'a Map<String, Value>) -> Self {
        Self {
            object: Some(object),
            read: Vec::new(),
        }
    }

    pub(super) fn empty() -> Self {
        Self {
            object: None,
            read: Vec::new(),
        }
    }

    pub(super) fn skip(&mut self, key: &'static str) {
        self.read.push(key);
    }

    /// Keys that nobody asked for, at most a dozen.
    pub(super) fn unread(&self) -> Vec<String> {
        let keys = self.object.into_iter().flat_map(Map::keys);
        keys.filter(|key| !self.read.contains(&key.as_str()))
            .take(12)
            .map(|key| shown(key))
            .collect()
    }

    fn get(&mut self, field: &'static str) -> Option<&'a Value> {
        let key = field.rsplit_once('.').map_or(field, |(_, key)| key);
        self.read.push(key);
        self.object?.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn text(&mut self, field: &'static str) -> Result<Option<&'a str>, Error> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(wrong(field, other, "it must be a string")),
        }
    }

    pub(super) fn path(&mut self, field: &'static str, default: &str, max: usize) -> Result<PathBuf, Error> {
        let path = self.text(field)?.unwrap_or(default);
        if !path.starts_with('/') || path.len() > max || path.contains('\0') {
            let remedy = format!("it must be an absolute path of at most {max} bytes");
            return Err(Error::Config {
                field,
                value: shown(path),
                remedy,
            });
        }
        Ok(PathBuf::from(path))
    }

    pub(super) fn boolean(&mut self, field: &'static str) -> Result<bool, Error> {
        match self.get(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(wrong(field, other, "it must be true or false, without quotes")),
        }
    }

    /// `None`: absent or negative, the default is meant.
    pub(super) fn limit(&mut self, field: &'static str) -> Result<Option<u32>, Error> {
        let Some(value) = self.get(field) else {
            return Ok(None);
        };
        let number = value
            .as_i64()
            .ok_or_else(|| wrong(field, value, "it must be a whole number"))?;
        if number < 0 {
            return Ok(None);
        }
        let number = u32::try_from(number);
        number
            .map(Some)
            .map_err(|_| wrong(field, value, "it must be less than 2^32"))
    }

    pub(super) fn names(&mut self, field: &'static str) -> Result<Vec<String>, Error> {
        const REMEDY: &str = "it must be a list of at most 1024 pool names";
        let Some(value) = self.get(field) else {
            return Ok(Vec::new());
        };
        let list = value.as_array().filter(|list| list.len() <= NAMES_MAX);
        let list = list.ok_or_else(|| wrong(field, value, REMEDY))?;
        let names = list.iter().map(|entry| {
            let name = entry
                .as_str()
                .filter(|name| !name.is_empty() && name.len() <= NAME_MAX);
            name.map(str::to_owned).ok_or_else(|| wrong(field, entry, REMEDY))
        });
        names.collect()
    }
}

fn wrong(field: &'static str, value: &Value, remedy: &str) -> Error {
    Error::Config {
        field,
        value: shown_json(Some(value)),
        remedy: remedy.to_owned(),
    }
}
