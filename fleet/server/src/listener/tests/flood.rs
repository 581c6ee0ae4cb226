//! More connections than the cap.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use super::support::{Client, Server, assert_answered, unlimited, until, within};
use crate::listener::ListenerLimits;

/// What a flood sends on each connection, in turn: nothing, half a head, a request and then nothing, half a body.
async fn open(address: SocketAddr, kind: usize) -> Client {
    let mut client = Client::connect(address).await;
    match kind % 4 {
        1 => client.send("GET / HT").await,
        2 => assert_eq!(client.get("/").await.unwrap().status, 200),
        3 => client.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf").await,
        _ => {}
    }
    client
}

#[tokio::test]
async fn a_flood_keeps_no_new_caller_out() {
    let (_server, address) = Server::plain(ListenerLimits { connections: 50, ..unlimited() });
    let mut flood = Vec::new();
    for kind in 0..400 {
        flood.push(open(address, kind).await);
        if kind % 20 == 0 {
            assert_answered(address).await;
        }
    }
    assert_answered(address).await;
    // The first are long closed.
    for client in &mut flood[..300] {
        client.closed().await;
    }
}

#[tokio::test]
async fn the_one_that_waited_longest_makes_room() {
    let (server, address) = Server::plain(ListenerLimits { connections: 3, ..unlimited() });
    let mut working = Client::connect(address).await;
    working.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    until("the handler", || server.shown.waiting.load(Ordering::SeqCst) == 1).await;
    let mut first = open(address, 2).await;
    let mut second = open(address, 2).await;
    assert_eq!(first.get("/").await.unwrap().status, 200);

    let mut third = open(address, 2).await;
    assert_eq!(second.closed().await, "");
    for client in [&mut first, &mut third] {
        assert_eq!(client.get("/").await.unwrap().status, 200);
    }
    server.shown.go.notify_one();
    assert_eq!(working.response().await.unwrap().body, "waited");
}

#[tokio::test]
async fn where_all_are_at_work_the_new_one_is_closed() {
    let (server, address) = Server::plain(ListenerLimits { connections: 2, ..unlimited() });
    let mut working = Vec::new();
    for count in 1..=2 {
        let mut client = Client::connect(address).await;
        client.send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        until("the handler", || server.shown.waiting.load(Ordering::SeqCst) == count).await;
        working.push(client);
    }
    assert_eq!(Client::connect(address).await.closed().await, "");
    server.shown.go.notify_waiters();
    for client in &mut working {
        assert_eq!(client.response().await.unwrap().body, "waited");
    }
    assert_answered(address).await;
}

#[tokio::test]
async fn half_bodies_and_stalled_readers_make_room_too() {
    let (server, address) = Server::plain(ListenerLimits { connections: 4, ..unlimited() });
    let mut stalled = Vec::new();
    for count in 1..=2 {
        let mut client = Client::connect(address).await;
        client.send("GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        until("the response", || server.shown.streams.load(Ordering::SeqCst) == count).await;
        stalled.push(client);
        stalled.push(open(address, 3).await);
    }
    // A response that can be written is work; it makes room once its client's buffers are full.
    within("an answer", async { while Client::connect(address).await.get("/").await.is_none() {} }).await;
}
