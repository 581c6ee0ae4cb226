//! The cluster in a process of its own, so that its memory is not ours; led by `/control/`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

/// A running `test-cluster`. Dropping it ends it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    dir: PathBuf,
    /// `localhost:PORT`, as `--proxy` takes it.
    pub addr: String,
    /// As `--base-url` takes it.
    pub base_url: String,
    /// As `--ca-file` takes it.
    pub ca: PathBuf,
    control: String,
}

/// An archive that the cluster serves.
#[derive(Debug, Clone)]
pub struct Release {
    /// Plain semver.
    pub version: String,
    /// The file below `/cdn/`.
    pub name: String,
    /// Where it is on disk.
    pub path: PathBuf,
    /// 64 hex digits.
    pub sha256: String,
    /// Bytes, packed.
    pub size: u64,
}

impl Server {
    /// Starts `cluster` with its files in `dir`; releases are made of `agent` and `updater`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(cluster: &Path, dir: &Path, agent: &Path, updater: &Path) -> io::Result<Self> {
        let mut command = Command::new(cluster);
        command.arg("serve").arg("--dir").arg(dir).arg("--agent").arg(agent).arg("--updater").arg(updater);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
        let [mut addr, mut base_url, mut ca] = [const { String::new() }; 3];
        for line in out.lines() {
            let line = line?;
            match line.split_once('=') {
                Some(("addr", value)) => value.clone_into(&mut addr),
                Some(("base_url", value)) => value.clone_into(&mut base_url),
                Some(("ca", value)) => value.clone_into(&mut ca),
                Some(("plain_base_url", value)) => {
                    let control = value.trim_start_matches("http://").trim_end_matches("/cdn").to_owned();
                    return Ok(Self { child, dir: dir.to_owned(), addr, base_url, ca: ca.into(), control });
                }
                _ => {}
            }
        }
        Err(io::Error::other("the test cluster did not start"))
    }

    /// The directory behind `/cdn/`.
    pub fn cdn(&self) -> PathBuf {
        self.dir.join("cdn")
    }

    /// The cluster names `version` from now on.
    ///
    /// # Errors
    /// What the cluster says.
    pub fn name(&self, version: &str) -> io::Result<()> {
        self.post("/control/directive", &json!({ "version": version })).map(drop)
    }

    /// Publishes `version` with these `fields` of `/control/publish`.
    ///
    /// # Errors
    /// What the cluster says.
    pub fn publish(&self, version: &str, mut fields: Value) -> io::Result<Release> {
        fields["version"] = version.into();
        fields["arch"] = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }.into();
        let answer = self.post("/control/publish", &fields)?;
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        let name = text("name");
        let path = self.cdn().join(&name);
        let size = answer["size"].as_u64().unwrap_or(0);
        Ok(Release { version: version.to_owned(), path, name, sha256: text("sha256"), size })
    }

    fn post(&self, path: &str, body: &Value) -> io::Result<Value> {
        let mut stream = TcpStream::connect(&self.control)?;
        let body = body.to_string();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        if !head.starts_with("HTTP/1.1 200") {
            return Err(io::Error::other(format!("{path}: {answer}")));
        }
        serde_json::from_str(body).map_err(io::Error::other)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
