//! A request body that remembers whether it was asked for.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Was the body handed over for writing? An HTTP/1 client does so only on a connection that stands, TLS included, and
/// in the same step in which it writes the head. So "no" proves that not one byte of the request left.
#[derive(Clone, Debug, Default)]
pub(super) struct Witness(Arc<AtomicBool>);

impl Witness {
    /// True when the request may have left.
    pub(super) fn written(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The body, in one piece.
#[derive(Debug)]
pub(super) struct WitnessedBody {
    bytes: Option<Bytes>,
    witness: Witness,
}

impl WitnessedBody {
    pub(super) fn new(bytes: Bytes, witness: Witness) -> Self {
        Self {
            bytes: Some(bytes),
            witness,
        }
    }
}

impl Body for WitnessedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.witness.0.store(true, Ordering::Release);
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        // Exact, so that the request carries a Content-Length: not every server reads chunks.
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}
