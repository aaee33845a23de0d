//! What Helm makes of the chart.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

/// The release that is rendered, as a release of Spiderpool is usually called.
pub(crate) const RELEASE: &str = "spiderpool";
/// Its namespace: not `kube-system`, so that a name written out is found.
pub(crate) const NAMESPACE: &str = "network";

/// A finding of the linter.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Finding {
    /// 1 information, 2 warning, 3 error.
    pub severity: u8,
    /// In which file.
    pub path: String,
    /// What.
    pub error: String,
}

/// What came out.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Rendering {
    /// Of the linter.
    pub lint: Vec<Finding>,
    /// Why nothing was rendered.
    pub error: Option<String>,
    /// Texts by template.
    manifests: BTreeMap<String, String>,
}

impl Rendering {
    /// Every object.
    pub(crate) fn objects(&self) -> Vec<Value> {
        assert_eq!(self.error, None);
        let templates = self
            .manifests
            .iter()
            .filter(|(path, _)| !path.ends_with("NOTES.txt"));
        let documents = templates.flat_map(|(path, text)| {
            serde_yaml::Deserializer::from_str(text).map(move |document| {
                Value::deserialize(document).unwrap_or_else(|error| panic!("{path}: {error}\n{text}"))
            })
        });
        documents.filter(|document| !document.is_null()).collect()
    }

    /// Objects of a kind.
    pub(crate) fn of_kind(&self, kind: &str) -> Vec<Value> {
        let objects = self.objects().into_iter();
        objects.filter(|object| object["kind"] == kind).collect()
    }

    /// The object of a kind and name.
    pub(crate) fn object(&self, kind: &str, name: &str) -> Value {
        let found = self
            .of_kind(kind)
            .into_iter()
            .find(|object| object["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name} is rendered"))
    }

    /// What Helm tells after an installation.
    pub(crate) fn notes(&self) -> &str {
        &self.manifests["orbweaver/templates/NOTES.txt"]
    }
}

/// The chart's folder.
pub(crate) fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/orbweaver")
}

/// Values files by name.
pub(crate) fn values_files() -> Vec<(String, String)> {
    let folder = chart().join("ci");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<(String, String)> = files
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    assert!(files.len() > 2, "the values files are gone");
    files
}

/// Values files by name, rendered; once for all tests.
pub(crate) fn renderings() -> Vec<(String, Rendering)> {
    static RENDERED: LazyLock<Vec<(String, Rendering)>> = LazyLock::new(|| {
        let files = values_files().into_iter();
        files.map(|(name, values)| (name, render(&values))).collect()
    });
    RENDERED.clone()
}

/// Renders one of the values files.
pub(crate) fn render_file(name: &str) -> Rendering {
    render(&std::fs::read_to_string(chart().join("ci").join(name)).unwrap())
}

/// Lints and renders the chart with `values`.
pub(crate) fn render(values: &str) -> Rendering {
    let script = chart().join("../helm/render.py");
    let mut helm = Command::new("python3")
        .arg(script)
        .arg(chart())
        .args([RELEASE, NAMESPACE])
        .env("PYTHONPATH", library())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed to render the chart");
    let mut input = helm.stdin.take().unwrap();
    input.write_all(values.as_bytes()).unwrap();
    drop(input);
    let output = helm.wait_with_output().unwrap();
    assert!(output.status.success(), "render.py failed; its errors are above");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Where `make helm` puts Helm's library: beside the folder of the profile that is tested.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let found = own
        .ancestors()
        .map(|folder| folder.join("helm-sdk"))
        .find(|path| path.is_dir());
    found.expect("Helm is not there: run `make helm` with the same CARGO_TARGET_DIR first")
}
