//! Bodies of answers.

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use tokio::runtime::Runtime;

/// The whole body; `None`: it is larger than `largest` bytes.
///
/// # Errors
/// The connection broke.
pub(super) async fn whole(mut body: Incoming, largest: usize) -> Result<Option<Bytes>, hyper::Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            if bytes.len() + data.len() > largest {
                return Ok(None);
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(Some(bytes.into()))
}

/// A body as it comes; it may never end.
#[derive(Debug)]
pub(crate) struct Chunks<'a> {
    runtime: &'a Runtime,
    body: Incoming,
}

impl<'a> Chunks<'a> {
    pub(super) fn new(runtime: &'a Runtime, body: Incoming) -> Self {
        Self { runtime, body }
    }
}

/// Ends when the body is complete; an error is a connection that broke before.
impl Iterator for Chunks<'_> {
    type Item = Result<Bytes, String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let frame = self.runtime.block_on(self.body.frame())?;
            match frame.map(hyper::body::Frame::into_data) {
                Ok(Ok(data)) => return Some(Ok(data)),
                Ok(Err(_)) => {}
                Err(error) => return Some(Err(error.to_string())),
            }
        }
    }
}
