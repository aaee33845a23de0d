//! Reading an admin port.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// `GET` on a plain HTTP port: status and text.
pub async fn fetch(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    tokio::time::timeout(Duration::from_secs(5), async {
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let request = http::Request::get(path)
            .header("host", address.to_string())
            .body(Empty::<Bytes>::new())?;
        let exchange = async {
            let response = sender.send_request(request).await?;
            let code = response.status().as_u16();
            let text = response.into_body().collect().await?.to_bytes();
            anyhow::Ok((code, String::from_utf8_lossy(&text).into_owned()))
        };
        tokio::select! {
            answer = exchange => answer,
            ended = connection => {
                ended?;
                anyhow::bail!("the connection ended without an answer")
            }
        }
    })
    .await
    .context("no answer within 5 s")?
}

/// Samples by name with labels, as Prometheus prints them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(BTreeMap<String, f64>);

impl Samples {
    /// Reads the text format.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self(
            lines
                .filter_map(|line| {
                    let (name, value) = line.rsplit_once(' ')?;
                    Some((name.to_owned(), value.parse().ok()?))
                })
                .collect(),
        )
    }

    /// The sum over all samples of a metric whose labels contain every given text.
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of = |sample: &&String| {
            let base = sample.split('{').next().unwrap_or_default();
            base == name && labels.iter().all(|label| sample.contains(label))
        };
        self.0
            .iter()
            .filter(|(sample, _)| of(sample))
            .map(|(_, value)| value)
            .sum()
    }

    /// Metric names.
    pub fn names(&self) -> std::collections::BTreeSet<String> {
        self.0
            .keys()
            .map(|sample| sample.split('{').next().unwrap_or_default().to_owned())
            .collect()
    }
}
