//! `arrivals ADDRESS IDS SECONDS`: each host of the file IDS asks once, within so many seconds, over a connection of its own; who is
//! refused comes again when the answer says. Prints what came of it, as `NAME VALUE`. For `tests/bench/million.sh`.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for a terminal")]

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::{Semaphore, mpsc};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Connections at a time, so that this machine is not asked for more than it has.
const AT_ONCE: usize = 8000;
/// Between two times that hosts come.
const TICK: Duration = Duration::from_millis(5);
/// Whom nobody answers comes again after it.
const AGAIN: Duration = Duration::from_secs(5);
/// Source addresses, 127.1.0.1 and so on: one has 28,000 ports, and each is used once a minute.
const SOURCES: u64 = 128;

#[derive(Default)]
struct Counts {
    shed: AtomicU64,
    unanswered: AtomicU64,
    source: AtomicU64,
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, address, ids, seconds] = &words[..] else { return Err("arrivals ADDRESS IDS SECONDS".into()) };
    let (address, seconds): (SocketAddr, u32) = (address.parse()?, seconds.parse()?);
    let ids: Vec<String> = std::fs::read_to_string(ids)?.lines().map(str::to_owned).collect();
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(arrive(address, ids, seconds))
}

async fn arrive(address: SocketAddr, ids: Vec<String>, seconds: u32) -> Outcome<()> {
    let (counts, places) = (Arc::new(Counts::default()), Arc::new(Semaphore::new(AT_ONCE)));
    let (waited, mut served) = mpsc::unbounded_channel();
    let (hosts, began) = (ids.len(), Instant::now());
    let each = Duration::from_secs(u64::from(seconds)) / u32::try_from(hosts)?;
    let mut ids = (0_u32..).zip(ids).peekable();
    let mut due = tokio::time::interval(TICK);
    while ids.peek().is_some() {
        due.tick().await;
        while let Some((number, id)) = ids.next_if(|(number, _)| began + each * *number <= Instant::now()) {
            let (counts, places, waited) = (Arc::clone(&counts), Arc::clone(&places), waited.clone());
            let came = began + each * number;
            tokio::spawn(async move {
                while !ask(address, &id, &counts, &places).await {}
                // The receiver lives until all are served.
                let _ = waited.send(came.elapsed());
            });
        }
    }
    let offered = began.elapsed();
    drop(waited);
    let mut all = Vec::with_capacity(hosts);
    while let Some(waited) = served.recv().await {
        all.push(waited);
    }
    let took = began.elapsed();
    all.sort_unstable();
    let part = |share: usize| all.get((all.len() * share / 100).min(all.len() - 1)).map_or(0, Duration::as_millis);
    println!("hosts {hosts}\noffered_s {:.1}\nserved_s {:.1}", offered.as_secs_f64(), took.as_secs_f64());
    println!("shed {}\nunanswered {}", counts.shed.load(Ordering::Relaxed), counts.unanswered.load(Ordering::Relaxed));
    println!("half_ms {}\np99_ms {}\nlongest_ms {}", part(50), part(99), part(100));
    Ok(())
}

/// Asks; where it was refused, waits as long as it was told. Gives whether it was answered.
async fn ask(address: SocketAddr, id: &str, counts: &Counts, places: &Semaphore) -> bool {
    let answer = {
        let Ok(_place) = places.acquire().await else { return true };
        tokio::time::timeout(AGAIN, exchange(address, id, counts)).await
    };
    let wait = match answer {
        Ok(Ok(None)) => return true,
        Ok(Ok(Some(wait))) => {
            counts.shed.fetch_add(1, Ordering::Relaxed);
            wait
        }
        _ => {
            counts.unanswered.fetch_add(1, Ordering::Relaxed);
            AGAIN
        }
    };
    tokio::time::sleep(wait).await;
    false
}

/// `Some`: it is to come again after so long.
async fn exchange(address: SocketAddr, id: &str, counts: &Counts) -> Outcome<Option<Duration>> {
    let socket = TcpSocket::new_v4()?;
    let source = counts.source.fetch_add(1, Ordering::Relaxed) % SOURCES;
    let source = Ipv4Addr::new(127, 1, 0, u8::try_from(source + 1)?);
    socket.bind((IpAddr::V4(source), 0).into())?;
    let mut stream = socket.connect(address).await?;
    let request = format!("GET /v1/webapi/find?host={id} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::with_capacity(2048);
    stream.read_to_end(&mut answer).await?;
    let head = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    if head.starts_with("http/1.1 200") {
        return Ok(None);
    }
    let again = head.split("retry-after: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    Ok(Some(Duration::from_secs(again.ok_or("no answer")?.parse()?)))
}
