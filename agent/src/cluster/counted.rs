//! Counts every request to the API server, whoever makes it: stores, watches, the start-up list.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, Uri};
use tokio::time::Instant;
use tower::{Layer, Service};

use crate::metrics;

/// Puts [`Counted`] around a service.
#[derive(Clone, Copy, Debug)]
pub struct CountLayer;

impl<S> Layer<S> for CountLayer {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner }
    }
}

/// A service whose requests are counted.
#[derive(Clone, Debug)]
pub struct Counted<S> {
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let tally = Tally::start(request.method(), request.uri());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            tally.end(match &answer {
                Ok(response) => outcome(response.status()),
                Err(_) => "unreachable",
            });
            answer
        })
    }
}

/// Records itself when dropped, so that a request nobody waits for any more is counted too.
struct Tally {
    verb: &'static str,
    resource: String,
    outcome: &'static str,
    since: Instant,
}

impl Tally {
    fn start(method: &Method, uri: &Uri) -> Self {
        let (verb, resource) = describe(method, uri);
        Self {
            verb,
            resource,
            outcome: "abandoned",
            since: Instant::now(),
        }
    }
}

impl Tally {
    fn end(mut self, outcome: &'static str) {
        self.outcome = outcome;
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        metrics::api_answered(self.verb, &self.resource, self.outcome, self.since.elapsed());
    }
}

fn outcome(status: StatusCode) -> &'static str {
    match status.as_u16() {
        200..=399 => "ok",
        404 => "not_found",
        409 => "conflict",
        429 => "throttled",
        400..=499 => "refused",
        _ => "server_error",
    }
}

/// Verb and resource of a request, from its path: `/api/v1/...` or `/apis/GROUP/VERSION/...`.
fn describe(method: &Method, uri: &Uri) -> (&'static str, String) {
    let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
    let skip = match parts.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return (verb(method, false, false), "other".to_owned()),
    };
    let rest: Vec<&str> = parts.skip(skip).collect();
    // A namespace's own name and the resources in it share a prefix.
    let scoped = match rest.as_slice() {
        ["namespaces", _, scoped @ ..] if !scoped.is_empty() => scoped,
        all => all,
    };
    let (resource, named, subresource) = match scoped {
        [resource, tail @ ..] => (*resource, !tail.is_empty(), tail.get(1)),
        [] => ("other", false, None),
    };
    let watch = uri.query().is_some_and(|query| {
        query
            .split('&')
            .any(|pair| pair == "watch=true" || pair == "watch=1")
    });
    let resource = match subresource {
        Some(subresource) => format!("{resource}/{subresource}"),
        None => resource.to_owned(),
    };
    (verb(method, named, watch), resource)
}

fn verb(method: &Method, named: bool, watch: bool) -> &'static str {
    match *method {
        Method::GET if watch => "watch",
        Method::GET if named => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verb_and_resource_come_from_the_path() {
        let group = "/apis/spiderpool.spidernet.io/v2beta1";
        for (method, path, expected) in [
            (
                Method::GET,
                format!("{group}/spiderippools"),
                ("list", "spiderippools"),
            ),
            (
                Method::GET,
                format!("{group}/spiderippools?watch=true&x=1"),
                ("watch", "spiderippools"),
            ),
            (
                Method::GET,
                format!("{group}/spiderippools/p"),
                ("get", "spiderippools"),
            ),
            (
                Method::PATCH,
                format!("{group}/spiderippools/p/status?"),
                ("patch", "spiderippools/status"),
            ),
            (
                Method::POST,
                format!("{group}/namespaces/a/spiderendpoints"),
                ("create", "spiderendpoints"),
            ),
            (
                Method::DELETE,
                format!("{group}/namespaces/a/spiderendpoints/b"),
                ("delete", "spiderendpoints"),
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a/pods/b".to_owned(),
                ("get", "pods"),
            ),
            (
                Method::GET,
                "/api/v1/namespaces/a".to_owned(),
                ("get", "namespaces"),
            ),
            (
                Method::GET,
                "/api/v1/namespaces".to_owned(),
                ("list", "namespaces"),
            ),
            (Method::GET, "/version".to_owned(), ("list", "other")),
        ] {
            let uri: Uri = path.parse().unwrap();
            let (verb, resource) = describe(&method, &uri);
            assert_eq!((verb, resource.as_str()), expected, "{method} {path}");
        }
    }

    #[test]
    fn every_status_has_an_outcome_of_the_table() {
        for (status, expected) in [
            (201, "ok"),
            (404, "not_found"),
            (409, "conflict"),
            (410, "refused"),
            (422, "refused"),
            (429, "throttled"),
            (500, "server_error"),
            (503, "server_error"),
        ] {
            assert_eq!(outcome(StatusCode::from_u16(status).unwrap()), expected);
        }
    }
}
