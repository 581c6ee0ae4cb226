//! `doctor`: a look at the data and at the server that runs on it.

use fleet_engine::plain::cleaned;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fleet_cli::args::{Doctor, GlobalArgs, PrintFormat, Serve};
use fleet_store::{Finding, FindingLevel};

use crate::notify::{self, Receiver};
use crate::oidc::{self, Oidc};
use crate::reporting::Enrolment;
use crate::settings::{Settings, tuf_place, with_file};
use crate::{terminal, tuf_site};

/// What a problem ends with.
const REFUSED: u8 = 1;
/// For the server's answer: it reads the whole of a large database.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most bytes of it: some twenty findings.
const MAX_ANSWER: u64 = 64 * 1024;

/// Looks at the data, also beside a running server, and asks that server whether it decides (`/readyz`).
pub(crate) fn doctor(options: &Doctor, global: &GlobalArgs) -> Result<ExitCode, String> {
    let socket = Settings::admin_socket(global.admin_socket.as_deref(), &options.config)?;
    let mut findings = if options.ready { Vec::new() } else { installation(options, &socket)? };
    findings.push(server(&socket));
    let text = match global.format.unwrap_or_default() {
        PrintFormat::Text => findings.iter().map(lines).collect(),
        format => fleet_cli::document(format, &findings).map_err(|failure| failure.message)?,
    };
    terminal::print(&text).map_err(|error| error.to_string())?;
    // A server that does not run is no problem of an installation, and not ready.
    let is_bad = |level| level == FindingLevel::Problem || (options.ready && level != FindingLevel::Ok);
    let is_any = findings.iter().any(|finding| is_bad(finding.level));
    Ok(if is_any { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

fn lines(finding: &Finding) -> String {
    let word = match finding.level {
        FindingLevel::Ok => "ok",
        FindingLevel::Warning => "warning",
        FindingLevel::Problem => "problem",
    };
    let advice = if finding.advice.is_empty() { String::new() } else { format!("{:8} {}\n", "", finding.advice) };
    format!("{word:8} {}\n{advice}", finding.what)
}

/// What is found in the data and in the configuration.
fn installation(options: &Doctor, socket: &Path) -> Result<Vec<Finding>, String> {
    let place = Settings::store(options.data.as_ref(), options.store.as_ref(), &options.config)?;
    let mut findings = fleet_store::doctor(&place, || of_owner(socket));
    let file = with_file(Serve::default(), &options.config)?;
    let how = file.enrolment.as_deref().map_or_else(|| Ok(Enrolment::default()), str::parse)?;
    findings.push(enrolment(how));
    let user = user(place.dir());
    let receiver = Receiver::of(file.webhook_url.clone(), file.webhook_secret_file.clone())?;
    findings.extend(receiver.map(|receiver| notify::doctor(&receiver, user)));
    let tuf = tuf_place(file.tuf_repository.clone(), file.tuf_online_key.clone())?;
    findings.extend(tuf.map(|place| tuf_site::doctor(&place, crate::clock::now())));
    let oidc = Oidc::of(&file, !file.plain || file.behind_proxy)?;
    findings.extend(oidc.map(|oidc| oidc::doctor(&oidc, user)));
    Ok(findings)
}

/// Whom the server runs as: root looks for another, to whom the data belong.
fn user(data: &Path) -> u32 {
    let own = rustix::process::geteuid().as_raw();
    let owner = || std::fs::metadata(data).map(|found| found.uid()).ok();
    if own == 0 { owner().unwrap_or(own) } else { own }
}

/// Who is trusted, as the configuration says.
fn enrolment(how: Enrolment) -> Finding {
    match how {
        Enrolment::Open => Finding::warning(
            "enrolment is open: whoever reports first as a host is trusted",
            "set `enrolment: token` or `approve` where others than your hosts reach the server",
        ),
        Enrolment::Token => Finding::ok("new hosts enrol with a join token"),
        Enrolment::Approve => Finding::ok("an admin accepts each new host"),
    }
}

/// What the server behind `socket` says of itself.
fn server(socket: &Path) -> Finding {
    let shown = socket.display();
    match ask(socket, "/readyz") {
        Ok(answer) if status(&answer) == Some(200) => Finding::ok("the server is ready"),
        Ok(answer) => Finding::problem(
            format!("the server at {shown} is not ready: {}", said(&answer)),
            "look at its log: journalctl -u teleport-fleet",
        ),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            Finding::warning(format!("no server runs at {shown}"), "start it, or name its socket with --admin-socket")
        }
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Finding::warning(
            format!("the server at {shown} may not be asked whether it is ready"),
            "run as root or as a member of the group teleport-fleet",
        ),
        Err(error) => Finding::problem(format!("the server at {shown} does not answer: {error}"), "see its log"),
    }
}

/// What the server behind `socket` found in its data.
fn of_owner(socket: &Path) -> Option<Vec<Finding>> {
    let answer = ask(socket, "/v1/fleet/doctor").ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

fn ask(socket: &Path, path: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn status(answer: &str) -> Option<u16> {
    answer.split(' ').nth(1)?.parse().ok()
}

/// The message of an error, else the first line.
fn said(answer: &str) -> String {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let message = serde_json::from_str(body).ok().map(|fleet_wire::api::ErrorAnswer { error }| error.message);
    let line = message.as_deref().or(answer.lines().next()).unwrap_or_default();
    cleaned(line)
}
