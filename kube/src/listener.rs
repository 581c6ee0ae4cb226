//! `/healthz`, `/readyz`, `/metrics` (KUBE §1).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::tell::{SharedNumbers, numbers};

/// Longest time of a connection: who asks has one short question.
const LONGEST: Duration = Duration::from_secs(10);
/// Connections at once: a probe, a scraper, and a few more.
const MOST: usize = 32;

/// Answers at `address` until the process ends.
///
/// Errors: the address cannot be taken.
pub async fn listen(address: SocketAddr, shared: SharedNumbers) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tokio::spawn(async move {
        let places = std::sync::Arc::new(Semaphore::new(MOST));
        while let Ok(place) = places.clone().acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let shared = shared.clone();
            tokio::spawn(async move {
                let answer = service_fn(|request| std::future::ready(Ok::<_, Infallible>(answer(&request, &shared))));
                let mut server = hyper::server::conn::http1::Builder::new();
                let serve = server.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), answer);
                let _ = tokio::time::timeout(LONGEST, serve).await;
                drop(place);
            });
        }
    });
    Ok(())
}

fn answer(request: &Request<Incoming>, shared: &SharedNumbers) -> Response<Full<Bytes>> {
    let numbers = numbers(shared);
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, kind, text) = match request.uri().path() {
        _ if !is_read => (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET\n".to_owned()),
        "/healthz" => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" if numbers.faults().is_empty() => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" => {
            let lines: String = numbers.faults().iter().map(|why| format!("{why}\n")).collect();
            (StatusCode::SERVICE_UNAVAILABLE, "text/plain", lines)
        }
        "/metrics" => (StatusCode::OK, "text/plain; version=0.0.4", numbers.text()),
        _ => (StatusCode::NOT_FOUND, "text/plain", "there are /healthz, /readyz and /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
