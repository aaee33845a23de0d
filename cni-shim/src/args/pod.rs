//! `CNI_ARGS`: `KEY=VALUE` pairs between semicolons, in any order (a kubelet shuffles them).

use crate::error::{Error, shown};

/// Longest name of a Kubernetes object, in bytes.
const NAME_MAX: usize = 253;

/// The pod of a request, as `CNI_ARGS` names it. Absent keys are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// `K8S_POD_NAMESPACE`.
    pub namespace: String,
    /// `K8S_POD_NAME`.
    pub name: String,
    /// `K8S_POD_UID`; runtimes older than 2021 do not send it.
    pub uid: String,
}

impl Pod {
    /// Reads `CNI_ARGS`. Keys other than the five known ones are an error unless `IgnoreUnknown` is true,
    /// as in CNI's own library.
    ///
    /// # Errors
    /// Code 4: a piece is no pair, a key has two values, a value is malformed, or a key is unknown.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut keys = Keys::default();
        for pair in text.split(';').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| invalid(format!("{} is not KEY=VALUE", shown(pair))))?;
            keys.take(key, value)?;
        }
        keys.finish()
    }

    /// # Errors
    /// Code 4: name or namespace is absent, so that nobody could say whose address is asked for.
    pub(super) fn require_name(&self) -> Result<(), Error> {
        for (key, value) in [
            ("K8S_POD_NAMESPACE", &self.namespace),
            ("K8S_POD_NAME", &self.name),
        ] {
            if value.is_empty() {
                return Err(invalid(format!(
                    "lacks {key}: addresses are given to Kubernetes pods only"
                )));
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct Keys<'a> {
    namespace: Option<&'a str>,
    name: Option<&'a str>,
    uid: Option<&'a str>,
    infra_container: Option<&'a str>,
    ignore_unknown: Option<&'a str>,
    unknown: Vec<&'a str>,
}

impl<'a> Keys<'a> {
    fn take(&mut self, key: &'a str, value: &'a str) -> Result<(), Error> {
        let slot = match key {
            "K8S_POD_NAMESPACE" => &mut self.namespace,
            "K8S_POD_NAME" => &mut self.name,
            "K8S_POD_UID" => &mut self.uid,
            "K8S_POD_INFRA_CONTAINER_ID" => &mut self.infra_container,
            "IgnoreUnknown" => &mut self.ignore_unknown,
            _ => {
                self.unknown.push(key);
                return Ok(());
            }
        };
        match slot.replace(value) {
            // Which of two pods is meant cannot be guessed.
            Some(before) if before != value => Err(invalid(format!("gives {key} two values"))),
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<Pod, Error> {
        let ignore_unknown = match self.ignore_unknown.map(str::to_ascii_lowercase).as_deref() {
            None | Some("0" | "false") => false,
            Some("1" | "true") => true,
            Some(other) => {
                return Err(invalid(format!(
                    "IgnoreUnknown is {}, not true or false",
                    shown(other)
                )));
            }
        };
        if let Some(key) = self.unknown.first().filter(|_| !ignore_unknown) {
            return Err(invalid(format!(
                "has the unknown key {}; IgnoreUnknown=1 permits it",
                shown(key)
            )));
        }
        Ok(Pod {
            namespace: object_name("K8S_POD_NAMESPACE", self.namespace)?,
            name: object_name("K8S_POD_NAME", self.name)?,
            uid: object_name("K8S_POD_UID", self.uid)?,
        })
    }
}

/// Looser than Kubernetes' own rule (a mirror pod's UID is a bare hash), strict enough for logs and paths.
fn object_name(key: &str, value: Option<&str>) -> Result<String, Error> {
    let value = value.unwrap_or_default();
    let clean = value
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte));
    if value.len() <= NAME_MAX && clean {
        return Ok(value.to_owned());
    }
    Err(invalid(format!(
        "{key} is {}: up to {NAME_MAX} letters, digits, '-', '.', '_'",
        shown(value)
    )))
}

fn invalid(problem: String) -> Error {
    Error::Variable {
        variable: "CNI_ARGS",
        problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_unknown_key_is_refused_unless_unknown_keys_are_ignored() {
        let error = Pod::parse("K8S_POD_NAME=a;FLAVOUR=sweet")
            .unwrap_err()
            .to_string();
        assert!(error.contains("FLAVOUR"), "{error}");
        for permit in ["IgnoreUnknown=1", "IgnoreUnknown=true", "IgnoreUnknown=True"] {
            assert_eq!(
                Pod::parse(&format!("FLAVOUR=sweet;K8S_POD_NAME=a;{permit}"))
                    .unwrap()
                    .name,
                "a"
            );
        }
        assert!(Pod::parse("FLAVOUR=sweet;IgnoreUnknown=0").is_err());
    }

    #[test]
    fn bad_pairs_are_refused() {
        for text in [
            "K8S_POD_NAME",
            "IgnoreUnknown=maybe",
            "K8S_POD_NAME=a/b",
            "K8S_POD_NAME=a;K8S_POD_NAME=b",
        ] {
            assert!(Pod::parse(text).is_err(), "{text}");
        }
        assert_eq!(Pod::parse("K8S_POD_NAME=a;;K8S_POD_NAME=a;").unwrap().name, "a");
    }

    proptest! {
        #[test]
        fn the_order_of_the_keys_does_not_matter(order in Just([
            "IgnoreUnknown=1", "K8S_POD_NAMESPACE=shop", "K8S_POD_NAME=cart-0",
            "K8S_POD_INFRA_CONTAINER_ID=c1", "K8S_POD_UID=u-1", "OTHER=x=y",
        ].to_vec()).prop_shuffle()) {
            let pod = Pod::parse(&order.join(";")).unwrap();
            prop_assert_eq!(pod, Pod { namespace: "shop".into(), name: "cart-0".into(), uid: "u-1".into() });
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "(?s).{0,200}") {
            let _ = Pod::parse(&text);
        }

        #[test]
        fn no_near_miss_makes_the_parser_panic(
            text in "((K8S_POD_NAME|K8S_POD_UID|IgnoreUnknown|=|;|[a-z]|é){0,4}[=;]){0,8}"
        ) {
            let _ = Pod::parse(&text);
        }
    }
}
