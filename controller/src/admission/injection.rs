//! Whose pods get resources injected: `podResourceInject` of `conf.yml`. Pure.

use orbweaver_api::config::PodResourceInject;
use serde_json::{Value, json};

/// Namespaces that are never touched: a cluster must come up without us.
const NEVER: &[&str] = &["kube-system", "kube-public", "kube-node-lease"];
/// The label that every namespace has.
const NAME: &str = "kubernetes.io/metadata.name";

/// Which namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injection {
    enabled: bool,
    /// Empty: all.
    include: Vec<String>,
    exclude: Vec<String>,
}

impl Injection {
    /// What the file says. `own` is the controller's namespace: its pods must start without its webhook.
    pub fn new(file: &PodResourceInject, own: &str) -> Self {
        let never = NEVER.iter().map(|name| (*name).to_owned());
        let mut exclude: Vec<String> = never
            .chain([own.to_owned()])
            .chain(file.namespaces_exclude.iter().cloned())
            .filter(|name| !name.is_empty())
            .collect();
        exclude.sort();
        exclude.dedup();
        Self {
            enabled: file.enabled,
            include: file.namespaces_include.clone(),
            exclude,
        }
    }

    /// Whether anything is injected anywhere.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether pods of a namespace are looked at. What is excluded stays so, included or not.
    pub fn concerns(&self, namespace: &str) -> bool {
        let has = |list: &[String]| list.iter().any(|one| one == namespace);
        self.enabled && !has(&self.exclude) && (self.include.is_empty() || has(&self.include))
    }

    /// The same as a `namespaceSelector`: API servers do not even ask about other namespaces.
    pub fn selector(&self) -> Value {
        let mut expressions = vec![json!({ "key": NAME, "operator": "NotIn", "values": self.exclude })];
        if !self.include.is_empty() {
            expressions.push(json!({ "key": NAME, "operator": "In", "values": self.include }));
        }
        json!({ "matchExpressions": expressions })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn injection(include: &[&str], exclude: &[&str]) -> Injection {
        let list = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
        let file = PodResourceInject {
            enabled: true,
            namespaces_exclude: list(exclude),
            namespaces_include: list(include),
        };
        Injection::new(&file, "own")
    }

    #[test]
    fn the_clusters_and_our_own_namespaces_are_never_concerned() {
        for namespace in ["kube-system", "kube-node-lease", "own"] {
            assert!(!injection(&[], &[]).concerns(namespace), "{namespace}");
            assert!(!injection(&[namespace], &[]).concerns(namespace), "{namespace}");
        }
    }

    #[test]
    fn an_excluded_namespace_is_left_alone_and_an_included_one_is_not() {
        assert!(injection(&[], &["b"]).concerns("a"));
        assert!(!injection(&[], &["b"]).concerns("b"));
        assert!(!injection(&["a"], &[]).concerns("b"));
        assert!(injection(&["a"], &["b"]).concerns("a"));
        assert!(!injection(&["a"], &["a"]).concerns("a"));
        assert!(!Injection::new(&PodResourceInject::default(), "own").concerns("a"));
    }

    #[test]
    fn the_selector_says_the_same() {
        let selector = injection(&["a"], &["b"]).selector();
        let excluded = json!(["b", "kube-node-lease", "kube-public", "kube-system", "own"]);
        let expected = json!([
            { "key": NAME, "operator": "NotIn", "values": excluded },
            { "key": NAME, "operator": "In", "values": ["a"] },
        ]);
        assert_eq!(selector["matchExpressions"], expected);
    }
}
