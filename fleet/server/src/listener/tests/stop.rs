//! The graceful stop.

use std::sync::atomic::Ordering;

use crate::listener::ListenerLimits;
use tokio::net::TcpStream;

use super::support::{Client, SHORT, Server, unlimited, until, within};

#[tokio::test]
async fn a_running_request_is_answered_and_new_ones_are_refused() {
    let (mut server, address) = Server::plain(unlimited());
    let mut running = Client::connect(address).await;
    running.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    until("the handler", || server.shown.waiting.load(Ordering::SeqCst) == 1).await;
    let mut idle = Client::connect(address).await;
    assert_eq!(idle.get("/").await.unwrap().status, 200);
    let mut silent = Client::connect(address).await;

    server.stop();
    assert_eq!(idle.closed().await, "");
    assert_eq!(silent.closed().await, "");
    within("the listener's end", async { while TcpStream::connect(address).await.is_ok() {} }).await;
    assert!(!server.task.is_finished());

    server.shown.go.notify_one();
    let response = running.response().await.unwrap();
    assert_eq!(response.body, "waited");
    assert!(response.head.contains("\r\nconnection: close\r\n"), "{}", response.head);
    running.closed().await;
    assert_eq!(server.ended().await, 0);
}

#[tokio::test]
async fn event_streams_are_cut_off_after_the_drain() {
    let (mut server, address) = Server::plain(ListenerLimits { drain: SHORT, ..unlimited() });
    let mut events = Client::connect(address).await;
    events.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    until("the events", || server.shown.streams.load(Ordering::SeqCst) == 1).await;
    let mut half = Client::connect(address).await;
    half.send("GET / HTTP/1.1\r\nHo").await;
    // It must have arrived: a connection without a byte ends at once.
    let mut probe = Client::connect(address).await;
    assert_eq!(probe.get("/").await.unwrap().status, 200);
    server.stop();
    events.closed().await;
    half.closed().await;
    assert!(server.ended().await >= 1);
}

#[tokio::test]
async fn without_connections_the_stop_takes_no_time() {
    let (mut server, _) = Server::plain(unlimited());
    server.stop();
    assert_eq!(server.ended().await, 0);
}

#[tokio::test]
async fn a_dropped_server_closes_its_connections() {
    let (server, address) = Server::plain(unlimited());
    let mut client = Client::connect(address).await;
    assert_eq!(client.get("/").await.unwrap().status, 200);
    server.task.abort();
    client.closed().await;
}
