//! How long the agent is away in an upgrade, a downgrade and a bare restart; and how long a verdict takes.

use std::io;

use rusqlite::Connection;
use serde_json::json;

use crate::bench::bed::Bed;
use crate::bench::lab::Lab;
use crate::bench::probe::Probe;

/// No watch after the verdict: it is measured apart, and would be a minute for each run. All else is the default.
const SETTINGS: &str = "  watch: 0s\n";
/// A systemd unit without `ExecReload=` is stopped and started.
const NO_RELOAD: &str = "[Service]\nExecReload=\n";

/// Reloads the agent and waits until its successor has taken over.
const RELOAD: &str = "old=$(cat /run/teleport.pid); systemctl reload teleport; n=0; \
                      until test -s /run/teleport.pid && test \"$(cat /run/teleport.pid)\" != \"$old\"; \
                      do n=$((n+1)); test $n -lt 2000; sleep 0.01; done";

/// What was measured with databases of one size.
#[derive(Debug, Clone, Default)]
pub struct Downtimes {
    /// The database's size, MB.
    pub megabytes: u64,
    /// Seconds without an answer in an upgrade (reload).
    pub upgrade: Vec<f64>,
    /// The same in a `systemctl reload` after it, of the same agent.
    pub reload: Vec<f64>,
    /// The same in the downgrade of the same round.
    pub downgrade: Vec<f64>,
    /// The same in a `systemctl restart` after it, of the same agent with the same database.
    pub restart: Vec<f64>,
}

/// Verdicts, seconds.
#[derive(Debug, Clone, Default)]
pub struct Verdicts {
    /// On a good version, after a reload.
    pub healthy: Vec<f64>,
    /// On a good version, after a start.
    pub healthy_start: Vec<f64>,
    /// On one that exits at once, after a reload.
    pub exits_reload: Vec<f64>,
    /// The same, after a start.
    pub exits_start: Vec<f64>,
}

/// Measures `rounds` rounds with each of these sizes (MB, ascending), and the verdicts. `None`: no bed here.
///
/// # Errors
/// The bed, or a run that should succeed.
pub fn measure(lab: &Lab, sizes: &[u64], rounds: usize) -> io::Result<Option<(Vec<Downtimes>, Verdicts)>> {
    lab.server.publish("1.0.0", json!({"updater": false}))?;
    lab.server.name("1.0.0")?;
    let Some(bed) = Bed::up(lab, SETTINGS)? else { return Ok(None) };
    let mut verdicts = Verdicts::default();
    let mut downtimes = Vec::new();
    let mut minor = 0;
    for &megabytes in sizes {
        fill(&bed, megabytes)?;
        let mut found = Downtimes { megabytes, ..Downtimes::default() };
        for round in 0..rounds {
            eprintln!("downtime: {megabytes} MB, round {} of {rounds}", round + 1);
            minor += 1;
            // A new version each time: one with a database copy of its own would bring that back, by a start.
            let next = format!("2.{minor}.0");
            lab.server.publish(&next, json!({"updater": false, "schema": 2}))?;
            let (gap, verdict) = update(lab, &bed, &next)?;
            found.upgrade.push(gap);
            verdicts.healthy.extend(verdict);
            let probe = Probe::start(bed.data())?;
            bed.exec(RELOAD)?;
            found.reload.push(after_an_answer(probe)?);
            let (gap, verdict) = update(lab, &bed, "1.0.0")?;
            found.downgrade.push(gap);
            verdicts.healthy_start.extend(verdict);
            let probe = Probe::start(bed.data())?;
            bed.exec("systemctl restart teleport")?;
            bed.until_ready();
            found.restart.push(after_an_answer(probe)?);
        }
        downtimes.push(found);
    }
    for reload in [true, false] {
        if !reload {
            let drop_in = bed.path("/etc/systemd/system/teleport.service.d/bench.conf");
            drop_in.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            std::fs::write(drop_in, NO_RELOAD)?;
            bed.exec("systemctl daemon-reload")?;
        }
        for round in 0..rounds {
            eprintln!("verdict: exits at once, {}, round {}", if reload { "reload" } else { "start" }, round + 1);
            minor += 1;
            let next = format!("3.{minor}.0");
            lab.server.publish(&next, json!({"updater": false, "behaviour": "exit-at-once"}))?;
            lab.server.name(&next)?;
            let ran = bed.updater("update");
            if ran.success {
                return Err(io::Error::other(format!("a broken version was believed: {:?}", ran.log)));
            }
            let of = if reload { &mut verdicts.exits_reload } else { &mut verdicts.exits_start };
            of.extend(ran.verdict());
            bed.until_ready();
        }
    }
    Ok(Some((downtimes, verdicts)))
}

/// Lets the cluster name `version`, and updates: seconds without an answer, and to the verdict.
fn update(lab: &Lab, bed: &Bed, version: &str) -> io::Result<(f64, Option<f64>)> {
    lab.server.name(version)?;
    let probe = Probe::start(bed.data())?;
    let ran = bed.updater("update");
    if !ran.success {
        return Err(io::Error::other(format!("update to {version}: {:?}", ran.log)));
    }
    bed.until_ready();
    Ok((after_an_answer(probe)?, ran.verdict()))
}

/// The gap; the probe goes on until the agent has answered for some time, so that the gap's end is in it.
fn after_an_answer(probe: Probe) -> io::Result<f64> {
    std::thread::sleep(std::time::Duration::from_millis(300));
    probe.end().map(crate::bench::probe::Gap::seconds)
}

/// Makes the agent's database about this large, with the agent stopped meanwhile.
fn fill(bed: &Bed, megabytes: u64) -> io::Result<()> {
    bed.exec("systemctl stop teleport")?;
    let path = bed.data().join("proc/sqlite.db");
    let fill = || -> rusqlite::Result<()> {
        let database = Connection::open(path)?;
        database.execute_batch("CREATE TABLE IF NOT EXISTS filler (data BLOB)")?;
        let pages: i64 = database.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        // A row fills a page of 4 KiB, SQLite's default.
        let missing = (megabytes as i64 * 1_000_000 / 4096 - pages).max(0);
        database.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) \
             INSERT INTO filler SELECT randomblob(4000) FROM n",
            [missing],
        )?;
        database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
    };
    fill().map_err(io::Error::other)?;
    bed.exec("systemctl start teleport")?;
    bed.until_ready();
    Ok(())
}
