//! What a request's path and query mean.

use std::collections::HashMap;
use std::time::Duration;

use crate::error::ApiError;
use crate::kind::Kind;
use crate::selector::Selector;
use crate::watch::{Form, Watch};

/// A request for resources.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: String,
}

/// Finds what a path names; `None` when it is no resource path.
pub(crate) fn target(kinds: &[Kind], path: &str) -> Option<Target> {
    let parts: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (group, version, rest) = match parts.split_first()? {
        (&"api", rest) => ("", *rest.first()?, rest.get(1..)?),
        (&"apis", rest) => (*rest.first()?, *rest.get(1)?, rest.get(2..)?),
        _ => return None,
    };
    let find = |plural: &str| {
        kinds
            .iter()
            .find(|kind| kind.group == group && kind.version == version && kind.plural == plural)
            .cloned()
    };
    if let ["namespaces", namespace, plural, rest @ ..] = rest
        && let Some(kind) = find(plural).filter(|kind| kind.namespaced)
    {
        return target_of(kind, Some((*namespace).to_owned()), rest);
    }
    let (plural, rest) = rest.split_first()?;
    target_of(find(plural)?, None, rest)
}

fn target_of(kind: Kind, namespace: Option<String>, rest: &[&str]) -> Option<Target> {
    let (name, subresource) = match rest {
        [] => (None, ""),
        [name] => (Some((*name).to_owned()), ""),
        [name, "status"] if kind.status_subresource => (Some((*name).to_owned()), "status"),
        _ => return None,
    };
    Some(Target {
        kind,
        namespace,
        name,
        subresource: subresource.to_owned(),
    })
}

/// The query of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(HashMap<String, String>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key), decode(&value.replace('+', " ")))
                })
                .collect(),
        )
    }

    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    pub(crate) fn is_set(&self, key: &str) -> bool {
        matches!(self.get(key), "true" | "1")
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.get(key).parse().ok()
    }

    pub(crate) fn selector(&self) -> Result<Selector, ApiError> {
        Selector::parse(self.get("labelSelector"), self.get("fieldSelector"))
    }

    pub(crate) fn watch(&self, target: Target, form: Form) -> Result<Watch, ApiError> {
        let mut fields = self.get("fieldSelector").to_owned();
        if let Some(name) = &target.name {
            fields = format!("metadata.name={name},{fields}");
        }
        Ok(Watch {
            selector: Selector::parse(self.get("labelSelector"), &fields)?,
            kind: target.kind,
            namespace: target.namespace,
            bookmarks: self.is_set("allowWatchBookmarks"),
            initial: self.is_set("sendInitialEvents"),
            version: self.number("resourceVersion"),
            timeout: self.number("timeoutSeconds").map(Duration::from_secs),
            form,
        })
    }
}

/// Undoes percent encoding; what is no encoding stays as it is.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = text
            .get(at + 1..at + 3)
            .and_then(|pair| u8::from_str_radix(pair, 16).ok());
        match (bytes[at], pair) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
