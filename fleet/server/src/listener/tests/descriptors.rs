//! A process without a free file descriptor.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpSocket;

use super::support::{Client, Server, unlimited, within};

#[tokio::test]
async fn a_new_caller_is_answered_where_no_descriptor_is_free() {
    if std::env::var_os("NEXTEST").is_none() {
        eprintln!("skipped: the limit is the process's, and only nextest gives each test its own");
        return;
    }
    let (_server, address) = Server::plain(unlimited());
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut client = Client::connect(address).await;
        assert_eq!(client.get("/").await.unwrap().body, "hello");
        idle.push(client);
    }
    // Made before the limit: only the server's end lacks a descriptor.
    let callers: Vec<_> = (0..5).map(|_| TcpSocket::new_v4().unwrap()).collect();
    let highest = callers.iter().map(std::os::fd::AsRawFd::as_raw_fd).max().unwrap();
    let limit = Rlimit { current: Some(u64::try_from(highest).unwrap() + 1), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(TcpSocket::new_v4().is_err(), "a descriptor is still free");

    let mut answered = Vec::new();
    for caller in callers {
        let mut caller = Client::over(within("a connection", caller.connect(address)).await.unwrap());
        assert_eq!(caller.get("/").await.unwrap().body, "hello");
        answered.push(caller);
    }
    // The first made room, the last did not.
    assert_eq!(idle[0].closed().await, "");
    assert_eq!(idle.last_mut().unwrap().get("/").await.unwrap().body, "hello");
}
