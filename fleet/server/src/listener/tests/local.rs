//! The Unix socket.

use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;

use crate::listener::{Listener, Local};
use rustix::process::{getgid, getpid, getuid};
use tokio::net::UnixStream;

use super::support::{Client, Server, unlimited, within};

async fn connect(path: &Path) -> Client {
    Client::over(within("a connection", UnixStream::connect(path)).await.unwrap())
}

#[tokio::test]
async fn the_caller_is_the_user_and_the_file_has_its_mode() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    for mode in [0o660, 0o600, 0o666] {
        let local = Local::bind(&path, mode, Some(getgid().as_raw())).unwrap();
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!((found.permissions().mode() & 0o7777, found.gid()), (mode, getgid().as_raw()));
        let mut server = Server::new(Listener::Local(local), unlimited());
        let who = connect(&path).await.get("/who").await.unwrap().body;
        let (uid, gid, pid) = (getuid().as_raw(), getgid().as_raw(), getpid().as_raw_nonzero());
        assert_eq!(who, format!("Some(Local {{ uid: {uid}, gid: {gid}, pid: Some({pid}) }})"));
        server.stop();
        assert_eq!(server.ended().await, 0);
        assert!(!path.exists(), "the file was left");
    }
}

#[tokio::test]
async fn a_stale_socket_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    drop(StdListener::bind(&path).unwrap());
    assert!(path.exists());
    let _server = Server::new(Listener::Local(Local::bind(&path, 0o660, None).unwrap()), unlimited());
    assert_eq!(connect(&path).await.get("/").await.unwrap().body, "hello");
}

#[tokio::test]
async fn a_socket_that_is_listened_on_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let other = StdListener::bind(&path).unwrap();
    let error = Local::bind(&path, 0o660, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    let expected = format!("cannot listen on {}: another process listens there; stop it first", path.display());
    assert_eq!(error.to_string(), expected);
    drop(other);
    assert!(path.exists(), "another process's socket was removed");
}

#[tokio::test]
async fn a_busy_socket_with_a_full_queue_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let other = tokio::net::UnixSocket::new_stream().unwrap();
    other.bind(&path).unwrap();
    let _other = other.listen(0).unwrap();
    let _queued = UnixStream::connect(&path).await.unwrap();
    assert_eq!(Local::bind(&path, 0o660, None).unwrap_err().kind(), ErrorKind::AddrInUse);
}

#[tokio::test]
async fn what_is_no_socket_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    std::fs::write(&path, "precious").unwrap();
    let error = Local::bind(&path, 0o660, None).unwrap_err();
    assert!(error.to_string().contains("not a socket"), "{error}");
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("/nonexistent", &link).unwrap();
    assert!(Local::bind(&link, 0o660, None).unwrap_err().to_string().contains("not a socket"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_missing_directory_and_a_long_path_are_named() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["none/admin.sock".to_owned(), "a".repeat(200)] {
        let path = directory.path().join(name);
        let error = Local::bind(&path, 0o660, None).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot listen on {}: ", path.display())), "{error}");
    }
}

#[tokio::test]
async fn another_process_s_file_is_not_removed_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let local = Local::bind(&path, 0o660, None).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _other = StdListener::bind(&path).unwrap();
    drop(local);
    assert!(path.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_those_who_start_at_once_one_gets_it() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..50 {
        let path = directory.path().join(format!("{round}.sock"));
        drop(StdListener::bind(&path).unwrap());
        let bind = |path: std::path::PathBuf| tokio::task::spawn_blocking(move || Local::bind(&path, 0o660, None));
        let tries: Vec<_> = (0..4).map(|_| bind(path.clone())).collect();
        let mut bound = Vec::new();
        for tried in tries {
            bound.push(tried.await.unwrap());
        }
        assert_eq!(bound.iter().filter(|bound| bound.is_ok()).count(), 1, "round {round}");
        UnixStream::connect(&path).await.unwrap();
    }
}
