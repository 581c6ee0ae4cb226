//! How long a client may take, and how many may be connected.

use std::time::Duration;

/// The limits of one listener. A time that is over is noticed up to a quarter of the shortest of them later, at most a
/// second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerLimits {
    /// The TLS handshake, from the accepted connection on.
    pub(crate) handshake: Duration,
    /// A whole request head, from its first byte on; the first one from the connection (or handshake) on.
    pub(crate) head: Duration,
    /// A whole request body, from the end of its head on. What reads the body then gets [`super::BodyError::TooSlow`].
    pub(crate) body: Duration,
    /// The pause between two requests.
    pub(crate) idle: Duration,
    /// Without any progress of a response that the client does not read.
    pub(crate) write: Duration,
    /// What requests under way get to end in after the stop.
    pub(crate) drain: Duration,
    /// Open connections. Beyond it the one that has waited longest for its client is closed.
    pub(crate) connections: usize,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            // A slow link and a loaded host need a second or two; ten are patience enough.
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            // nginx's default, which proxies in front of servers expect.
            idle: Duration::from_secs(75),
            write: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            // Needs as many file descriptors (systemd: LimitNOFILE=); without them the idle are closed earlier.
            connections: 10_000,
        }
    }
}

/// What is left of an answered connection may arrive for so long, so that the answer is not lost to a reset.
pub(crate) const LINGER: Duration = Duration::from_secs(2);

impl ListenerLimits {
    /// How often the connections are looked through.
    pub(crate) fn sweep(&self) -> Duration {
        let shortest = self.handshake.min(self.head).min(self.idle).min(self.write);
        (shortest / 4).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }
}
