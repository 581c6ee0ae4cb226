//! `reports ADDRESS HOSTS CONNECTIONS TOKEN_FILE`: each of so many hosts reports twice, signed and over kept connections; prints how
//! many reports a second were taken, those of new hosts and those of known ones. For `tests/bench/reports.sh`.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a program for a terminal")]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use protocol::report::{JOIN_HEADER, Key, PATH, SIGNATURE_HEADER, SignedReport, report_message};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, address, hosts, connections, token] = &words[..] else {
        return Err("reports ADDRESS HOSTS CONNECTIONS TOKEN_FILE".into());
    };
    let (hosts, connections): (u32, usize) = (hosts.parse()?, connections.parse()?);
    let token = std::fs::read_to_string(token)?.trim().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let epoch = runtime.block_on(epoch(address))?;
    for (sequence, what) in [(1, "new"), (2, "known")] {
        // Signed before the clock runs.
        let requests = (1..=hosts).map(|host| request(host, epoch, sequence, &token)).collect::<Outcome<Vec<_>>>()?;
        let took = runtime.block_on(send(address, Arc::new(requests), connections))?;
        println!("{what} {:.0}", f64::from(hosts) / took.as_secs_f64());
    }
    Ok(())
}

/// A report of host `number`, as it goes over the wire.
fn request(number: u32, epoch: u64, sequence: u64, token: &str) -> Outcome<Vec<u8>> {
    let mut seed = [7; 32];
    seed[..4].copy_from_slice(&number.to_be_bytes());
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|error| error.to_string())?;
    let labels: serde_json::Map<_, _> =
        (0..8).map(|at| (format!("label-{at}"), json!(format!("v{}", number % 10)))).collect();
    let body = json!({
        "host": format!("{number:08x}-0000-4000-8000-{number:012x}"), "update_id": format!("{number:08x}-1111-4111-8111-{number:012x}"),
        "hostname": format!("web{number:06}.example.com"), "epoch": epoch, "sequence": sequence, "time": "2026-01-05T12:00:00Z",
        "group": if number.is_multiple_of(2) { "dev" } else { "prod" }, "labels": labels,
        "versions": { "installed": "17.2.0", "running": "17.2.0", "desired": "17.2.0" },
        "edition": "oss", "updater": "teleport-update 1.0.0", "arch": "amd64", "os": "Debian GNU/Linux 13", "kernel": "6.12.0",
        "enabled": true, "pinned": false,
        "last": { "from": "17.1.0", "to": "17.2.0", "at": format!("2026-01-0{sequence}T12:00:00Z"), "outcome": "updated" },
    })
    .to_string();
    let key = Key(pair.public_key().as_ref().try_into()?);
    let signature = pair.sign(&report_message(body.as_bytes())).as_ref().try_into()?;
    let signature = SignedReport { key, signature };
    let length = body.len();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{SIGNATURE_HEADER}: {signature}\r\n\
         {JOIN_HEADER}: {token}\r\ncontent-length: {length}\r\n\r\n"
    );
    Ok([head.as_bytes(), body.as_bytes()].concat())
}

async fn epoch(address: &str) -> Outcome<u64> {
    let mut stream = BufReader::new(TcpStream::connect(address).await?);
    stream.write_all(b"GET /v1/webapi/find HTTP/1.1\r\nhost: localhost\r\n\r\n").await?;
    let (_, body) = answer(&mut stream).await?;
    let find: serde_json::Value = serde_json::from_slice(&body)?;
    find["fleet"]["report"]["epoch"].as_u64().ok_or_else(|| format!("no epoch: {find}").into())
}

/// How long it took until all were taken.
async fn send(address: &str, requests: Arc<Vec<Vec<u8>>>, connections: usize) -> Outcome<Duration> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut streams = Vec::new();
    for _ in 0..connections {
        streams.push(BufReader::new(TcpStream::connect(address).await?));
    }
    let began = Instant::now();
    let senders = streams.into_iter().map(|mut stream| {
        let (next, requests) = (Arc::clone(&next), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                stream.write_all(request).await?;
                let (status, body) = answer(&mut stream).await?;
                if status != 200 {
                    return Err(format!("{status}: {}", String::from_utf8_lossy(&body)).into());
                }
            }
            Outcome::Ok(())
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await??;
    }
    Ok(began.elapsed())
}

/// Status and body of an answer with a length.
async fn answer(stream: &mut BufReader<TcpStream>) -> Outcome<(u16, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head)?.to_ascii_lowercase();
    let status = head.split(' ').nth(1).ok_or("no status")?.parse()?;
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next()).ok_or("no length")?;
    let mut body = vec![0; length.parse()?];
    stream.read_exact(&mut body).await?;
    Ok((status, body))
}
