//! A request's body, which must come in time and within bounds.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::phase::PhaseCell;

/// A request's body. Reading it fails with [`BodyError::TooSlow`] once its time is over ([`super::ListenerLimits::body`]).
#[derive(Debug)]
pub(crate) struct RequestBody {
    incoming: Incoming,
    state: Arc<PhaseCell>,
    /// `None` if there is nothing to come.
    deadline: Option<Instant>,
    /// Made when the body is first waited for: most come with their head.
    timer: Option<Pin<Box<Sleep>>>,
    /// It was read to its end. (A chunked one does not say so by itself.)
    ended: bool,
}

/// Why a request's body is not to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// More than this many bytes: 413.
    TooLarge(usize),
    /// It did not come in time: 408.
    TooSlow,
    /// The connection broke, or it is malformed: 400.
    Broken(String),
}

/// Reads a whole body of at most `max_bytes`. A body that says it is larger is refused before it is read.
///
/// # Errors
/// As [`BodyError`] says; errors of other bodies around a [`RequestBody`] (axum's) are looked through for it.
pub(crate) async fn read_body<B>(body: B, max_bytes: usize) -> Result<Bytes, BodyError>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if usize::try_from(body.size_hint().lower()).map_or(true, |least| least > max_bytes) {
        return Err(BodyError::TooLarge(max_bytes));
    }
    match Limited::new(body, max_bytes).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge(max_bytes)),
        Err(error) => Err(BodyError::within(error.as_ref())),
    }
}

impl RequestBody {
    /// `limit`: the time for all of it, from now on.
    pub(crate) fn new(incoming: Incoming, state: Arc<PhaseCell>, limit: Duration) -> Self {
        let ended = incoming.is_end_stream();
        let deadline = (!ended).then(|| Instant::now() + limit);
        Self { incoming, state, deadline, timer: None, ended }
    }

    /// Whether the time is over; if not, the task is woken then.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = self.deadline else { return false };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        timer.as_mut().poll(cx).is_ready()
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.incoming).poll_frame(cx);
        if self.incoming.is_end_stream() || matches!(polled, Poll::Ready(None)) {
            self.ended = true;
            self.state.received(true);
        }
        match polled {
            Poll::Ready(frame) => Poll::Ready(frame.map(|frame| frame.map_err(|error| BodyError::within(&error)))),
            Poll::Pending if self.is_late(cx) => Poll::Ready(Some(Err(BodyError::TooSlow))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.state.received(self.ended);
    }
}

impl BodyError {
    /// The body's error among the sources of `error`.
    fn within(error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref::<Self>() {
                return found.clone();
            }
            next = error.source();
        }
        Self::Broken(error.to_string())
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(max) => write!(f, "the request's body is larger than {max} bytes"),
            Self::TooSlow => f.write_str("the request's body did not arrive in time"),
            Self::Broken(why) => write!(f, "cannot read the request's body: {why}"),
        }
    }
}

impl Error for BodyError {}
