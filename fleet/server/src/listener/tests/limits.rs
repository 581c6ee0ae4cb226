//! Clients that take their time.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::listener::ListenerLimits;
use tokio::io::AsyncWriteExt;

use super::support::{Client, LONG, SHORT, Server, assert_answered, unlimited, until, within};

#[tokio::test]
async fn a_head_sent_byte_by_byte_is_cut_off() {
    let (_server, address) = Server::plain(ListenerLimits { head: SHORT, ..unlimited() });
    let mut client = Client::connect(address).await;
    within("the cut", async {
        // An endless header: only the server can end this.
        let _ = client.io.write_all(b"GET / HTTP/1.1\r\nHost: ").await;
        while client.io.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_answered(address).await;
}

#[tokio::test]
async fn a_pause_between_requests_may_be_longer_than_a_head() {
    let (_server, address) = Server::plain(ListenerLimits { head: SHORT, ..unlimited() });
    let mut client = Client::connect(address).await;
    assert_eq!(client.get("/").await.unwrap().status, 200);
    // The limit for heads passes, as another connection shows.
    Client::connect(address).await.closed().await;
    assert_eq!(client.get("/").await.unwrap().status, 200);
}

#[tokio::test]
async fn silence_a_pause_and_half_a_second_head_are_cut_off() {
    for (head, idle, is_second, bytes) in
        [(SHORT, LONG, false, ""), (LONG, SHORT, true, ""), (SHORT, LONG, true, "GET / HTTP/1.1\r\nHos")]
    {
        let (_server, address) = Server::plain(ListenerLimits { head, idle, ..unlimited() });
        let mut client = Client::connect(address).await;
        if is_second {
            assert_eq!(client.get("/").await.unwrap().status, 200);
        }
        client.send(bytes).await;
        assert_eq!(client.closed().await, "", "{bytes:?}");
    }
}

#[tokio::test]
async fn half_a_body_is_answered_408_and_closed() {
    let (_server, address) = Server::plain(ListenerLimits { body: SHORT, ..unlimited() });
    for head in ["Content-Length: 10\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n5\r\nab"] {
        let mut client = Client::connect(address).await;
        client.send(format!("POST /echo HTTP/1.1\r\nHost: localhost\r\n{head}")).await;
        let response = client.response().await.unwrap();
        assert_eq!((response.status, response.body.as_str()), (408, "the request's body did not arrive in time"));
        client.closed().await;
    }
}

#[tokio::test]
async fn a_body_sent_byte_by_byte_is_cut_off() {
    let (_server, address) = Server::plain(ListenerLimits { body: SHORT, ..unlimited() });
    let mut client = Client::connect(address).await;
    client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n").await;
    within("the cut", async {
        while client.io.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_handler_may_take_longer_than_any_client() {
    let limits =
        ListenerLimits { handshake: SHORT, head: SHORT, body: SHORT, idle: SHORT, write: SHORT, ..unlimited() };
    let (server, address) = Server::plain(limits);
    let mut client = Client::connect(address).await;
    client.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    until("the handler", || server.shown.waiting.load(Ordering::SeqCst) == 1).await;
    Client::connect(address).await.closed().await;
    server.shown.go.notify_one();
    assert_eq!(client.response().await.unwrap().body, "waited");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let (server, address) = Server::plain(ListenerLimits { write: SHORT, ..unlimited() });
    let mut client = Client::connect(address).await;
    client.send("GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    until("the response", || server.shown.streams.load(Ordering::SeqCst) == 1).await;
    until("the cut", || server.shown.streams.load(Ordering::SeqCst) == 0).await;
    assert_answered(address).await;
}

#[tokio::test]
async fn events_that_are_far_between_are_not_cut_off() {
    let limits = ListenerLimits { head: SHORT, body: SHORT, idle: SHORT, write: SHORT, ..unlimited() };
    let (server, address) = Server::plain(limits);
    let mut client = Client::connect(address).await;
    client.send("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    until("the response", || server.shown.streams.load(Ordering::SeqCst) == 1).await;
    for _ in 0..2 {
        Client::connect(address).await.closed().await;
    }
    assert_eq!(server.shown.streams.load(Ordering::SeqCst), 1);
}
