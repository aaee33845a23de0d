//! One thing that is wrong with an object, told the way Kubernetes tells it.

use std::fmt;

/// What kind of wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The value cannot be used.
    Invalid,
    /// The value may be right, but not here or not now.
    Forbidden,
    /// There is no value.
    Required,
    /// The value is there twice.
    Duplicate,
}

impl Kind {
    /// The `reason` of a status cause.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Invalid => "FieldValueInvalid",
            Self::Forbidden => "FieldValueForbidden",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
        }
    }
}

/// A field, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path, as `spec.routes[1].gw`.
    pub field: String,
    /// What kind of wrong.
    pub kind: Kind,
    /// What is wrong, and the remedy.
    pub detail: String,
}

/// Longest detail, in characters: an answer stays readable whatever was sent.
const SHOWN: usize = 500;

impl Finding {
    fn new(kind: Kind, field: impl Into<String>, detail: impl fmt::Display) -> Self {
        let detail = detail.to_string();
        Self {
            field: field.into(),
            kind,
            detail: match detail.char_indices().nth(SHOWN) {
                Some((end, _)) => format!("{}...", &detail[..end]),
                None => detail,
            },
        }
    }

    /// The value cannot be used.
    pub fn invalid(field: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::new(Kind::Invalid, field, detail)
    }

    /// The value may not be so here or now.
    pub fn forbidden(field: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::new(Kind::Forbidden, field, detail)
    }

    /// A value is needed.
    pub fn required(field: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::new(Kind::Required, field, detail)
    }

    /// The value is there twice.
    pub fn duplicate(field: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::new(Kind::Duplicate, field, detail)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Invalid => "Invalid value",
            Kind::Forbidden => "Forbidden",
            Kind::Required => "Required value",
            Kind::Duplicate => "Duplicate value",
        };
        write!(f, "{}: {kind}: {}", self.field, self.detail)
    }
}
